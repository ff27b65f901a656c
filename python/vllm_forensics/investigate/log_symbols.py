"""Names the offsets of a log's native frames, by modules that the user gave or that are here.

A log seldom says of which build a module was: its name is then all there is to go by, and what is
found is marked likely.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from vllm_forensics.capture.files import map_file
from vllm_forensics.capture.system_libraries import system_library
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.elf import PF_X, PT_LOAD
from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.investigate.located_modules import plain_build_id
from vllm_forensics.investigate.symbol_index import SymbolIndex
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.model.answer import Answer, Gap
from vllm_forensics.model.incident import Clue, IncidentReading, NativeCall
from vllm_forensics.model.locations import (
    Certainty,
    CodeOffsets,
    LeftModule,
    ResolvedModule,
    Symbolization,
)
from vllm_forensics.model.record import dataclass

_OFFSET: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")
_KERNELS: Final = re.compile(
    r"\bip[ :](?P<ip>[0-9a-f]{1,16})\b.*? in [^\[]{1,200}"
    r"\[(?:(?P<in_file>[0-9a-f]{1,16}),)?(?P<start>[0-9a-f]{1,16})\+(?P<size>[0-9a-f]{1,16})\]"
)
_EXACT: Final = {"kernel", "systemd"}
"""Their first frame is the interrupted instruction, not a return address; sanitizers print none."""
_LIBC: Final = re.compile(r"libc[.-]")
_PAGE: Final = 4096
_MAX_MODULES: Final = 200
_GIVE: Final = "forensics log --symbols PLACE, where the module, its wheel or its symbols are"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A frame without a name, and where it is in its module's file."""

    module: str
    path: str
    build_id: str | None
    offset: int
    is_call: bool


