"""Gives the frames of sanitizer reports their functions and lines, as far as files here know them.

Offsets that a runtime prints of callers lie in the call already (GetPreviousInstructionPc in
sanitizer_stacktrace.h; libunwindstack does the same); glibc's backtrace_symbols prints return
addresses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from vllm_forensics.investigate.located_modules import plain_build_id
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.model.answer import Answer, Gap
from vllm_forensics.model.locations import (
    Certainty,
    CodeOffsets,
    LeftModule,
    ResolvedModule,
    Symbolization,
)
from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer import LogReading, PrintedFrame, PrintedReport, StackEvent

_MAX_MODULES: Final = 500
_OFFSET: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")
_FULL_PATH: Final = re.compile(r"\((/[^()\s]{1,1000})\+0x[0-9a-fA-F]{1,16}\)")
_NO_MODULE: Final = "the runtime could not say which module: generated code, or unloaded by then"

_Key = tuple[str, str | None]
_Input = tuple[str, LogReading | None, Failure | None]


@dataclass(slots=True)
class _Asked:
    offsets: dict[int, None] = field(default_factory=dict)
    calls: set[int] = field(default_factory=set)


def with_locations_of(
    inputs: Sequence[_Input], symbolizer: Symbolizer | None
) -> tuple[list[_Input], Symbolization | None]:
    """The inputs of a command with their readings' frames named; as they are without symbolizer."""
    if symbolizer is None:
        return list(inputs), None
    readings = [reading for _, reading, _ in inputs if reading is not None]
    named, outcome = with_locations(readings, symbolizer)
    following = iter(named)
    return [
        (path, next(following) if reading is not None else None, failure)
        for path, reading, failure in inputs
    ], outcome


def with_locations(
    readings: Sequence[LogReading], symbolizer: Symbolizer
) -> tuple[list[LogReading], Symbolization]:
    """The readings with every frame named that can be, and what came of it.

    A frame becomes several where functions were inlined: they share its index, pc and offset.
    """
    asked: dict[_Key, _Asked] = {}
    for reading in readings:
        for report in reading.reports:
            _gather(report, asked)
    answers = {
        key: _answer(symbolizer, key, what, beyond=at >= _MAX_MODULES)
        for at, (key, what) in enumerate(asked.items())
    }
    namer = _Namer(answers)
    named = [
        replace(reading, reports=tuple(namer.report(report) for report in reading.reports))
        for reading in readings
    ]
    return named, namer.outcome(symbolizer.used)


def _gather(report: PrintedReport, asked: dict[_Key, _Asked]) -> None:
    modules = _Modules(report)
    for event in report.chain:
        for position, frame in enumerate(event.frames):
            offset, key = _offset_of(frame), modules.key_of(frame)
            if key is None or offset is None or not _lacks(frame):
                continue
            what = asked.setdefault(key, _Asked())
            what.offsets[offset - 1 if frame.is_return_address else offset] = None
            if frame.is_return_address:
                what.offsets[offset] = None
            elif position > 0 and frame.pc != event.frames[position - 1].pc:
                what.calls.add(offset)


class _Modules:
    """Each printed module's path and BuildId.

    ThreadSanitizer prints bare names in frames and the path in its SUMMARY; some frames of a module
    come with its BuildId and some without.
    """

    def __init__(self, report: PrintedReport) -> None:
        self._ids: dict[str, set[str]] = {}
        for event in report.chain:
            for frame in event.frames:
                known = plain_build_id(frame.build_id)
                if frame.module is not None:
                    self._ids.setdefault(frame.module, set()).update([known] if known else [])
        self._paths: dict[str, set[str]] = {}
        if any("/" not in name for name in self._ids):
            for match in _FULL_PATH.finditer(report.raw):
                self._paths.setdefault(match[1].rpartition("/")[2], set()).add(match[1])

    def key_of(self, frame: PrintedFrame) -> _Key | None:
        """What a frame's module is looked up by."""
        if frame.module is None:
            return None
        places = self._paths.get(frame.module, set())
        ids = self._ids.get(frame.module, set())
        build_id = plain_build_id(frame.build_id)
        if build_id is None and len(ids) == 1:
            build_id = next(iter(ids))
        return next(iter(places)) if len(places) == 1 else frame.module, build_id


