"""Raw frames of Fuchsia and of `enable_symbolizer_markup=1`: LLVM's symbolizer markup format.

    {{{module:0:libc.so:elf:83238ab56ba10497}}}
    {{{mmap:0x7acba69d5000:0x5a000:load:0:rx:0x1000}}}
    {{{bt:0:0x7acba69d5210:pc}}}

They are written again as any other frame is: `#0 0x7acba69d5210 (libc.so+0x1210)`. A program may
print its modules long before its report.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from typing import Final, NamedTuple

NEEDLE: Final = b"{{{mmap:0x"
"""A module is named directly above its mappings."""
_MAX_KNOWN: Final = 20_000
_ELEMENT: Final = re.compile(rb"\{\{\{(?P<tag>[a-z]{1,12})(?P<rest>(?::[^{}:]{0,400}){0,8})\}\}\}")
_HEX: Final = re.compile(rb"0x[0-9a-fA-F]{1,16}")


class _Mapping(NamedTuple):
    start: int
    size: int
    module: bytes
    offset: int


class SymbolizerMarkup:
    """The modules that a log has named so far."""

    def __init__(self) -> None:
        """Know none."""
        self._modules: dict[bytes, tuple[bytes, bytes]] = {}
        self._mappings: list[_Mapping] = []

    def plain(self, raw: bytes) -> bytes:
        """The line with its frames in the common form; what it says of modules is remembered."""
        return _ELEMENT.sub(self._element, raw)

    def _element(self, match: re.Match[bytes]) -> bytes:
        tag, fields = match["tag"], match["rest"].split(b":")[1:]
        if tag == b"reset" or (tag == b"module" and fields and fields[0] in self._modules):
            self._modules.clear()  # another process begins
            self._mappings.clear()
        if tag == b"module" and len(fields) >= 4 and len(self._modules) < _MAX_KNOWN:
            self._modules[fields[0]] = (fields[1], fields[3])
        elif tag == b"mmap" and len(fields) >= 6 and len(self._mappings) < _MAX_KNOWN:
            start, size, _, module, _, offset = fields[:6]
            if all(_HEX.fullmatch(number) for number in (start, size, offset)):
                mapping = _Mapping(int(start, 16), int(size, 16), module, int(offset, 16))
                insort(self._mappings, mapping)
        elif tag == b"bt" and len(fields) >= 2 and _HEX.fullmatch(fields[1]):
            return self._frame(fields)
        elif tag in {b"pc", b"data", b"symbol"} and fields:
            return fields[0]
        return match[0]

    def _frame(self, fields: list[bytes]) -> bytes:
        address = int(fields[1], 16)
        frame = b"#%b %b" % (fields[0], fields[1])
        at = bisect_right(self._mappings, address, key=lambda mapping: mapping.start) - 1
        if at < 0 or address >= self._mappings[at].start + self._mappings[at].size:
            return frame
        mapping = self._mappings[at]
        name, build_id = self._modules.get(mapping.module, (b"", b""))
        if not name:
            return frame
        # A return address is behind the call that it returns to.
        called = address - 1 if fields[2:3] == [b"ra"] else address
        offset = called - mapping.start + mapping.offset
        return b"%b (%b+0x%x)%b" % (
            frame,
            name,
            offset,
            b" (BuildId: %b)" % build_id if build_id else b"",
        )