class LogNamer:
    """Names the frames of readings; what cannot be named stays as it is and is counted."""

    def __init__(
        self,
        symbolizer: Symbolizer,
        symbols: SymbolIndex,
        build_ids: Mapping[str, str] | None = None,
    ) -> None:
        """`build_ids` are what else is known of the modules that ran, by their names."""
        self._symbolizer = symbolizer
        self._symbols = symbols
        self._build_ids = build_ids or {}
        self._paths: dict[tuple[str, str | None], str | Gap] = {}
        self._counts: Counter[Certainty] = Counter()
        self._left: Counter[tuple[str, str, str]] = Counter()

    def named(self, reading: IncidentReading) -> IncidentReading:
        """The reading with every frame named that can be."""
        places: dict[tuple[int, int], _Place] = {}
        for number, clue in enumerate(reading.clues):
            for index, call in enumerate(clue.native):
                place = self._place(clue, index, call)
                if place is not None:
                    places[number, index] = place
        if not places:
            return reading
        answers = self._answers(places.values())
        clues = list(reading.clues)
        for number in {number for number, _ in places}:
            clue = clues[number]
            native: list[NativeCall] = []
            for index, call in enumerate(clue.native):
                place = places.get((number, index))
                native += (call,) if place is None else self._calls(call, place, answers)
            clues[number] = replace(clue, native=tuple(native))
        return replace(reading, clues=tuple(clues))

    @property
    def outcome(self) -> Symbolization:
        """What came of all frames so far."""
        proved, likely = self._counts[Certainty.PROVED], self._counts[Certainty.LIKELY]
        return Symbolization(
            asked=proved + likely + self._left.total(),
            proved=proved,
            likely=likely,
            left=tuple(
                LeftModule(module=module, frames=count, why=why, remedy=remedy)
                for (module, why, remedy), count in self._left.most_common()
            ),
            symbolizers=self._symbolizer.used,
        )

    def _place(self, clue: Clue, index: int, call: NativeCall) -> _Place | None:
        if call.function is not None or call.module is None or call.offset is None:
            return None
        build_id = plain_build_id(call.build_id) or self._build_ids.get(call.module)
        path = self._path(call.module, build_id)
        if isinstance(path, Gap):
            self._leave(call.module, path)
            return None
        interrupted = index > 0 and _is_trampoline(clue.native[index - 1])
        is_exact = interrupted or (
            (index == 0 and clue.source in _EXACT) or clue.source.endswith("Sanitizer")
        )
        kernels = _KERNELS.search(clue.text) if index == 0 and clue.source == "kernel" else None
        if kernels is not None:
            offset = _of_kernel(path, kernels)
        elif _OFFSET.fullmatch(call.offset):
            offset = int(call.offset, 16) - (0 if is_exact else 1)
        else:
            return None
        if offset is None or offset < 0:
            self._leave(
                call.module, Gap(what="the kernel's numbers do not fit the file that is here")
            )
            return None
        return _Place(
            module=call.module,
            path=path,
            build_id=build_id,
            offset=offset,
            is_call=index > 0 and not interrupted and not _is_trampoline(call),
        )

    def _path(self, module: str, build_id: str | None) -> str | Gap:
        """The file to ask: of that build where it is known, else the only one of that name."""
        known = self._paths.get((module, build_id))
        if known is None:
            known = self._paths[module, build_id] = self._find(module, build_id)
        return known

    def _find(self, module: str, build_id: str | None) -> str | Gap:
        if len(self._paths) >= _MAX_MODULES:
            return Gap(what=f"more than {_MAX_MODULES} modules are named", remedy=_GIVE)
        if build_id is not None:
            exact = self._symbols.module_file(build_id) or self._symbols.debug_file(build_id)
            if exact is not None:
                return exact
        given = self._symbols.named(module)
        if len(given) > 1:
            return Gap(
                what=f"{len(given)} builds of it were given, and the log does not say which ran",
                remedy="give the place with the build that ran",
            )
        if given:
            return given[0].path
        return system_library(module) or Gap(what="it is not among the symbols", remedy=_GIVE)

    def _answers(
        self, places: Iterable[_Place]
    ) -> dict[tuple[str, str | None], Answer[ResolvedModule]]:
        asked: dict[tuple[str, str | None], list[_Place]] = {}
        for place in places:
            asked.setdefault((place.path, place.build_id), []).append(place)
        return {
            key: self._symbolizer.resolve(
                CodeOffsets(
                    module=key[0],
                    build_id=key[1],
                    offsets=tuple(dict.fromkeys(one.offset for one in group)),
                    calls=frozenset(one.offset for one in group if one.is_call),
                )
            )
            for key, group in asked.items()
        }

    def _calls(
        self,
        call: NativeCall,
        place: _Place,
        answers: Mapping[tuple[str, str | None], Answer[ResolvedModule]],
    ) -> tuple[NativeCall, ...]:
        """The frame with its names; several where functions were inlined, the innermost first."""
        answer = answers[place.path, place.build_id]
        if isinstance(answer, Gap):
            self._leave(place.module, answer)
            return (call,)
        resolved = answer.value
        spots = resolved.locations.get(place.offset, ())
        if not any(spot.function for spot in spots):
            why = resolved.unnamed.get(place.offset, "nothing is known there")
            self._leave(place.module, Gap(what=why))
            return (call,)
        sure = resolved.certainty_of(place.offset)
        self._counts[sure] += 1
        return tuple(
            replace(call, function=spot.function, file=spot.file, line=spot.line, symbolized=sure)
            for spot in spots
            if spot.function is not None
        )

    def _leave(self, module: str, gap: Gap) -> None:
        self._left[module, gap.what, gap.remedy or ""] += 1


def _is_trampoline(call: NativeCall) -> bool:
    """`libc.so.6(+0x3c050)`: the way back from a handler; what is below was interrupted."""
    return call.function is None and _LIBC.match(call.module or "") is not None


def _of_kernel(path: str, line: re.Match[str]) -> int | None:
    """The address in the file of an instruction that the kernel gives by its mapping.

    `ip 7f1be0001234 … in libx.so[7f1be0000000+21000]` is an offset into the executable segment's
    pages; `libx.so[1234,7f1be0000000+21000]`, of newer kernels, says where in the file it is.
    """
    try:
        segments = [
            one
            for one in parse_module(map_file(path)).segments
            if one.type == PT_LOAD and one.flags & PF_X
        ]
    except EvidenceError:
        return None
    if line["in_file"] is not None:
        at = int(line["in_file"], 16)
        inside = [one for one in segments if one.offset <= at < one.offset + one.file_size]
        return at - inside[0].offset + inside[0].address if inside else None
    within, size = int(line["ip"], 16) - int(line["start"], 16), int(line["size"], 16)
    fitting = [one for one in segments if _pages(one.address, one.file_size) == size]
    if not fitting or not 0 <= within < size:
        return None
    return fitting[0].address // _PAGE * _PAGE + within


def _pages(address: int, size: int) -> int:
    """Bytes of the pages that a segment is mapped to."""
    return -(-(address % _PAGE + size) // _PAGE) * _PAGE
