"""Reads a live engine's trace line by line; what cannot be read is counted and said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.event import EventKind
from vllm_forensics.sandbox.live.lines import (
    AbortLine,
    AnswerLine,
    CameLine,
    EventsLine,
    HeaderLine,
    RaisedLine,
    ResetLine,
    ScheduleLine,
    StateLine,
    StoppedLine,
    TraceLine,
)
from vllm_forensics.sandbox.live.unfolding import Unfolding
from vllm_forensics.sandbox.recording_lines import EventLine

_LONGEST_LINE: Final = 64 << 20
_KINDS: Final[dict[str, type[TraceLine | EventLine]]] = {
    "run": HeaderLine,
    "events": EventsLine,
    "request": CameLine,
    "schedule": ScheduleLine,
    "step": AnswerLine,
    "abort": AbortLine,
    "reset": ResetLine,
    "state": StateLine,
    "end": RaisedLine,
    "stopped": StoppedLine,
    **{kind.value: EventLine for kind in EventKind},
}


class _Kind(msgspec.Struct):
    kind: str


class TraceReader:
    """The lines of one trace, in order. Read the header first."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        """Read the header.

        Raises:
            EvidenceError: the first line is none of a live engine's trace.

        """
        self._lines = iter(lines)
        self._kind: msgspec.json.Decoder[_Kind] = msgspec.json.Decoder(_Kind)
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {
            kind: msgspec.json.Decoder(line) for kind, line in _KINDS.items()
        }
        self._unfolding = Unfolding()
        self.unread: list[int] = []
        """Numbers of the lines that could not be read."""
        first = self._decoded(next(self._lines, b""))
        if not isinstance(first, HeaderLine):
            raise EvidenceError(
                f"{name} does not begin as the trace of a live vLLM",
                remedy="record one: VLLM_FORENSICS_TRACE=DIR vllm serve …",
            )
        self.header = first

    def __iter__(self) -> Iterator[TraceLine | EventLine]:
        """All lines after the header that can be read, unfolded; the last one may be cut."""
        for number, text in enumerate(self._lines, 2):
            line = self._decoded(text)
            if line is not None:
                yield from self._unfolding.lines(line)
            elif text.strip():
                self.unread.append(number)

    def _decoded(self, text: bytes) -> TraceLine | EventLine | None:
        if len(text) > _LONGEST_LINE:
            return None
        try:
            line: TraceLine | EventLine = self._decoders[self._kind.decode(text).kind].decode(text)
        except (msgspec.DecodeError, KeyError, UnicodeDecodeError, RecursionError):
            return None
        return line


def is_trace(head: bytes) -> bool:
    """Whether a file that begins so is the trace of a live engine."""
    try:
        msgspec.json.decode(head.partition(b"\n")[0], type=HeaderLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
