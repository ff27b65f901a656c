"""Text as UTF-8, in whatever form of Unicode it was written."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

_MARKS: Final = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_SAMPLE: Final = 256
_FEWEST: Final = 32
"""So many bytes are looked at where no mark says how the text is written."""
_MOST: Final = 0.9


def encoding_of(head: bytes) -> str | None:
    """How a text is written that begins so; None for UTF-8 and what else has a byte a letter.

    PowerShell redirects into UTF-16 and marks it. A log whose beginning was cut off has no mark:
    every other byte of most text is zero then.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    first, second = head[:_SAMPLE:2], head[1:_SAMPLE:2]
    if len(head) < _FEWEST:
        return None
    for zeros, letters, encoding in ((second, first, "utf-16-le"), (first, second, "utf-16-be")):
        if 0 not in letters and zeros.count(0) > _MOST * len(zeros):
            return encoding
    return None


def as_utf8(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of a text, decoded and encoded anew where they are not UTF-8."""
    decoder: codecs.IncrementalDecoder | None = None
    head = b""
    started = False
    for piece in pieces:
        data = piece
        if not started:
            head += piece
            if len(head) < _FEWEST:
                continue
            started = True
            data = head
            decoder = _decoder(head)
        yield decoder.decode(data).encode("utf-8", "replace") if decoder else data
    if not started:
        decoder = _decoder(head)
        yield decoder.decode(head).encode("utf-8", "replace") if decoder else head


def _decoder(head: bytes) -> codecs.IncrementalDecoder | None:
    encoding = encoding_of(head)
    return codecs.getincrementaldecoder(encoding)("replace") if encoding is not None else None
