"""A stack that a program prints as JSON on one line: MongoDB's."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.demangle import demangle
from vllm_forensics.model.incident import NativeCall

LIST: Final = '"backtrace":[{'
_SYMBOL: Final = '","s":"'
_FRAME: Final = re.compile(
    r"\"o\":\"(?P<offset>[0-9A-F]{1,16})\"(?:,\"s\":\"(?P<symbol>[^\"]{1,800})"
    r"(?:\",\"C\":\"(?P<name>[^\"]{1,1200}))?)?"
)
_CLONE: Final = re.compile(r" \[clone [^\]]{1,60}\]$")
_MAX: Final = 8_192


def calls_listed(text: str) -> tuple[NativeCall, ...]:
    """The calls of the list that the line holds, or a part of; most lines hold none."""
    if LIST not in text and _SYMBOL not in text:
        return ()
    found = _FRAME.finditer(text[:_MAX])
    return tuple(
        NativeCall(
            function=_CLONE.sub("", frame["name"] or _plain(frame["symbol"])) or None,
            module=None,
            offset=f"0x{frame['offset'].lower()}",
        )
        for frame in found
    )


def _plain(symbol: str | None) -> str:
    return (demangle(symbol) or symbol) if symbol else ""
