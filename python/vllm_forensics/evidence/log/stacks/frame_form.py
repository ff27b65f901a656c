"""The form of a native frame in a log: what one writer prints for a call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A line that is one frame.

    The pattern's groups fill the call: function (or symbol, where that is only a name in a table
    of symbols), module, offset, file and line of the source. `begins` and `holds` are what a line
    is asked before the pattern is tried: they must let through whatever the pattern matches.
    """

    writer: str
    example: str
    pattern: str
    """Matches at the beginning of a line, with its blanks."""
    begins: str
    """One letter, as a regular expression: the first of the line that is no blank."""
    holds: str
    """Stands in every such line."""
    source: str | None = None
    """The only writer below whose words such a line is a frame."""
    last_first: bool = False
    """Does the innermost call stand last?"""
    names_program: bool = False
    """Is a module of it without a suffix or a capital the program?"""
