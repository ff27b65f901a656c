"""Text as UTF-8, in whatever form of Unicode it was written."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator


def as_utf8(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """PowerShell redirects into UTF-16; a byte order mark says so."""
    decoder: codecs.IncrementalDecoder | None = None
    head = b""
    started = False
    for piece in pieces:
        data = piece
        if not started:
            head += piece
            if len(head) < 2:
                continue
            started = True
            data = head
            if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(data).encode("utf-8", "replace") if decoder else data
    if not started:
        yield head
