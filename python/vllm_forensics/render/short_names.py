"""Shortens C++ names for a line of a terminal: which function matters more than of which types."""

from __future__ import annotations

from typing import Final

_LONG: Final = 60
_LEFT_OUT: Final = "<…>"
_OPERATOR: Final = "operator"


def short_name(name: str) -> str:
    """The name without its template arguments, where it is long; names that do not add up stay."""
    if len(name) <= _LONG:
        return name
    kept: list[str] = []
    depth = at = 0
    while at < len(name):
        sign = _operator_at(name, at)
        if sign:
            kept += [sign] if not depth else []
            at += len(sign)
            continue
        letter = name[at]
        at += 1
        if letter == "<":
            depth += 1
            kept += [_LEFT_OUT] if depth == 1 else []
        elif letter == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(letter)
    return "".join(kept) if not depth else name


def _operator_at(name: str, at: int) -> str:
    """`operator<<` and its kin, whose signs are no brackets; nothing elsewhere."""
    if not name.startswith(_OPERATOR, at):
        return ""
    end = at + len(_OPERATOR)
    while end < len(name) and name[end] in "<>=-*":
        end += 1
    # `operator<<int>` is `operator<` with arguments, as is `operator<<<int>` of `operator<<`.
    signs, rest = name[at + len(_OPERATOR) : end], name[end:]
    if len(signs) > 1 and signs.endswith("<") and ">" in rest and not rest.startswith("("):
        end -= 1
    return name[at:end]
