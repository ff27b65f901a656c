"""Offsets in modules to functions, files and lines, by a symbolizer that is installed.

One process a module; a module that kills it costs its own names and no other's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vllm_forensics.capture.symbolizer import (
    BATCH,
    INSTALL,
    OutputForm,
    SymbolizerProgram,
    installed_symbolizers,
    run_symbolizer,
)
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.code_offsets import (
    covered_by_symbols,
    ends_a_call,
    is_code,
    is_signal_return,
)
from vllm_forensics.evidence.symbolizer_output import (
    Locations,
    parse_symbolizer_json,
    parse_symbolizer_lines,
)
from vllm_forensics.investigate.located_modules import FilesByBuildId, LocatedModule, LocatedModules
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.locations import Certainty, CodeOffsets, Location, ResolvedModule

_MODULE_S: Final = 60.0
_TOTAL_S: Final = 300.0
_MAX_OFFSETS: Final = 50_000


@dataclass(slots=True)
class _Answers:
    locations: Locations = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)

    def has_line(self, offset: int) -> bool:
        return any(spot.line for spot in self.locations.get(offset, ()))

    def add(self, found: Locations, program: SymbolizerProgram) -> None:
        """Take over what is new, and a line where there was only a name."""
        for offset, locations in found.items():
            if offset in self.locations and not any(spot.line for spot in locations):
                continue
            self.locations[offset] = locations
            if not program.is_exact and any(spot.line for spot in locations):
                self.doubtful.add(offset)


class Symbolizer:
    """Answers for one module after the other, for as long as its time lasts."""

    def __init__(
        self,
        symbols: FilesByBuildId | None = None,
        programs: Sequence[SymbolizerProgram] | None = None,
    ) -> None:
        """`symbols` are files that the user gave; `programs` stand in for those installed."""
        self._modules = LocatedModules(symbols)
        self._programs = tuple(installed_symbolizers() if programs is None else programs)
        self._deadline = time.monotonic() + _TOTAL_S
        self._used: dict[str, None] = {}

    @property
    def used(self) -> tuple[str, ...]:
        """The programs that answered so far."""
        return tuple(self._used)

    def resolve(self, asked: CodeOffsets) -> Answer[ResolvedModule]:
        """Where the offsets are from, or why nothing of this module can be said."""
        if not self._programs:
            return Gap(what="no symbolizer is installed", remedy=INSTALL)
        found = self._modules(asked.module, asked.build_id)
        if isinstance(found, Gap):
            return found
        module = found.value
        unfit = _unfit(module, asked) if module.certainty is Certainty.LIKELY else None
        if unfit is not None:
            return unfit
        offsets = [o for o in dict.fromkeys(asked.offsets) if is_code(module.file, o)]
        answers = self._run(module, offsets[:_MAX_OFFSETS])
        if isinstance(answers, Gap):
            return answers
        kept = _believed(module, answers.locations)
        return Known(
            value=ResolvedModule(
                file=module.asked_path,
                certainty=module.certainty,
                locations=kept,
                doubtful=frozenset(answers.doubtful),
                unnamed={o: _why(module, o) for o in asked.offsets if o not in kept},
                signal_returns=frozenset(o for o in offsets if is_signal_return(module.file, o)),
            )
        )

    def _run(self, module: LocatedModule, offsets: Sequence[int]) -> _Answers | Gap:
        """Ask the best program that does not die of the module, and the next for what it lacks."""
        answers = _Answers()
        failure: ToolError | None = None
        deadline = min(self._deadline, time.monotonic() + _MODULE_S)
        for program in self._programs:
            missing = [offset for offset in offsets if not answers.has_line(offset)]
            if not missing:
                break
            try:
                found = self._ask(program, module.asked_path, missing, deadline)
            except ToolError as error:
                failure = failure or error
                continue
            self._used[program.name] = None
            answers.add(found, program)
            if program.is_complete or not module.asked.has_debug_info:
                break
        if failure is not None and not answers.locations:
            return Gap(what=failure.message, remedy=failure.remedy)
        return answers

    def _ask(
        self, program: SymbolizerProgram, path: str, offsets: Sequence[int], deadline: float
    ) -> Locations:
        found: Locations = {}
        for start in range(0, len(offsets), BATCH):
            batch = offsets[start : start + BATCH]
            left = deadline - time.monotonic()
            if left <= 0:
                raise ToolError(
                    f"no time was left: {_MODULE_S:g} s a module, {_TOTAL_S:g} s for all",
                    remedy="give fewer logs at once, or symbolize that module by hand",
                )
            text = run_symbolizer(program, Path(path), batch, timeout_s=left)
            if program.form is OutputForm.JSON:
                found |= parse_symbolizer_json(text)
            else:
                found |= parse_symbolizer_lines(text, batch)
        return found


def _unfit(module: LocatedModule, asked: CodeOffsets) -> Gap | None:
    """Without a build-id: of the file that ran, a call stands at each caller's offset."""
    told = [ends_a_call(module.file, offset) for offset in asked.calls]
    wrong = sum(answer is False for answer in told)
    known = sum(answer is not None for answer in told)
    outside = sum(not is_code(module.file, offset) for offset in asked.offsets)
    if 2 * wrong <= known and 2 * outside <= len(asked.offsets):
        return None
    return Gap(
        what="rebuilt since: "
        + (
            f"no call stands at {wrong} of {known} places that called"
            if 2 * wrong > known
            else f"{outside} of {len(asked.offsets)} offsets lie outside of the file's code"
        ),
        remedy="put the build that ran back there, or give its folder: --symbols DIR",
    )


def _believed(module: LocatedModule, found: Locations) -> dict[int, tuple[Location, ...]]:
    """Names without a line are believed where a symbol covers the offset.

    Symbolizers print the nearest symbol before it, however far away that is.
    """
    bare = [offset for offset, locations in found.items() if locations[-1].line is None]
    covered = covered_by_symbols(module.file, bare)
    if module.asked is not module.file:
        covered |= covered_by_symbols(module.asked, bare)
    return {
        offset: locations
        for offset, locations in found.items()
        if offset not in bare or offset in covered or any(spot.file for spot in locations)
    }


def _why(module: LocatedModule, offset: int) -> str:
    if not is_code(module.file, offset):
        return "the offset lies outside of its code"
    return "nothing is known there" if module.asked.has_debug_info else "no debug information"
