"""The table of lines in a code object of CPython 3.11 and later (Objects/locations.md)."""

from __future__ import annotations


def line_at(table: bytes, first_line: int, offset: int) -> int | None:
    """The line of the code unit at a byte offset, out of co_linetable (Objects/locations.md)."""
    at, line, covered = 0, first_line, 0
    while at < len(table):
        code, units = table[at] >> 3 & 15, (table[at] & 7) + 1
        at += 1
        if code in {13, 14}:
            line += _signed(table, at)
        elif 10 <= code <= 12:
            line += code - 10
        covered += 2 * units
        if offset < covered:
            return None if code == 15 else line
        while at < len(table) and not table[at] & 0x80:  # an entry's first byte alone has this bit
            at += 1
    return None


def _signed(table: bytes, at: int) -> int:
    value = shift = 0
    for byte in table[at : at + 6]:
        value |= (byte & 0x3F) << shift
        shift += 6
        if not byte & 0x40:
            break
    return -(value >> 1) if value & 1 else value >> 1
