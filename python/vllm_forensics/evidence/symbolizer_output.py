"""What a symbolizer printed for offsets: llvm-symbolizer's JSON, and the lines of addr2line's kin.

Shapes: llvm.org/docs/CommandGuide/llvm-symbolizer.html (JSON since LLVM 13), addr2line(1),
eu-addr2line(1). Names and paths in them are from a module that may be hostile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from vllm_forensics.model.locations import Location

_MAX_TEXT: Final = 4096
_MAX_INLINED: Final = 256
_MAX_LINE: Final = 1 << 31
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")
_PLACE: Final = re.compile(r"(.*?)(?::(\d{1,9}|\?))?(?::(\d{1,9}))?(?: \(discriminator \d+\))?")
# eu-addr2line: `f inlined at a.c:20:17 in g`; the line below says where in f.
_INLINED_AT: Final = re.compile(r" inlined at .{1,4096}:\d+(?::\d+)? in .*")
_NOTHING: Final = frozenset({"", "??", "<invalid>", "<null>"})

Locations = dict[int, tuple[Location, ...]]


def parse_symbolizer_json(text: str) -> Locations:
    """Read one array, or one value a line; what does not fit the shape is left out."""
    found: Locations = {}
    for entry in _entries(text):
        address, symbols = entry.get("Address"), entry.get("Symbol")
        if not isinstance(address, str) or not isinstance(symbols, list):
            continue
        if _ADDRESS.fullmatch(address) is None:
            continue
        locations = [_from_json(symbol) for symbol in symbols[:_MAX_INLINED]]
        known = tuple(location for location in locations if location is not None)
        if known:
            found[int(address, 16)] = known
    return found


def parse_symbolizer_lines(text: str, offsets: Sequence[int]) -> Locations:
    """Read an address line for each offset, in the order asked, and pairs of lines below it."""
    blocks: dict[int, list[str]] = {}
    waiting = iter(offsets)
    expected = next(waiting, None)
    block: list[str] = []
    for line in text.splitlines():
        if expected is not None and _ADDRESS.fullmatch(line) and int(line, 16) == expected:
            block = blocks.setdefault(expected, [])
            expected = next(waiting, None)
        elif len(block) < 2 * _MAX_INLINED:
            block.append(line)
    found: Locations = {}
    for offset, lines in blocks.items():
        pairs = zip(lines[::2], lines[1::2], strict=False)
        known = tuple(location for pair in pairs if (location := _from_lines(*pair)) is not None)
        if known:
            found[offset] = known
    return found


def _entries(text: str) -> Iterator[dict[str, object]]:
    try:
        values = [json.loads(text)]
    except (ValueError, RecursionError):
        values = []
        for line in text.splitlines():
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError):
                continue
    for value in values:
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict):
                yield entry


def _from_json(symbol: object) -> Location | None:
    if not isinstance(symbol, dict):
        return None
    return _location(
        symbol.get("FunctionName"), symbol.get("FileName"), symbol.get("Line"), symbol.get("Column")
    )


def _from_lines(function: str, place: str) -> Location | None:
    match = _PLACE.fullmatch(place)
    if match is None:
        return None
    line, column = match[2], match[3]
    return _location(
        _INLINED_AT.sub("", function),
        match[1],
        int(line) if line and line != "?" else 0,
        int(column) if column else 0,
    )


def _location(function: object, file: object, line: object, column: object) -> Location | None:
    name, place = _text(function), _text(file)
    number = _number(line)
    if number is None and place is not None and "/" not in place:
        place = None  # a symbol table's name of a source file; it says nothing of this function
    if name is None and place is None:
        return None
    return Location(
        function=name,
        file=place,
        line=number if place is not None else None,
        column=_number(column) if place is not None and number is not None else None,
    )


def _text(value: object) -> str | None:
    if not isinstance(value, str) or value in _NOTHING:
        return None
    return value[:_MAX_TEXT]


def _number(value: object) -> int | None:
    """A line or column; 0 stands for none."""
    return value if isinstance(value, int) and 0 < value < _MAX_LINE else None
