"""How the name of a function looks without what runtimes and compilers put around it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NOISE: Final = re.compile(
    r"\s?\[clone [^\]]*\]|\s?\(\.[\w.]+\)|\.(?:isra|constprop|part|cold|lto_priv|llvm)(?:\.\d+)*"
    r"|\[abi:\w+\]|::h[0-9a-f]{16}$|\$[0-9a-f]{16,}"
)
_OPERATOR_CALL: Final = "operator()"


@lru_cache(maxsize=8192)
def plain_name(function: str) -> str:
    """Without return type, arguments, compiler suffixes: `void v::f<int>(int)` → `v::f<int>`."""
    if function.isidentifier():
        return function
    name = (
        _NOISE.sub("", function).replace("std::__1::", "std::").replace("std::__cxx11::", "std::")
    )
    if name.startswith(("-[", "+[")):  # Objective-C
        return name
    name = name.replace("(anonymous namespace)", "{anonymous}").replace("(anonymous class)", "{}")
    call, at_operator = name.find(_OPERATOR_CALL), name.find("operator")
    search_from = call + len(_OPERATOR_CALL) if call >= 0 else max(at_operator, 0)
    start, end = _extent(name, search_from, at_operator if at_operator >= 0 else len(name))
    return name[start:end].replace("{anonymous}", "(anonymous namespace)").strip() or function


def _extent(name: str, search_from: int, last_start: int) -> tuple[int, int]:
    """Where the qualified name begins, behind the return type, and ends, before the arguments."""
    depth, start = 0, 0
    for at, letter in enumerate(name):
        if letter in "<{":
            depth += 1
        elif letter in ">}":
            depth -= 1
        elif letter == "(" and depth <= 0 and at >= search_from:
            return start, at
        elif letter == " " and depth <= 0 and at < last_start:
            start = at + 1
    return start, len(name)
