"""What a runtime's lines mean, in tables: the types that its rules are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vllm_forensics.model.sanitizer import Role

if TYPE_CHECKING:
    from vllm_forensics.evidence.sanitizer.builder import ReportBuilder

Action = Callable[["ReportBuilder", re.Match[str]], None]


def first_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """All patterns in one: its last group, `r` and a number, names the first that matches.

    The group is empty and stands behind its pattern: one that begins with a letter is then passed
    over at once where the line begins with another.
    """
    anonymous = [re.sub(r"\(\?P<\w+>", "(?:", pattern) for pattern in patterns]
    joined = "|".join(f"(?:{pattern})(?P<r{at}>)" for at, pattern in enumerate(anonymous))
    return re.compile(joined or r"(?!)")


@dataclass(frozen=True, slots=True)
class Section:
    """A line that introduces a stack. Groups: `thread`, `creator`. Role None: frames to skip."""

    pattern: str
    role: Role | None
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A line that says something by itself."""

    pattern: str
    action: Action | None = None


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What one runtime prints after its header."""

    name: str
    rules: tuple[Section | Fact, ...] = ()
    first_role: Role | None = Role.USE
    """What frames directly below the header stand for."""
    ends_with_summary: bool = True
    patience: int = 200
    """How many foreign lines of the same stream may stand between two of the report's."""
    last_words: re.Pattern[str] | None = None
    """How a whole SUMMARY ends that is the last line of all; one that a log has broken does not."""
    dumps_shadow: bool = False
    """Does it print AddressSanitizer's shadow bytes and their legend?"""

    @cached_property
    def combined(self) -> re.Pattern[str]:
        """All rules in one, compiled when a log first needs them."""
        return first_of(rule.pattern for rule in self.rules)
