"""Takes the debug information out of an ELF file, with binutils' objcopy or elfutils' eu-strip."""

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
    _run(("objcopy", "--only-keep-debug", str(source), str(target)), "binutils")


def write_stripped(source: Path, target: Path) -> None:
    """Write the file without its debug sections. Its symbols stay: they name the functions.

    Raises:
        ToolError: objcopy is missing, or cannot read this file.

    """
    _run(("objcopy", "--strip-debug", str(source), str(target)), "binutils")


def write_stripped_in_place(source: Path, target: Path) -> None:
    """As `write_stripped`, with a tool that moves nothing that is loaded.

    patchelf, which auditwheel calls, puts sections where objcopy does not expect them: the library
    is then refused by the loader ("ELF load command address/offset not page-aligned"). But eu-strip
    pads the file, which makes it larger.

    Raises:
        ToolError: eu-strip is missing, or cannot read this file.

    """
    _run(("eu-strip", "-g", "-o", str(target), str(source)), "elfutils")


def _run(command: tuple[str, ...], package: str) -> None:
    try:
        done = run_program(command, limits=_LIMITS)
    except ToolError as error:
        raise ToolError(error.message, remedy=f"apt-get install {package}") from error
    if done.status != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ToolError(
            f"{command[0]} {command[1]} failed with status {done.status}: "
            f"{said[-1] if said else 'silent'}",
            remedy="a library for another processor needs binutils-multiarch, "
            "or to be split on such a machine",
        )
