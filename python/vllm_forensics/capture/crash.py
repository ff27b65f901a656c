"""Crashes a program on purpose and keeps the core that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.core_sources import cores_in
from vllm_forensics.capture.files import map_file
from vllm_forensics.capture.process import (
    Completed,
    Limits,
    find_program,
    plain_environment,
    run_program,
)
from vllm_forensics.errors import EvidenceError, ToolError

_SCRIPT: Final = (
    "set confirm off",
    "set auto-load off",
    "set debuginfod enabled off",
    "set startup-with-shell off",
    "run",
    # Without a signal there is no process left: the first two fail then, and change nothing.
    "python import gdb",
    "python exec(\"try: gdb.execute('generate-core-file core.gdb')\\nexcept gdb.error: pass\")",
    "python code = gdb.parse_and_eval('$_exitcode')",
    "python exec(\"if code.type.code != gdb.TYPE_CODE_VOID: gdb.execute('quit %d' % int(code))\")",
    "python number = int(gdb.parse_and_eval('$_siginfo.si_signo'))",
    "python gdb.execute('quit %d' % (128 + number))",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRun:
    """How a program ended, and its core if it left one."""

    completed: Completed
    core: Path | None


def run_for_core(
    arguments: Sequence[str], folder: Path, *, kernel_writes: bool, timeout_s: float = 30.0
) -> CrashRun:
    """Run a program until it ends, dead or alive, in `folder`, which is emptied of cores before.

    Where the kernel cannot be made to write cores there (a pipe handler, a hard limit of 0), gdb
    runs the program and writes the core at the moment of the fatal signal.

    Raises:
        ToolError: the program did not start or did not end in time; no gdb where one is needed.

    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in cores_in(folder):
        old.unlink()
    limits = Limits(timeout_s=timeout_s, core_bytes=-1, output_bytes=1 << 20)
    environment = plain_environment({"FORENSICS_DEMO": "1"})
    if kernel_writes:
        completed = run_program(arguments, limits=limits, cwd=folder, environment=environment)
    else:
        completed = _run_under_gdb(arguments, folder, limits, environment)
    cores = cores_in(folder)
    return CrashRun(completed=completed, core=cores[0] if cores else None)


def _run_under_gdb(
    arguments: Sequence[str], folder: Path, limits: Limits, environment: dict[str, str]
) -> Completed:
    if find_program("gdb") is None:
        raise ToolError(
            "the kernel writes no cores here, and gdb is not installed to stand in for it",
            remedy="apt-get install gdb, or as root: sysctl kernel.core_pattern=core.%p",
        )
    commands = [part for line in _SCRIPT for part in ("-ex", line)]
    gdb = ("gdb", "-nx", "-q", "-batch", *commands, "--args", *arguments)
    completed = run_program(gdb, limits=limits, cwd=folder, environment=environment)
    status = completed.status
    return Completed(
        status=128 - status if status > 128 else status,
        stdout=completed.stdout,
        stderr=completed.stderr,
        pid=completed.pid,
    )


def find_new_cores(folder: Path, pid: int) -> list[Path]:
    """The cores of one process in a folder, by the process id that they hold."""
    found = []
    for path in cores_in(folder):
        try:
            notes = map_file(path)
        except EvidenceError:
            continue
        if _holds_pid(bytes(notes[: 1 << 16]), pid):
            found.append(path)
    return found


def _holds_pid(head: bytes, pid: int) -> bool:
    """Is this the pid of the core's first NT_PRSTATUS? It lies 32 bytes into the note (core(5))."""
    at = head.find(b"CORE\0\0\0\0")
    return at >= 0 and head[at + 8 + 32 : at + 8 + 36] == pid.to_bytes(4, "little")
