"""Plain names from C++'s and Rust's mangled ones.

gdb demangles everything that it prints. This is for what is named without gdb: symbols of a
stripped module's .dynsym, type_info names, and the frames of a log. Whatever is not understood is
answered with None, never guessed.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.itanium.parts import UnknownName
from vllm_forensics.evidence.itanium.reader import Reader

_MAX_LENGTH: Final = 4096


def demangle(name: str) -> str | None:
    """The plain qualified name of a symbol (no parameters), or the spelling of a type_info name.

    `_ZN4vllm5Block4dataEv` → `vllm::Block::data`; `St12out_of_range` → `std::out_of_range`.
    """
    if len(name) > _MAX_LENGTH:
        return None
    if name.startswith("_R"):
        return _rusts(name)
    try:
        if name.startswith("_Z"):
            return Reader(name[2:]).symbol() or None
        reader = Reader(name)
        found = reader.type()
    except (UnknownName, IndexError, RecursionError):
        return None
    return found if found and reader.at_end else None


_ESCAPES: Final = re.compile(r"\$(?:(?P<sign>LT|GT|RF|BP|C|LP|RP)|u(?P<code>[0-9a-f]{2}))\$|\.\.")
_ESCAPED: Final = re.compile(r"(?:(?<=::)|^)_(?=\$)")
"""Stands before a part that begins with a sign."""
_SIGNS: Final = {"LT": "<", "GT": ">", "RF": "&", "BP": "*", "C": ",", "LP": "(", "RP": ")"}


def unescape(name: str) -> str:
    """A path of the older mangling of Rust, whose signs a symbolizer left: `_$LT$a..B$GT$::f`."""
    if "$LT$" not in name and "$u7b$" not in name:
        return name

    def plain(escape: re.Match[str]) -> str:
        if escape["code"] is not None:
            return chr(int(escape["code"], 16))
        return _SIGNS[escape["sign"]] if escape["sign"] is not None else "::"

    return _ESCAPES.sub(plain, _ESCAPED.sub("", name))


_DISAMBIGUATOR: Final = re.compile(r"[sB][0-9a-zA-Z]{0,20}_")
_IDENTIFIER: Final = re.compile(r"(?P<length>[1-9][0-9]{0,3})_?")


def _rusts(name: str) -> str | None:
    """The path of a Rust symbol of the newer mangling, without its types: `_RNvCs1_4pool4take`."""
    parts: list[str] = []
    at = 2
    while at < len(name) and not (parts and name[at] in "IEK"):
        skipped = _DISAMBIGUATOR.match(name, at)
        found = _IDENTIFIER.match(name, at) if skipped is None else None
        at = skipped.end() if skipped is not None else at + 1
        if found is not None:
            at = found.end() + int(found["length"])
            parts.append(name[found.end() : at])
    return "::".join(parts) if parts and at <= len(name) else None
