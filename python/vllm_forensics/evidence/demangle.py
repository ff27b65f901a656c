"""C++ names from their Itanium ABI mangling: enough for qualified names and simple types.

gdb demangles everything that it prints. This is for what is named without gdb: symbols of a
stripped module's .dynsym, and type_info names. Whatever is not understood is answered with None,
never guessed. Source: Itanium C++ ABI, section 5.1.
"""

from __future__ import annotations

import re
from typing import Final

_BUILTIN: Final = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "f": "float", "d": "double",
    "e": "long double", "n": "__int128", "o": "unsigned __int128",
}  # fmt: skip
_STANDARD: Final = {
    "St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string",
    "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
_SPECIAL: Final = {
    "TV": "vtable for ", "TI": "typeinfo for ", "TS": "typeinfo name for ", "TT": "VTT for ",
}  # fmt: skip
_NUMBER: Final = re.compile(r"[0-9]+")
_MAX_LENGTH: Final = 4096
_MAX_RESULT: Final = 16 << 10
"""Substitutions let a short name double its length again and again."""
_MAX_DEPTH: Final = 64


class _Unknown(Exception):  # noqa: N818 - a signal between these functions, not an error
    pass


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
            return _Reader(name[2:]).encoding() or None
        reader = _Reader(name)
        found = reader.type()
    except (_Unknown, IndexError, RecursionError):
        return None
    return found if found and reader.at_end else None


_ESCAPES: Final = re.compile(r"\$(?:(?P<sign>LT|GT|RF|BP|C|LP|RP)|u(?P<code>[0-9a-f]{2}))\$|\.\.")
_SIGNS: Final = {"LT": "<", "GT": ">", "RF": "&", "BP": "*", "C": ",", "LP": "(", "RP": ")"}


def unescape(name: str) -> str:
    """A path of the older mangling of Rust, whose signs a symbolizer left: `_$LT$a..B$GT$::f`."""
    if "$LT$" not in name:
        return name

    def plain(escape: re.Match[str]) -> str:
        if escape["code"] is not None:
            return chr(int(escape["code"], 16))
        return _SIGNS[escape["sign"]] if escape["sign"] is not None else "::"

    return _ESCAPES.sub(plain, name.removeprefix("_"))


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


class _Reader:
    """One pass over a mangled name; substitutions in the order in which the ABI numbers them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._seen: list[str] = []

    @property
    def at_end(self) -> bool:
        return self._at == len(self._text)

    def encoding(self) -> str | None:
        prefix = _SPECIAL.get(self._text[:2])
        if prefix is not None:
            self._at = 2
            return prefix + self.type()
        return self.name()

    def name(self) -> str:
        if self._take("N"):
            return self._nested()
        if self._take("L"):  # internal linkage
            return self._source_name()
        if self._peek(2) == "St":
            self._at += 2
            found = "std::" + self._source_name()
        elif self._peek().isdigit():
            found = self._source_name()
        else:
            found = self._substitution()
            return self._with_arguments(found)
        self._seen.append(found)
        return self._with_arguments(found)

    def _with_arguments(self, found: str) -> str:
        if not self._text.startswith("I", self._at):
            return found
        return self._remember(found + self._template_arguments())

    def type(self) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _Unknown
        try:
            return self._type()
        finally:
            self._depth -= 1

    def _type(self) -> str:
        character = self._peek()
        if character in _BUILTIN:
            self._at += 1
            return _BUILTIN[character]
        for mark, suffix in (
            ("P", "*"),
            ("R", "&"),
            ("O", "&&"),
            ("K", " const"),
            ("V", " volatile"),
        ):
            if self._take(mark):
                return self._remember(self.type() + suffix)
        return self.name()

    def _nested(self) -> str:
        while self._peek() in "rVKRO":
            self._at += 1
        parts: list[str] = []
        while not self._take("E"):
            character = self._peek()
            if character == "S" and not parts:
                parts.append(self._substitution())
                continue
            if character == "I":
                parts[-1] += self._template_arguments()
            elif character == "C" and self._peek(2)[1] in "123":
                self._at += 2
                parts.append(_last_name(parts[-1]))
            elif character == "D" and self._peek(2)[1] in "012":
                self._at += 2
                parts.append("~" + _last_name(parts[-1]))
            else:
                self._take("L")
                parts.append(self._source_name())
            if self._peek() != "E":
                self._seen.append("::".join(parts))
        found = "::".join(parts)
        self._seen.append(found)
        return found

    def _template_arguments(self) -> str:
        if not self._take("I"):
            raise _Unknown
        arguments = []
        while not self._take("E"):
            if self._take("L"):
                kind = self.type()
                end = self._text.index("E", self._at) if "E" in self._text[self._at :] else -1
                if end < 0:
                    raise _Unknown
                value = self._text[self._at : end].replace("n", "-")
                self._at = end + 1
                arguments.append(
                    {"0": "false", "1": "true"}.get(value, value) if kind == "bool" else value
                )
            else:
                arguments.append(self.type())
        found = f"<{', '.join(arguments)}>"
        if len(found) > _MAX_RESULT:
            raise _Unknown
        return found

    def _substitution(self) -> str:
        if self._peek(2) in _STANDARD:
            self._at += 2
            return _STANDARD[self._text[self._at - 2 : self._at]]
        if not self._take("S"):
            raise _Unknown
        end = self._text.index("_", self._at) if "_" in self._text[self._at :] else -1
        digits = self._text[self._at : end]
        if end < 0 or not re.fullmatch(r"[0-9A-Z]*", digits):
            raise _Unknown
        self._at = end + 1
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(self._seen):
            raise _Unknown
        return self._seen[index]

    def _source_name(self) -> str:
        number = _NUMBER.match(self._text, self._at)
        if number is None:
            raise _Unknown
        start = number.end()
        end = start + int(number.group())
        if end == start or end > len(self._text):
            raise _Unknown
        self._at = end
        found = self._text[start:end]
        if self._take("B"):  # an ABI tag such as [abi:cxx11] is not part of the plain name
            self._source_name()
        return "(anonymous namespace)" if found.startswith("_GLOBAL__N_") else found

    def _remember(self, found: str) -> str:
        self._seen.append(found)
        return found

    def _peek(self, count: int = 1) -> str:
        found = self._text[self._at : self._at + count]
        if len(found) < count:
            raise _Unknown
        return found

    def _take(self, mark: str) -> bool:
        if self._text.startswith(mark, self._at):
            self._at += len(mark)
            return True
        return False


def _last_name(qualified: str) -> str:
    return qualified.split("<", 1)[0].rsplit("::", 1)[-1]
