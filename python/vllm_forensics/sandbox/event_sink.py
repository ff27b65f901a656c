"""Events as lines of JSON, for a file or another program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from vllm_forensics.model.event import Event


class JsonLines:
    """Writes each event as one line; fields that are unknown are left out."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """`write` takes the bytes of a line, with its newline."""
        self._write = write
        self._encoder = msgspec.json.Encoder()

    def write(self, event: Event) -> None:
        """Write one event."""
        fields = {
            "step": event.step,
            "kind": event.kind.value,
            "pool": event.pool,
            "block": event.block,
            "generation": event.generation,
            "request": event.request,
            "source": event.source,
            "function": event.function,
            "file": event.file,
            "line": event.line,
        }
        known = {name: value for name, value in fields.items() if value is not None}
        self.put(known)

    def put(self, line: msgspec.Struct | Mapping[str, Any]) -> None:
        """Write one line of another kind."""
        self._write(self._encoder.encode(line) + b"\n")
