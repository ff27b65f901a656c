"""A recording as rows of a table: events in typed columns, every other line as its JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from vllm_forensics.model.event import Event
from vllm_forensics.sandbox.recording_lines import RecordingWriter

_BETWEEN: Final = (None,) * 8
"""The columns of events from `pool` to `line`."""


class TableWriter(RecordingWriter):
    """Writes a whole run as rows."""

    def __init__(self, append: Callable[[Sequence[Any]], None]) -> None:
        """`append` takes one row.

        Its values: step, kind, microseconds since the beginning, pool, block, generation, request,
        source, function, file, line; and the whole line as JSON, of what is no event.
        """
        super().__init__(lambda line: None)
        self._append = append
        self._began_ns = time.monotonic_ns()

    def write(self, event: Event) -> None:
        """Write one event."""
        self._append(
            (
                event.step,
                event.kind.value,
                self._now_us(),
                event.pool,
                event.block,
                event.generation,
                event.request,
                event.source,
                event.function,
                event.file,
                event.line,
                None,
            )
        )

    def put(self, line: msgspec.Struct | Mapping[str, Any]) -> None:
        """Write one line of another kind."""
        fields = line if isinstance(line, Mapping) else msgspec.structs.asdict(line)
        text = self._encoder.encode(line).decode()
        self._append((fields.get("step"), fields["kind"], self._now_us(), *_BETWEEN, text))

    def _now_us(self) -> int:
        return (time.monotonic_ns() - self._began_ns) // 1000
