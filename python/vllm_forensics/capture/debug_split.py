"""Takes the debug information out of an ELF file, with binutils' objcopy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import Limits, run_program
from vllm_forensics.errors import ToolError

_LIMITS: Final = Limits(timeout_s=600, memory_bytes=32 << 30)


def write_debug_file(source: Path, target: Path) -> None:
    """Write what a debugger needs beside the code: debug sections, symbols, notes.

    Raises:
        ToolError: objcopy is missing, or cannot read this file.

    """
    _objcopy("--only-keep-debug", source, target)


def write_stripped(source: Path, target: Path) -> None:
    """Write the file without its debug sections. Its symbols stay: they name the functions.

    Raises:
        ToolError: objcopy is missing, or cannot read this file.

    """
    _objcopy("--strip-debug", source, target)


def _objcopy(option: str, source: Path, target: Path) -> None:
    command = ("objcopy", option, str(source), str(target))
    try:
        done = run_program(command, limits=_LIMITS)
    except ToolError as error:
        raise ToolError(error.message, remedy="apt-get install binutils") from error
    if done.status != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ToolError(
            f"objcopy {option} failed with status {done.status}: {said[-1] if said else 'silent'}",
            remedy="a library for another processor needs binutils-multiarch, "
            "or to be split on such a machine",
        )
