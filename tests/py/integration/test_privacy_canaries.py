"""Canaries in memory, environment and arguments: searched for in everything that is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.py.integration.crashes import leave_core
from tests.py.integration.tool import COMMAND, forensics

PYTHON = sys.executable
CANARY = "c4n4ry-Th1s-must-never-show"
# The words are written letter by letter and backwards: no other copy of them is in the process.
# The last line has a pointer to that page in a register; it copies zeros.
VICTIM = """\
import ctypes, mmap, sys
from vllm_forensics import exclude

def plant(buffer, backwards):
    for index in range(len(backwards)):
        buffer[4000 + index] = ord(backwards[-1 - index])
    return buffer

hidden = plant(mmap.mmap(-1, 1 << 16), "yr4n4c-neddih")
plain = plant(bytearray(1 << 16), "yr4n4c-nialp")
if sys.argv[1] == "exclude":
    assert exclude(hidden) == 1 << 16
where = ctypes.addressof(ctypes.c_char.from_buffer(hidden))
ctypes.memmove(0x48, where, 64)
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim.py"
    path.write_text(VICTIM, encoding="utf-8")
    return path


def holds(path: Path, word: str, encoding: str = "utf-8") -> bool:
    return word.encode(encoding) in path.read_bytes()


def run(
    folder: Path, *options: str, command: Sequence[str | Path], **environment: str
) -> tuple[list[Path], str]:
    """Everything that a run left in its folder, and what it printed."""
    done = subprocess.run(
        ("prlimit", "--core=0:", COMMAND, "run", "--folder", folder, *options, "--", *command),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGSEGV, done
    return sorted(path for path in folder.iterdir() if path.is_file()), done.stdout + done.stderr


def test_the_kernels_core_leaves_excluded_memory_out(victim: Path, crash_folder: Path) -> None:
    core = leave_core((PYTHON, victim, "exclude"), crash_folder)

    assert not holds(core, "hidden-c4n4ry")
    assert holds(core, "plain-c4n4ry")


def test_without_the_mark_the_kernels_core_holds_it(victim: Path, crash_folder: Path) -> None:
    core = leave_core((PYTHON, victim, "keep"), crash_folder)

    assert holds(core, "hidden-c4n4ry")


@pytest.mark.parametrize("options", [(), ("--full",)], ids=["minicore", "full"])
def test_the_supervisors_core_leaves_excluded_memory_out(
    victim: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    left, said = run(tmp_path / "out", *options, command=(PYTHON, victim, "exclude"))

    assert any("core." in path.name for path in left)
    assert not [path for path in left if holds(path, "hidden-c4n4ry")]
    assert "hidden-c4n4ry" not in said


def test_a_pointed_at_page_is_in_the_minicore_without_the_mark(
    victim: Path, tmp_path: Path
) -> None:
    left, _ = run(tmp_path / "out", command=(PYTHON, victim, "keep"))

    assert [path for path in left if holds(path, "hidden-c4n4ry")]


FALL = "import os, ctypes; ctypes.string_at(0x48)"
ARGUMENTS = (CANARY, f"--token={CANARY}")
NAMED = (f"--token={CANARY}", "--password", f"{CANARY} and more", f"HF_TOKEN={CANARY}")


def test_environment_and_arguments_are_not_in_a_minicore(tmp_path: Path) -> None:
    left, _ = run(
        tmp_path / "out",
        command=(PYTHON, "-c", FALL, *ARGUMENTS),
        PLAIN=f"env-{CANARY}",
        API_TOKEN=CANARY,
    )

    assert [path.name for path in left if holds(path, CANARY)] == []


def test_the_interpreters_wide_copies_are_not_in_a_minicore(tmp_path: Path) -> None:
    """Python keeps its arguments as wchar_t strings on the heap (PyWideStringList)."""
    left, _ = run(tmp_path / "out", command=(PYTHON, "-c", FALL, *ARGUMENTS))

    assert [path.name for path in left if holds(path, CANARY, "utf-32-le")] == []


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("strace", [(), ("--strace",)], ids=["supervisor", "strace"])
def test_secrets_are_in_no_report(tmp_path: Path, output: str, strace: tuple[str, ...]) -> None:
    report = tmp_path / "report"

    left, said = run(
        tmp_path / "out",
        *(*strace, "--format", output, "--output", str(report)),
        command=(PYTHON, "-c", FALL, *NAMED),
        API_TOKEN=CANARY,
    )

    assert CANARY not in report.read_text(encoding="utf-8")
    assert CANARY not in said
    assert [path.name for path in left if holds(path, CANARY)] == []


def test_a_report_of_the_minicore_alone_holds_no_secret(tmp_path: Path) -> None:
    left, _ = run(
        tmp_path / "out", command=(PYTHON, "-c", FALL, *ARGUMENTS, *NAMED), API_TOKEN=CANARY
    )
    [core] = [path for path in left if path.name.startswith("core.")]

    for output in ("text", "json"):
        answer = forensics("core", "--format", output, core)

        assert answer.status == 1
        assert CANARY not in answer.stdout + answer.stderr


def test_whoever_asks_for_secrets_gets_them(tmp_path: Path) -> None:
    report = tmp_path / "report.json"

    left, _ = run(
        tmp_path / "out",
        *("--include-secrets", "--format", "json", "--output", str(report)),
        command=(PYTHON, "-c", FALL, *ARGUMENTS),
        API_TOKEN=f"env-{CANARY}",
    )

    assert CANARY in report.read_text(encoding="utf-8")
    assert [path for path in left if holds(path, f"env-{CANARY}")]
