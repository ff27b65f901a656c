"""Every error that is raised on purpose; each says what to do about it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TRACEBACK: Final = "VLLM_FORENSICS_TRACEBACK"
_OURS: Final = f"/{__name__.partition('.')[0]}/"
_MAX_WORDS: Final = 200


class ForensicsError(Exception):
    """Something that a person can act on: what happened, and what to type next."""

    def __init__(self, message: str, *, remedy: str) -> None:
        """Keep the message and the remedy apart, so that each renderer can show both."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class EvidenceError(ForensicsError):
    """An input could not be read at all."""


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Put the path before what is told of evidence, where nothing else says which file it is.

    Raises:
        EvidenceError: the one that was raised in the block, with the path before its message.

    """
    try:
        yield
    except EvidenceError as error:
        raise EvidenceError(f"{path} {error.message}", remedy=error.remedy) from error


class ToolError(ForensicsError):
    """An external program is missing, failed, or did not answer in time."""


class UsageError(ForensicsError):
    """The command was asked for something that it cannot do."""


class StoreError(ForensicsError):
    """The store of cases cannot be opened, read or written."""


class OwnError(ForensicsError):
    """Something that this program did not expect: most likely a mistake in it."""


def own_error(error: Exception) -> OwnError:
    """What to tell of an error that was not raised on purpose: what, where, and to report it.

    Raises:
        Exception: `error` itself, where VLLM_FORENSICS_TRACEBACK asks for Python's own words.

    """
    if os.environ.get(_TRACEBACK):
        raise error
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if _OURS in code.co_filename:
            file = code.co_filename.rpartition(_OURS)[2]
            place = f" (in {code.co_name}, {file}:{trace.tb_lineno})"
        trace = trace.tb_next
    words = "".join(sign if sign.isprintable() else "�" for sign in str(error)[:_MAX_WORDS])
    said = f"{type(error).__name__}{words and f': {words}'}{place}"
    return OwnError(
        f"an error that forensics did not expect: {said}",
        remedy=f"please report it; {_TRACEBACK}=1 before the command shows the traceback to send",
    )
