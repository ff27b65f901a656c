"""Runs an installed symbolizer on a module: llvm-symbolizer, else eu-addr2line, else addr2line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import Limits, find_program, run_program
from vllm_forensics.errors import ToolError

INSTALL: Final = "apt-get install llvm    # or elfutils, or binutils"
BATCH: Final = 5_000
"""Offsets of one process: they are its arguments."""
_LLVM_VERSIONS: Final = range(30, 8, -1)
_FIRST_WITH_JSON: Final = 13
_VERSION: Final = re.compile(rb"LLVM version (\d{1,4})\.")
_MEMORY_BYTES: Final = 16 << 30
"""Of address space: debug information of several gigabytes is mapped whole."""
_OUTPUT_BYTES: Final = 256 << 20
_ERROR_LENGTH: Final = 200


class OutputForm(StrEnum):
    """How a symbolizer writes its answers."""

    JSON = "json"
    LINES = "lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolizerProgram:
    """An installed symbolizer."""

    name: str
    path: str
    form: OutputForm
    arguments: tuple[str, ...]
    """Before the addresses; the last takes the module's path behind it."""
    good_statuses: frozenset[int] = frozenset({0})
    is_complete: bool = True
    """Does it find every line that the debug information has?"""
    is_exact: bool = True
    """Is every place that it prints the right one?"""


@lru_cache(maxsize=1)
def installed_symbolizers() -> tuple[SymbolizerProgram, ...]:
    """Those that are here, the best first."""
    found = (_llvm(), _elfutils(), _binutils())
    return tuple(program for program in found if program is not None)


def run_symbolizer(
    program: SymbolizerProgram, module: Path, offsets: Sequence[int], *, timeout_s: float
) -> str:
    """What the program prints about at most BATCH offsets of one module.

    Raises:
        ToolError: it died, refused the module, or did not finish in time.

    """
    # An absolute path behind `=`: neither `-x` nor `@x` can be taken for an option or a file of
    # options. No debuginfod: its servers are named in the environment, which stays behind.
    fixed = (*program.arguments[:-1], f"{program.arguments[-1]}{module.absolute()}")
    done = run_program(
        [program.path, *fixed, *(f"0x{offset:x}" for offset in offsets)],
        limits=Limits(timeout_s=timeout_s, output_bytes=_OUTPUT_BYTES, memory_bytes=_MEMORY_BYTES),
    )
    if done.status not in program.good_statuses:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        how = f"died of signal {-done.status}" if done.status < 0 else f"failed ({done.status})"
        detail = f": {said[-1][:_ERROR_LENGTH]}" if said and done.status > 0 else ""
        raise ToolError(
            f"{program.name} {how} on {module}{detail}",
            remedy="is the file whole? put the same build there again",
        )
    return done.stdout.decode("utf-8", "replace")


def _llvm() -> SymbolizerProgram | None:
    names = ("llvm-symbolizer", *(f"llvm-symbolizer-{number}" for number in _LLVM_VERSIONS))
    for name in names:
        path = find_program(name)
        if path is None:
            continue
        try:
            said = run_program([path, "--version"], limits=Limits(timeout_s=20)).stdout
        except ToolError:
            continue
        version = _VERSION.search(said)
        if version is None:
            continue
        has_json = int(version[1]) >= _FIRST_WITH_JSON
        style = ("--output-style=JSON",) if has_json else ("--addresses", "--output-style=GNU")
        return SymbolizerProgram(
            name=name,
            path=path,
            form=OutputForm.JSON if has_json else OutputForm.LINES,
            arguments=("--inlines", "--demangle", "--functions=linkage", *style, "--obj="),
        )
    return None


def _elfutils() -> SymbolizerProgram | None:
    """Version 0.188 finds no line where .debug_aranges is missing, as in what clang compiles."""
    path = find_program("eu-addr2line")
    if path is None:
        return None
    return SymbolizerProgram(
        name="eu-addr2line",
        path=path,
        form=OutputForm.LINES,
        arguments=("-a", "-i", "-f", "-C", "--executable="),
        good_statuses=frozenset({0, 1}),  # 1: one of the addresses is not known
        is_complete=False,
    )


def _binutils() -> SymbolizerProgram | None:
    """Version 2.40 misreads DWARF 5's tables: of a function in a header it can name the including
    file, and leave out what clang inlined.
    """  # noqa: D205 - one sentence
    path = find_program("addr2line")
    if path is None:
        return None
    return SymbolizerProgram(
        name="addr2line",
        path=path,
        form=OutputForm.LINES,
        arguments=("-a", "-i", "-f", "-C", "--exe="),
        is_exact=False,
    )
