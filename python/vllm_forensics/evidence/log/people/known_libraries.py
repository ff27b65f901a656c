"""Which libraries a text uses: it imports, installs, requires or loads them somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from vllm_forensics.evidence.lazily import lazily

_NAME: Final = r"[A-Za-z][\w-]{1,50}"
_USED: Final = (
    # import pool, from pool.core import take; behind a prompt, too
    lazily(
        rf"^[\s>`$.]{{0,12}}(?:import|from) (?P<name>{_NAME})(?:\.\w{{1,40}}){{0,6}}"
        r"(?=\s*$|`| import\b| as \w|,|;)"
    ),
    lazily(rf"`(?:import|from) (?P<name>{_NAME})(?:\.\w{{1,40}}){{0,6}}(?:`| import\b| as \w)"),
    # import "pool", from 'pool', require('pool'), library(pool), using Pool
    lazily(
        r"\b(?:require|from|import|library|use)[ (]{1,2}[\"'](?:@[\w-]{1,40}/)?"
        rf"(?P<name>{_NAME})[\"']"
    ),
    lazily(
        rf"^\s{{0,8}}(?:>|julia>)? ?(?:library\((?P<name>{_NAME})\)|using (?P<used>{_NAME})\s*$)"
    ),
    # pip install -U pool
    lazily(
        r"\b(?:pip[\d.]{0,4}|conda|mamba|npm|yarn|gem|uv|poetry|cargo|pecl) (?:install|add) "
        rf"(?:-{{1,2}}[\w-]{{1,30}} ){{0,4}}[\"']?(?P<name>{_NAME})(?=[\s=<>~\[`\"'.,)]|$)"
    ),
    lazily(rf"(?<![\w./=-])(?P<name>{_NAME})==\d"),  # pool==1.2
    # CREATE EXTENSION pool
    lazily(rf"(?i:create extension (?:if not exists )?)[\"']?(?P<name>{_NAME})"),
    lazily(r"(?i:shared_preload_libraries)\W{1,6}(?P<listed>[\w, /-]{3,200})"),
)
_LONGEST: Final = 400
_SAID: Final = lazily(
    rf"(?i)\bimport(?:ing|s)? (?:the )?[\"']?(?P<name>{_NAME})[\"']?"
    r"(?= (?:in|on|with|after|before|and|as|via|when|while|module|package|library)\b|"
    r"[,.;:!?)]|\s*$)"
)
"""What is imported in a text about Python, as people say it."""
_PARTLY: Final = lazily(r"\bfrom [\w.]{1,80} import\b")
_PYTHON: Final = lazily(r"(?i)\b(?:i?python[\d.]{0,4}|jupyter|notebooks?|conda|pip[\d.]{0,3})\b")
_NONE: Final = frozenset(
    {
        "sys", "os", "re", "time", "json", "logging", "faulthandler", "traceback", "typing", "math",
        "random", "argparse", "pathlib", "collections", "functools", "itertools", "datetime",
        "subprocess", "warnings", "string", "copy", "io", "gc", "signal", "shutil", "glob", "abc",
        "requirements", "pip", "python", "python3", "git", "numactl", "wheel", "setuptools",
        "build", "update", "upgrade", "the", "your", "my", "from", "source", "this", "that", "src",
        "utils", "util", "common", "config", "main", "test", "tests", "app", "core", "all", "it",
        "data", "file", "files", "csv", "images", "image", "models", "model", "modules", "module",
        "statement", "statements", "packages", "package", "libraries", "library", "error", "errors",
        "table", "tables", "text", "function", "functions", "anything", "something", "them",
        "any", "some", "its", "certificates", "contacts", "photos", "projects", "project", "and",
        "com", "org", "java", "javax", "std", "path", "fs", "http", "https", "url", "node", "react",
    }
)  # fmt: skip
"""Python's own, of which people need some to tell of a crash, and what is everybody's."""


def libraries_of(lines: Iterable[str]) -> dict[str, str]:
    """The libraries' names, each by the same in small letters, in the order of the text."""
    found: dict[str, str] = {}
    lines = [line[:_LONGEST] for line in lines]
    forms = (*_USED, _SAID) if is_pythons(lines) else _USED
    for line in lines:
        told = _USED if _PARTLY.search(line) is not None else forms
        for match in (one for form in told for one in form.finditer(line)):
            for name in _names(match):
                if name.lower() not in _NONE:
                    found.setdefault(name.lower(), name)
    return found


def imported_in(lines: Iterable[str]) -> frozenset[str]:
    """The libraries that statements of the text import, in small letters."""
    forms = _USED[:2]
    found = (one["name"] for line in lines for form in forms for one in form.finditer(line[:400]))
    return frozenset(name.lower() for name in found) - _NONE


def is_pythons(lines: Iterable[str]) -> bool:
    """Is it a text about Python?"""
    return any(_PYTHON.search(line[:_LONGEST]) is not None for line in lines)


def _names(match: re.Match[str]) -> list[str]:
    groups = match.groupdict()
    if groups.get("listed"):
        return [one.strip() for one in groups["listed"].split(",") if one.strip()]
    name = groups.get("name") or groups.get("used")
    return [name] if name else []