def _answer(
    symbolizer: Symbolizer, key: _Key, what: _Asked, *, beyond: bool
) -> Answer[ResolvedModule]:
    if beyond:
        return Gap(
            what=f"more than {_MAX_MODULES} modules are named", remedy="give fewer logs at once"
        )
    return symbolizer.resolve(
        CodeOffsets(
            module=key[0],
            build_id=key[1],
            offsets=tuple(what.offsets),
            calls=frozenset(what.calls),
        )
    )


class _Namer:
    """Replaces frames by what was found, and counts."""

    def __init__(self, answers: dict[_Key, Answer[ResolvedModule]]) -> None:
        self._answers = answers
        self._counts: Counter[Certainty] = Counter()
        self._left: Counter[tuple[str | None, str, str]] = Counter()

    def report(self, report: PrintedReport) -> PrintedReport:
        """The same report with names."""
        modules = _Modules(report)
        chain = tuple(
            replace(event, frames=tuple(self._frames(event, modules))) for event in report.chain
        )
        return replace(report, chain=chain)

    def outcome(self, symbolizers: tuple[str, ...]) -> Symbolization:
        """What came of all frames."""
        left = tuple(
            LeftModule(module=module, frames=count, why=why, remedy=remedy)
            for (module, why, remedy), count in self._left.most_common()
        )
        proved, likely = self._counts[Certainty.PROVED], self._counts[Certainty.LIKELY]
        return Symbolization(
            asked=proved + likely + self._left.total(),
            proved=proved,
            likely=likely,
            left=left,
            symbolizers=symbolizers,
        )

    def _frames(self, event: StackEvent, modules: _Modules) -> Iterator[PrintedFrame]:
        interrupted = False  # is the next frame's address one that a signal interrupted?
        for frame in event.frames:
            exact, interrupted = interrupted, False
            offset, key = _offset_of(frame), modules.key_of(frame)
            answer = self._answers.get(key) if key is not None else None
            if not _lacks(frame):
                yield frame
                continue
            if offset is None or answer is None:
                self._leave(frame, _NO_MODULE)
                yield frame
                continue
            if isinstance(answer, Gap):
                self._leave(frame, answer.what, answer.remedy)
                yield frame
                continue
            if frame.is_return_address and not exact:
                interrupted = offset in answer.value.signal_returns
                offset -= 0 if interrupted else 1
            yield from self._named(frame, answer.value, offset)

    def _named(
        self, frame: PrintedFrame, resolved: ResolvedModule, offset: int
    ) -> tuple[PrintedFrame, ...]:
        named = _named(frame, resolved, offset)
        if not named:
            self._leave(frame, resolved.unnamed.get(offset, "nothing is known there"))
            return (frame,)
        self._counts[resolved.certainty_of(offset)] += 1
        return named

    def _leave(self, frame: PrintedFrame, why: str, remedy: str = "") -> None:
        if frame.function is None:
            self._left[(frame.module, why, remedy)] += 1


def _named(frame: PrintedFrame, resolved: ResolvedModule, offset: int) -> tuple[PrintedFrame, ...]:
    locations = resolved.locations.get(offset, ())
    if frame.function is not None and not any(spot.line for spot in locations):
        return ()  # the log says as much
    return tuple(
        replace(
            frame,
            function=spot.function or frame.function,
            file=spot.file,
            line=spot.line,
            column=spot.column,
            symbolized=resolved.certainty_of(offset),
        )
        for spot in locations
    )


def _lacks(frame: PrintedFrame) -> bool:
    return frame.function is None or (frame.file is None and frame.offset is not None)


def _offset_of(frame: PrintedFrame) -> int | None:
    if frame.offset is None or _OFFSET.fullmatch(frame.offset) is None:
        return None
    return int(frame.offset, 16)
