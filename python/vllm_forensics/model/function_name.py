"""How the name of a function looks without what runtimes and compilers put around it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NOISE: Final = re.compile(
    r"\s?\[clone [^][]*\]|\s?\(\.[\w.]+\)|\.(?:isra|constprop|part|cold|lto_priv|llvm)(?:\.\d+)*"
    r"|\[abi:[^][]*\]|::h[0-9a-f]{16}$|\$[0-9a-f]{16,}"
)
_SIMPLE: Final = re.compile(r"([A-Za-z_]\w*+(?:::[A-Za-z_]\w*+)*+)(?:\([\w:*&, ]*\))?", re.ASCII)
"""A name with nothing to leave out but its arguments; of such are most."""
_NOT_SIMPLE: Final = re.compile(r"operator|std::__|::h[0-9a-f]{16}")
_PART_OF_A_NAME: Final = re.compile(
    r"operator ?(?:\(\)|\[\]|<=>|<<=|>>=|<<(?!\w)|>>|->\*?|<=|>=|<|>|\"\" ?\w+"
    r"|(?=new\b|delete\b|co_await\b|[\w:]))|\(anonymous [a-z]+\)"
    r"|\(\*?[A-Za-z_]\w*\)(?=\.[A-Za-z_])",
    re.ASCII,
)
"""Brackets and spaces that open no arguments; the last is Go's `main.(*Pool).Take`."""
_CLOSING: Final = {"(": ")", "<": ">", "{": "}"}
_SCOPE: Final = re.compile(r"(?: (?:const|volatile|noexcept)| ?&{1,2})*::")
_RETURNED: Final = re.compile(r"[^()]{0,200} \([*&]+(?=\w)")
"""A function that returns one: `void (*f(int))(long)`."""

_ASSEMBLIES: Final = "PublicKeyToken="
_BRACKETS: Final = re.compile(r"\[[^][]*\]")
""".NET's: the types that a generic one was made for, each with the assembly that holds it."""
_OBJECTIVE_C: Final = re.compile(r"(?:__\d{1,4})?[-+]\[")
"""A method, or a block within: `-[Pool take]`, `__12-[Pool take]_block_invoke`."""


@lru_cache(maxsize=8192)
def plain_name(function: str) -> str:
    """Without return type, arguments, compiler suffixes: `void v::f<int>(int)` → `v::f<int>`.

    Of a lambda the function that holds it stays: `v::f(int, int)::{lambda()#1}::operator()() const`
    → `v::f::{lambda()#1}::operator()`. What cannot be read as a name stays as it is.
    """
    simple = _SIMPLE.fullmatch(function)
    if simple is not None and _NOT_SIMPLE.search(function) is None:
        return simple[1]
    if _OBJECTIVE_C.match(function) is not None:
        return function
    while _ASSEMBLIES in function and _BRACKETS.search(function) is not None:
        function = _BRACKETS.sub("", function).replace("[]", "")
    name = (
        _NOISE.sub("", function).replace("std::__1::", "std::").replace("std::__cxx11::", "std::")
    )
    returned = _RETURNED.match(name)
    return _without_arguments(name, returned.end() if returned else 0) or function


_LAMBDA: Final = re.compile(r"::(?:\{lambda\(|'lambda\d*'|\$_\d|<lambda)")
_STANDARD: Final = re.compile(r"(?:[\w:]{1,80} )?(?:std|__gnu_cxx)::")


def called_within(function: str) -> str | None:
    """The lambda that an instance of the standard library's templates was made to call.

    Compilers put its body into the instance: `std::_Function_handler<void (), v::f()::{lambda()#1}>
    ::_M_invoke` → `v::f::{lambda()#1}`. None for every other function.
    """
    if _LAMBDA.search(function) is None or _STANDARD.match(function) is None:
        return None
    for argument in _template_arguments(function):
        if _LAMBDA.search(argument) is None:
            continue
        if _STANDARD.match(argument) is None:
            return plain_name(argument.rstrip("& "))
        return called_within(argument)
    return None


def _template_arguments(function: str) -> list[str]:
    """The arguments of the first template in a name."""
    found, opened, start = [], 0, function.find("<") + 1
    for at in range(start, len(function)):
        letter = function[at]
        if letter in "<({":
            opened += 1
        elif letter == "," and not opened:
            found.append(function[start:at].strip())
            start = at + 1
        elif letter in ">)}" and not function.endswith("->", 0, at + 1):
            opened -= 1
            if opened < 0:
                return [*found, function[start:at].strip()]
    return found


def _without_arguments(name: str, at: int) -> str:
    """The qualified name, which begins at `at` or behind; a return type may stand before it."""
    kept: list[str] = []
    opened: list[str] = []
    skips = False
    may_be_type = True
    while at < len(name):
        letter = name[at]
        part = None if opened or letter not in "o(" else _part(name, at)
        if part is not None:
            kept.append(part)
            at += len(part)
            may_be_type = may_be_type and not part.startswith("operator")
            continue
        at += 1
        if opened and letter == _CLOSING[opened[-1]] and not name.endswith("->", 0, at):
            opened.pop()
            if skips:
                skips = bool(opened)
                if not skips:
                    at = _behind_arguments(name, at, kept)
                continue
        elif letter in _CLOSING and (not opened or letter != "<" or opened[-1] != "("):
            skips = skips or (letter == "(" and not opened)
            opened.append(letter)
        elif letter == " " and not opened and may_be_type:
            kept.clear()
            continue
        if not skips:
            kept.append(letter)
    return "".join(kept).strip()


def _part(name: str, at: int) -> str | None:
    if name[at] == "o" and at and (name[at - 1].isalnum() or name[at - 1] == "_"):
        return None
    match = _PART_OF_A_NAME.match(name, at)
    return match[0] if match is not None else None


def _behind_arguments(name: str, at: int, kept: list[str]) -> int:
    """Where the name goes on: in a lambda or class inside the function, or behind decltype(…)."""
    match = _SCOPE.match(name, at)
    if match is not None:
        return match.end() - len("::")
    return at if not kept or "".join(kept[-8:]) == "decltype" else len(name)
