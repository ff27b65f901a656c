"""Manuals, logs of commits, lists of changes and patches: they tell of deaths that were mended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NEAR: Final = 200
_TOP: Final = 3
_MANUAL: Final = re.compile(r"\.(?:TH|SH|Dd|Sh|PP|TP|IP)\b")
_DIRECTIVE: Final = re.compile(r"\s*\.\. [\w-]+::(?: |$)|.*:[a-z]{2,8}(?::[a-z]{2,9})?:`")
_RULE: Final = re.compile(r"(?P<mark>[=~^*-])(?P=mark){3,}$")
_HEADER: Final = re.compile(
    r"(?P<git>commit [0-9a-f]{7,40}\b)|(?P<debian>[\w.+-]+ \([\w.+~:-]+\) [\w-]+; urgency=)|"
    r"(?P<gnu>\d{4}-\d\d-\d\d  \S.{0,120}<\S{1,80}>$)|(?P<patch>@@ -\d|diff --git )|"
    r"(?P<version>(?:#{1,4} |[*=]{1,4} ?|Version |Changes in |Release |v|\[)"
    r".{0,40}?\bv?\d{1,4}\.\d{1,4}(?:\.\d{1,6})?\b.{0,60}$)"
)
_STAT: Final = re.compile(r" \d{1,5} files? changed, ")
_ITEM: Final = re.compile(r"\s*(?:[-*+\u2022o] |\d{1,7}[,:] |#\d{1,7}[:, ])")
_BODY: Final = re.compile(
    r"$|[ \t+*-]|(?:Author|Date|Merge|AuthorDate|Commit|CommitDate|Signed-off-by|Reviewed-by): |"
    + _ITEM.pattern
)
_FORM: Final = re.compile(
    r"about: |body:$|  - type: (?:markdown|textarea|input|dropdown|checkboxes)$"
)
"""The keys of a form for reports, as GitHub defines them."""
_SECTIONS: Final = {"name", "synopsis"}
"""Two sections that all manuals' pages have, in lines of their own."""
_COMMITS: Final = 3


def is_manual(head: Sequence[str]) -> bool:
    """Does a text's beginning show the source of a manual, or an empty form for reports?"""
    is_named = any(line.startswith("name: ") for line in head[:_TOP])
    if is_named and any(_FORM.match(line) is not None for line in head):
        return True
    if sum(_MANUAL.match(line) is not None for line in head) >= _COMMITS:
        return True
    if {line.strip().lower() for line in head} >= _SECTIONS:
        return True
    return any(map(_DIRECTIVE.match, head)) and any(map(_RULE.match, head))


def is_all_changes(lines: Sequence[str]) -> bool:
    """Is the whole text a log of commits, or a list of changes?"""
    if any(line.startswith("Signed-off-by: ") for line in lines) and any(
        line.startswith("Subject: [PATCH") or _STAT.match(line) is not None for line in lines
    ):
        return True
    headers = (_HEADER.match(line) for line in lines)
    kinds = [header.lastgroup for header in headers if header is not None]
    known = sum(kind in {"git", "debian", "gnu"} for kind in kinds)
    return known >= _COMMITS and any(map(_HEADER.match, lines[:_TOP]))


def is_list_of_changes(lines: Sequence[str], at: int) -> bool:
    """Is the line an entry of a log of commits, a list of changes or a patch?"""
    line = lines[at]
    is_item = False
    for above in range(at, max(-1, at - _NEAR), -1):
        text = lines[above]
        is_item = is_item or _ITEM.match(text) is not None
        header = _HEADER.match(text) if above < at else None
        if header is not None:
            kind = header.lastgroup
            if kind == "git":
                return line.startswith("    ")
            if kind in {"debian", "gnu"}:
                return line.startswith(("  ", "\t"))
            if kind == "patch":
                return line.startswith(("+", "-", " "))
            return is_item
        if above < at and _BODY.match(text) is None:
            return False
    return False
