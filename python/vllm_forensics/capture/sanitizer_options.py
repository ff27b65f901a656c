"""The options of sanitizer runtimes, as LLVM's sanitizer_flag_parser.cpp reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vllm_forensics.errors import UsageError

_SEPARATORS: Final = " ,:\n\t\r"
_QUOTES: Final = "\"'"


def parse_options(text: str) -> dict[str, str]:
    """The options by name. A name may be given twice: the last one counts, as for the runtime."""
    options: dict[str, str] = {}
    at = 0
    while at < len(text):
        if text[at] in _SEPARATORS:
            at += 1
            continue
        end = at
        while end < len(text) and text[end] not in _SEPARATORS and text[end] != "=":
            end += 1
        name = text[at:end]
        if end >= len(text) or text[end] != "=":
            at = end  # a name without a value, which the runtime refuses
            continue
        at = end + 1
        if at < len(text) and text[at] in _QUOTES:
            end = text.find(text[at], at + 1)
            end = len(text) if end < 0 else end
            options[name] = text[at + 1 : end]
            at = end + 1
        else:
            end = at
            while end < len(text) and text[end] not in _SEPARATORS:
                end += 1
            options[name] = text[at:end]
            at = end
    return options


def options_text(options: Mapping[str, str]) -> str:
    """The options as the runtime reads them.

    Raises:
        UsageError: a value that holds both kinds of quotes, which no text can express.

    """
    return ":".join(f"{name}={_quoted(name, value)}" for name, value in options.items())


def is_writable_prefix(prefix: str) -> bool:
    """May a report be written to a file whose path begins so?"""
    return os.access(Path(prefix).absolute().parent, os.W_OK | os.X_OK)


def _quoted(name: str, value: str) -> str:
    if not any(character in value for character in _SEPARATORS + _QUOTES):
        return value
    for quote in _QUOTES:
        if quote not in value:
            return f"{quote}{value}{quote}"
    raise UsageError(
        f"{name} cannot be {value}: a sanitizer's options know no escape for both kinds of quotes",
        remedy="give another --folder",
    )
