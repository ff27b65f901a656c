"""Machine words among bytes of memory, of which most are zero."""

from __future__ import annotations

from collections.abc import Iterator


def positions_of_word(memory: bytes, word: bytes) -> Iterator[int]:
    """Where `word` stands, each place after the end of the one before.

    An address ends in zeros, little end first, and so does most of a stack: a plain search stops
    at nearly every byte of it. The part before the zeros is rare.
    """
    rare = word.rstrip(b"\0") or word
    at = memory.find(rare)
    while at >= 0:
        is_whole = memory.startswith(word, at)
        if is_whole:
            yield at
        at = memory.find(rare, at + (len(word) if is_whole else 1))
