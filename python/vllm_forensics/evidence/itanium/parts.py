"""What names are made of, while they are read: types in two parts, and packs of them.

Of `void (*)(int)` the parts are `void (*` and `)(int)`: C++ writes a type around what it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class UnknownName(Exception):  # noqa: N818 - a signal between these functions, not an error
    """What stands there is no mangled name, or a part of one that is not read."""


@dataclass(frozen=True)
class Type:
    """What stands before and behind the name of something of this type."""

    left: str
    right: str = ""
    is_function: bool = False
    """A bare function or array: a pointer to it needs brackets."""

    @property
    def text(self) -> str:
        """The type alone."""
        return self.left + self.right

    def pointed(self, mark: str) -> Type:
        """A pointer, or a reference, to it."""
        if self.is_function:
            gap = "" if self.left.endswith((" ", "(*")) else " "
            return Type(f"{self.left}{gap}({mark}", f"){self.right}")
        # a reference to a reference is the one with fewer signs
        if mark.startswith("&") and self.left.endswith("&"):
            return Type(self.left if mark == "&&" else self.left.rstrip("&") + mark, self.right)
        return Type(self.left + mark, self.right)

    def qualified(self, words: str) -> Type:
        """The same type, const or volatile; of a function that is what a member's `this` is."""
        if self.is_function:
            return Type(self.left, self.right + words, is_function=True)
        return Type(self.left + words, self.right)


Part = Type | tuple[Type, ...]
"""One template argument, or a pack of them."""


def text_of(part: Part) -> str:
    """As it stands in a list of arguments."""
    return part.text if isinstance(part, Type) else ", ".join(one.text for one in part)


def each(part: Part, change: Callable[[Type], Type]) -> Part:
    """The type changed, or every one of a pack."""
    return change(part) if isinstance(part, Type) else tuple(map(change, part))


def last_name(qualified: str) -> str:
    """What a constructor is called: the class without its arguments."""
    depth, end = 0, len(qualified)
    for at in range(len(qualified) - 1, -1, -1):
        letter = qualified[at]
        depth += (letter in ">)}") - (letter in "<({")
        if depth == 0 and letter == "<":
            end = at
        if depth == 0 and letter == ":":
            return qualified[at + 1 : end]
    return qualified[:end]
