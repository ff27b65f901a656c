"""Reads a recording from its lines: what can be read of them, and what could not be is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Final

import msgspec

from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Generation, Outcome, Parameters, RequestSpec
from vllm_forensics.model.sandbox_recording import Origin, RecordedStep, Recording, Scheduled
from vllm_forensics.model.sandbox_snapshot import SnapshotLine, snapshot_of
from vllm_forensics.sandbox.collector import Collector
from vllm_forensics.sandbox.load import parse_load
from vllm_forensics.sandbox.recording_lines import (
    EndLine,
    EventLine,
    RequestLine,
    RunLine,
    StepLine,
    event_of_line,
)
from vllm_forensics.sandbox.told_load import with_told_load

_LONGEST_LINE: Final = 64 << 20
"""A snapshot of a million blocks is a line of some 10 MB; anything else is short."""
_MOST_REQUESTS: Final = 100_000
_LARGEST: Final = 1_000_000
"""Of any parameter: what the command line takes."""


class _Kind(msgspec.Struct):
    kind: str


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self.collector = Collector()
        self.run: RunLine | None = None
        self.parameters: Parameters | None = None
        self.load: list[RequestSpec] = []
        self.end: EndLine | None = None
        self.good = 0
        self.bad: list[int] = []
        self._names: set[str] = set()
        self._kind = msgspec.json.Decoder(_Kind)
        event = (msgspec.json.Decoder(EventLine), self._event)
        self._readers: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any], None]]] = {
            "run": (msgspec.json.Decoder(RunLine), self._run),
            "request": (msgspec.json.Decoder(RequestLine), self._request),
            "step": (msgspec.json.Decoder(StepLine), self._step),
            "snapshot": (msgspec.json.Decoder(SnapshotLine), self._snapshot),
            "end": (msgspec.json.Decoder(EndLine), self._end),
            **{kind.value: event for kind in EventKind},
        }

    def take(self, line: bytes, number: int) -> None:
        """Read one line; one that is none of ours is remembered."""
        try:
            if len(line) > _LONGEST_LINE:
                raise msgspec.ValidationError
            decoder, use = self._readers[self._kind.decode(line).kind]
            use(decoder.decode(line))
            self.good += 1
        except (msgspec.DecodeError, KeyError, UnicodeDecodeError, UsageError, RecursionError):
            self.bad.append(number)

    def _run(self, line: RunLine) -> None:
        self.parameters = None if line.parameters is None else parameters_of(line.parameters)
        self.run = line

    def _request(self, line: RequestLine) -> None:
        if line.id in self._names or len(self.load) >= _MOST_REQUESTS:
            raise msgspec.ValidationError
        self._names.add(line.id)
        given = {k: v for k, v in msgspec.to_builtins(line).items() if k != "kind"}
        self.load += parse_load(msgspec.json.encode(given).decode())

    def _event(self, line: EventLine) -> None:
        self.collector.write(event_of_line(line))

    def _step(self, line: StepLine) -> None:
        queues = (line.running, line.waiting, line.swapped)
        self.collector.step(
            RecordedStep(
                number=line.step,
                scheduled=None
                if line.scheduled is None
                else tuple(
                    Scheduled(request=request, sequence=sequence, start=start, tokens=tokens)
                    for request, sequence, start, tokens in line.scheduled
                ),
                preempted=tuple(line.preempted),
                finished=tuple(line.finished),
                refused=tuple(line.refused),
                queues=None if None in queues else queues,  # type: ignore[arg-type]
            )
        )

    def _snapshot(self, line: SnapshotLine) -> None:
        self.collector.snapshot(snapshot_of(line))

    def _end(self, line: EndLine) -> None:
        self.end = line


def looks_like_recording(head: bytes) -> bool:
    """Whether the first line is one of ours."""
    try:
        first = msgspec.json.decode(head.split(b"\n", 1)[0], type=_Kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return first.kind in _Reading()._readers


def parse_recording(lines: Iterable[bytes], name: str) -> Recording:
    """The recording that the lines hold; what they do not tell is left open.

    Raises:
        EvidenceError: not one line is of a recording.

    """
    reading = _Reading()
    for number, line in enumerate(lines, 1):
        if line.strip():
            reading.take(line, number)
    if not reading.good:
        raise EvidenceError(
            f"{name} holds no line of a recording",
            remedy="write one with forensics sandbox run --events FILE",
        )
    run, end = reading.run, reading.end
    recording = Recording(
        name=name,
        origin=Origin.TRACE if run is None else Origin.SANDBOX,
        engine=_engine(run),
        version=run.version if run else None,
        file=run.file if run else None,
        parameters=reading.parameters,
        load=tuple(reading.load),
        steps=reading.collector.built(),
        outcome=Outcome(end.outcome) if end else None,
        error=end.error if end else None,
        why=end.why if end else None,
        findings=tuple(end.findings) if end else (),
        gaps=tuple(_gaps(reading)),
    )
    return with_told_load(recording)


def _engine(run: RunLine | None) -> Generation | None:
    known = {generation.value for generation in Generation}
    return Generation(run.engine) if run and run.engine in known else None


def _gaps(reading: _Reading) -> Iterable[str]:
    if reading.bad:
        count = len(reading.bad)
        what = "1 line is" if count == 1 else f"{count:,} lines are"
        yield f"{what} none of a recording (the first is line {reading.bad[0]})"
    if reading.collector.lost:
        yield f"{reading.collector.lost:,} events and steps were too many to keep"
    if reading.run is not None and reading.end is None:
        yield "it has no last line: whoever wrote it was ended, or it is cut short"


def parameters_of(given: dict[str, Any]) -> Parameters:
    """Those that this version knows; numbers that nobody would run are refused."""
    known = {field.name for field in fields(Parameters)}
    found = msgspec.convert({k: v for k, v in given.items() if k in known}, Parameters)
    for field in fields(Parameters):
        value = getattr(found, field.name)
        if isinstance(value, int) and not 0 <= value <= _LARGEST:
            raise msgspec.ValidationError
    if not (found.gpu_blocks and found.block_size and found.check_every):
        raise msgspec.ValidationError
    return found
