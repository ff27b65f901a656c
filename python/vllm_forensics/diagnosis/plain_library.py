"""Why a library came out without what was asked for, as far as the build's own traces prove it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vllm_forensics.model.build import BuiltFile, CompilerCall, FileTrace, SourceLine, Verdict

_MAX_LINES: Final = 3
_LONGEST: Final = 240
_STRIPPING: Final = ("-s", "-S", "--strip-all", "--strip-debug")


def why_plain(file: BuiltFile, trace: FileTrace) -> tuple[str, ...]:
    """The reasons that can be shown; empty where the file is not plain, or nothing shows why."""
    if file.proof.verdict is Verdict.PROVED:
        return ()
    if trace.twin is not None:
        return (f"it lies ready-built in the source tree, as {trace.twin}: nothing compiled it",)
    if trace.linked_by is None:
        return tuple(_another_compiler(file, trace))
    return tuple(_undone(file, trace, trace.linked_by))


def _another_compiler(file: BuiltFile, trace: FileTrace) -> Iterator[str]:
    made_by = f" ({_maker(file)})" if file.proof.plain_units else ""
    yield f"the compiler that the build was given did not link it{made_by}"
    yield from _cited(trace.compiler_lines, "chooses a compiler")


def _undone(file: BuiltFile, trace: FileTrace, call: CompilerCall) -> Iterator[str]:
    if not file.proof.debug_info:
        if _asks_to_strip(call):
            yield "its linker was told to strip it"
        else:
            yield "it was linked with debug information and stripped afterwards"
        yield from _cited(trace.strip_lines, "strips")
    if file.proof.plain_units:
        named = ", ".join(unit.name for unit in file.proof.plain_units[:_MAX_LINES])
        yield (
            f"{named}: compiled by another call than those that the build was given "
            f"({_maker(file)})"
        )
        yield from _cited(trace.compiler_lines, "chooses a compiler")


def _maker(file: BuiltFile) -> str:
    """Who compiled the first plain unit. clang records whole command lines."""
    words = file.proof.plain_units[0].producer
    return words if len(words) <= _LONGEST else words[:_LONGEST] + " …"


def _asks_to_strip(call: CompilerCall) -> bool:
    words = [word for argument in call.arguments for word in argument.split(",")]
    return any(word in _STRIPPING for word in words)


def _cited(lines: tuple[SourceLine, ...], does: str) -> Iterator[str]:
    for line in lines[:_MAX_LINES]:
        yield f"{line.file}:{line.line} {does}: {line.text}"
