"""One spelling of a function's name, whoever printed it: what signatures are made of.

Compilers and symbolizers spell one function in many ways. Left out: arguments, template arguments,
return types, ABI tags, suffixes of clones, hashes, numbers of lambdas, inline namespaces of the
standard library. Sources: the Itanium C++ ABI's mangling, GCC's and LLVM's demanglers, Rust's RFC
2603.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_LONGEST: Final = 2000
_SPELLINGS: Final = (
    # Suffixes of clones: f.isra.0, f.part.3.cold, f [clone .cold], f.llvm.123, f (.cold)
    (r"\s?\[clone [^\]]*\]|\s\(\.[\w.]+\)", ""),
    (r"\.(?:isra|constprop|part|cold|lto_priv|llvm|localalias|resolved|specialized)(?:\.\d+)*", ""),
    (r"\.__uniq\.\d+|\[abi:[\w.]+\]", ""),
    # Rust: core::ops::call_once::h0123456789abcdef; Swift and old Rust: $0123456789abcdef0
    (r"::h[0-9a-f]{16}(?=$|[\s(])|\$[0-9a-f]{16,}", ""),
    (r"\bstd::(?:__\d+|__ndk1|__cxx11|__Cr|__debug|_V2|__fs)::", "std::"),
    # GCC, LLVM, MSVC and a mangled rest of it
    (
        r"\(anonymous namespace\)|`anonymous[- ]namespace'|'anonymous namespace'"
        r"|_GLOBAL__N_1\b|<unnamed>|\{anonymous\}",
        "{anonymous}",
    ),
    # {lambda(int)#1}, 'lambda'(int), 'lambda0', $_0, <lambda(int)>, <lambda_1a2b>
    (r"\{lambda\([^{}]*\)(?:#\d+)?\}|'lambda\d*'|\$_\d+|<lambda(?:\([^<>]*\)|_\w+)>", "{lambda}"),
    (r"\{\{closure\}\}|\{closure(?:_env)?#\d+\}", "{closure}"),
    (r"\{unnamed type#\d+\}|'unnamed\d*'|\(anonymous (?:class|struct|union)\)", "{unnamed}"),
)
_PATTERNS: Final = tuple((re.compile(pattern), plain) for pattern, plain in _SPELLINGS)
_OPERATOR: Final = re.compile(
    r"operator ?(?:\(\)|\[\]|<=>|<<=?|>>=?|->\*?|<=|>=|[-+*/%^&|!=,~]+|<|>"
    r"|\"\" ?\w+|(?:new|delete)(?:\[\])?|co_await|[\w: *&]+)"
)
_QUALIFIERS: Final = re.compile(r"(?: (?:const|volatile|noexcept)| ?&{1,2})+(?=::|$)")
_SPACES: Final = re.compile(r"\s+")
_PLAIN: Final = re.compile(r"([A-Za-z]\w*+(?:::[A-Za-z]\w*+)*+)(?:\([\w:*, ]*\))?", re.ASCII)
"""A name with nothing to leave out but its arguments; of such are most."""
_NOT_PLAIN: Final = re.compile(r"operator|::h[0-9a-f]{16}|std::|_GLOBAL__N_1")


@lru_cache(maxsize=1 << 14)
def stable_name(function: str) -> str:
    """The plain qualified name: `int a::f<int>(long)::{lambda()#2}::operator()() const` is
    `a::f::{lambda}::operator()`.
    """  # noqa: D205 - one sentence, with its example
    simple = _PLAIN.fullmatch(function) if len(function) <= _LONGEST else None
    if simple is not None and _NOT_PLAIN.search(function) is None:
        return simple[1]
    if function.startswith(("-[", "+[")):  # Objective-C
        return function
    name = function[:_LONGEST]
    for pattern, plain in _PATTERNS:
        name = pattern.sub(plain, name)
    name = _SPACES.sub(" ", _without_groups(name)).strip()
    name = _QUALIFIERS.sub("", name.partition(" -> ")[0]).strip()
    name = _without_return_type(name).replace("{anonymous}", "(anonymous namespace)")
    return name or function[:_LONGEST]


def _without_groups(name: str) -> str:
    """Arguments and template arguments left out, whatever is nested in them."""
    kept: list[str] = []
    opened: list[str] = []
    at = 0
    while at < len(name):
        letter = name[at]
        if not opened and letter == "o" and (operator := _operator(name, at)):
            kept.append(operator)
            at += len(operator)
            while name.startswith((" <", "  "), at):  # operator< <int>
                at += 1
            continue
        if letter == "(" or (letter == "<" and (opened or not _starts_a_part(kept))):
            opened.append(letter)
        elif letter == ")" and "(" in opened:
            while opened.pop() != "(":  # a comparison inside: (a < b)
                pass
        elif letter == ">" and opened and opened[-1] == "<" and name[at - 1] != "-":
            opened.pop()
        elif not opened:
            kept.append(letter)
        at += 1
    return "".join(kept)


def _operator(name: str, at: int) -> str | None:
    if at and (name[at - 1].isalnum() or name[at - 1] == "_"):
        return None
    match = _OPERATOR.match(name, at)
    return match[0].rstrip() if match else None


def _starts_a_part(kept: list[str]) -> bool:
    """Rust's `<T as Trait>::f`: the angle holds the name itself and no argument."""
    return not kept or kept[-1] in ": <"


def _without_return_type(name: str) -> str:
    """All that stands before the last space outside of angles: `void f`, `thunk to f`."""
    operator = re.search(r"(?<!\w)operator(?!\w)", name)
    end = operator.start() if operator else len(name)
    depth, start = 0, 0
    for at in range(end):
        if name[at] == "<":
            depth += 1
        elif name[at] == ">":
            depth = max(0, depth - 1)
        elif name[at] == " " and depth == 0:
            start = at + 1
    return name[start:].lstrip("*& ")
