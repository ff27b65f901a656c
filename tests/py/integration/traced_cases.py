"""Programs whose system calls explain their death, and how to trace them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.py.integration.victim_cases import run_tool

SOURCE: Final = Path(__file__).with_name("traced") / "victim.cpp"
COMMAND: Final = str(Path(sys.executable).parent / "forensics")
DATA: Final = Path(__file__).resolve().parents[1] / "data" / "strace"
SMALL_SHM: Final = ("unshare", "-m", "sh", "-c",
                    'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh")  # fmt: skip
NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCase:
    """One way to die."""

    way: str
    status: int
    kinds: tuple[str, ...]
    words: str
    """What the first sentence says, among other things."""
    around: tuple[str, ...] = ()
    """A program that starts the victim, and is traced too."""
    outside: tuple[str, ...] = ()
    """A program that starts the tracer."""
    needs_root: bool = False


ABORTED: Final = "killed-by-process"
CASES: Final = (
    TracedCase(
        way="unmap", status=139, kinds=("page-unmapped",), words="with munmap; it was used after"
    ),
    TracedCase(
        way="unmap-then-fork", status=0, kinds=("page-unmapped",), words="with munmap; it was used"
    ),
    TracedCase(way="protect", status=139, kinds=("page-protected",), words="given PROT_NONE only"),
    TracedCase(way="move", status=139, kinds=("page-unmapped",), words="with mremap"),
    TracedCase(
        way="memory",
        status=134,
        kinds=("memory-refused", ABORTED),
        words="mmap of 1.0 GiB was refused with ENOMEM",
        around=("sh", "-c", 'ulimit -v 200000; exec "$@"', "sh"),
    ),
    TracedCase(
        way="thread",
        status=134,
        kinds=("thread-refused", ABORTED),
        words="a new thread was refused (clone3: EAGAIN)",
        around=(*NOBODY, "prlimit", "--nproc=1:1"),
        needs_root=True,
    ),
    TracedCase(
        way="shm",
        status=135,
        kinds=("shared-memory-full",),
        words="was given 4.0 MiB with ftruncate, but /dev/shm had only 1.0 MiB free",
        outside=SMALL_SHM,
        needs_root=True,
    ),
    TracedCase(
        way="shm-missing",
        status=134,
        kinds=("file-missing", ABORTED),
        words='"/dev/shm/kv-cache-of-nobody" failed with ENOENT',
    ),
    TracedCase(
        way="descriptors",
        status=134,
        kinds=("descriptors-exhausted", ABORTED),
        words='openat of "/dev/null" failed with EMFILE',
        around=("prlimit", "--nofile=16:16"),
    ),
    TracedCase(
        way="library",
        status=134,
        kinds=("file-missing", ABORTED),
        words="libnot-on-this-machine.so.7 was looked for in",
    ),
    TracedCase(
        way="terminated", status=143, kinds=(ABORTED,), words="was ended with SIGTERM by process"
    ),
    TracedCase(
        way="killed", status=137, kinds=(ABORTED,), words="was ended with SIGKILL by process"
    ),
)


@contextmanager
def built_victim() -> Iterator[Path]:
    """The victim in a folder that every user may enter."""
    with TemporaryDirectory(prefix="traced-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        victim = folder / "victim"
        run_tool(("g++", "-g", "-O1", "-pthread", str(SOURCE), "-ldl", "-o", str(victim)))
        yield victim


def reason_to_skip(case: TracedCase) -> str | None:
    """Why this machine cannot make the case; None where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    if case.needs_root and os.geteuid() != 0:
        return "needs root"
    if case.outside:
        tried = subprocess.run((*case.outside, "true"), capture_output=True, check=False)
        if tried.returncode != 0:
            return f"no private mount namespace here: {tried.stderr.decode().strip()}"
    return None


def trace(case: TracedCase, victim: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the case under `forensics run --strace`; log and report.json are left in the folder."""
    return subprocess.run(
        (
            *("prlimit", "--core=0:", *case.outside, COMMAND, "run", "--strace"),
            *("--folder", str(folder), "--format", "json", "--output", str(folder / "report.json")),
            *("--", *case.around, str(victim), case.way),
        ),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without_numbers(text: str) -> str:
    """A sentence that may be compared with that of another run."""
    text = re.sub(r"/\S*/traced-\w+", "/traced", text)
    text = re.sub(r"0x[0-9a-f]+", "0x#", text)
    text = re.sub(r"[\d.]+ (?:ms|s) before", "# before", text)
    text = re.sub(r"in \d+ places", "in # places", text)  # the loader has some for each processor
    return re.sub(r"\b(process|thread) \d+", r"\1 #", text)
