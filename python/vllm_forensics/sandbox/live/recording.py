"""A live engine's trace as a recording, which any engine of the sandbox can be given again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.sandbox import Generation, Outcome, Parameters, RequestSpec
from vllm_forensics.model.sandbox_recording import Origin, RecordedStep, Recording, Scheduled
from vllm_forensics.sandbox.collector import Collector
from vllm_forensics.sandbox.live.lines import (
    AbortLine,
    AnswerLine,
    CameLine,
    RaisedLine,
    ScheduleLine,
    StateLine,
    TraceLine,
)
from vllm_forensics.sandbox.live.reader import TraceReader
from vllm_forensics.sandbox.recording_lines import EventLine, event_of_line
from vllm_forensics.sandbox.recording_reader import parameters_of


class _Came:
    """One request: what was known when it came, and what its life added."""

    def __init__(self, line: CameLine, contents: list[int]) -> None:
        self.line = line
        self.contents = contents
        self.tokens = 0
        self.ended = False
        self.abort_after: int | None = None

    def spec(self, size: int) -> RequestSpec:
        """As a load has it: with the output that it really had, where that is known."""
        return RequestSpec(
            id=self.line.id,
            arrival=self.line.arrival,
            prompt_len=self.line.prompt,
            max_tokens=max(1, self.tokens) if self.ended else self.line.output,
            priority=self.line.priority,
            abort_after=self.abort_after,
            contents=tuple(self.contents),
            contents_size=size,
        )


class _Rebuilding:
    """Turns lines into steps. A step in which there was nothing to do is left out.

    A live engine runs one after its last request; a sandbox has no reason to. So steps are numbered
    anew, from 0.
    """

    def __init__(self, reader: TraceReader) -> None:
        self.collector = Collector()
        self.requests: dict[str, _Came] = {}
        self.raised: RaisedLine | None = None
        self.state: StateLine | None = None
        self._reader = reader
        self._numbers: dict[int | str, int] = {}
        """By hash of a block: a number for its content."""
        self._alive: set[str] = set()
        self._number = -1
        self._scheduled: dict[int, tuple[int, ScheduleLine]] = {}
        """By the trace's number: ours, and what was scheduled."""

    def run(self) -> None:
        """Go through the whole trace."""
        pending: list[EventLine] = []
        for line in self._reader:
            if isinstance(line, EventLine):
                pending.append(line)
                continue
            if isinstance(line, ScheduleLine) and (line.items or self._alive):
                self._number += 1
            for event in pending:
                told = event_of_line(event)
                self.collector.write(replace(told, step=max(self._number, 0)))
            pending.clear()
            self._take(line)

    def _take(self, line: TraceLine) -> None:
        match line:
            case CameLine():
                hashes = [self._content(value) for value in line.hashes]
                here = msgspec.structs.replace(line, arrival=self._number + 1)
                self.requests[line.id] = _Came(here, hashes)
                self._alive.add(line.id)
            case ScheduleLine() if line.items or self._alive:
                self._scheduled[line.step] = (self._number, line)
                self._step(self._number, line, None)
            case AnswerLine() if line.step in self._scheduled:
                self._answered(line)
            case AbortLine():
                for name in line.requests:
                    self._alive.discard(name)
                    if name in self.requests:
                        self.requests[name].abort_after = max(self._number, 0)
            case RaisedLine():
                self.raised = line
            case StateLine():
                self.state = line
            case _:
                pass

    def _answered(self, line: AnswerLine) -> None:
        number, scheduled = self._scheduled.pop(line.step)
        for name, count in line.tokens.items():
            if name in self.requests:
                self.requests[name].tokens += count
        for name, hashes in line.hashes.items():
            if name in self.requests:
                self.requests[name].contents += map(self._content, hashes)
        for name in line.finished:
            self._alive.discard(name)
            if name in self.requests:
                self.requests[name].ended = True
        self._step(number, scheduled, line)

    def _step(self, number: int, scheduled: ScheduleLine, answer: AnswerLine | None) -> None:
        self.collector.step(
            RecordedStep(
                number=number,
                scheduled=tuple(
                    Scheduled(
                        request=item.request,
                        sequence=item.sequence,
                        start=item.start,
                        tokens=item.tokens,
                    )
                    for item in scheduled.items
                ),
                preempted=tuple(scheduled.preempted),
                finished=tuple(answer.finished) if answer else (),
                queues=(answer.running, answer.waiting, answer.swapped) if answer else None,
                completed=answer is not None,
            )
        )

    def _content(self, value: int | str) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


def recording_of(lines: Iterable[bytes], name: str) -> Recording:
    """The recording that a live engine's trace is.

    Raises:
        EvidenceError: it is no such trace, or its beginning is gone.

    """
    reader = TraceReader(lines, name)
    try:
        parameters = parameters_of(reader.header.parameters)
    except msgspec.ValidationError as error:
        raise EvidenceError(
            f"{name} states parameters that nobody runs", remedy="is its first line damaged?"
        ) from error
    rebuilding = _Rebuilding(reader)
    rebuilding.run()
    if rebuilding.state is not None:
        raise EvidenceError(
            f"{name} begins at step {rebuilding.state.step}: what was before decides too",
            remedy="show what it has: forensics sandbox show; or record with a larger "
            "VLLM_FORENSICS_TRACE_MIB",
        )
    raised = rebuilding.raised
    return Recording(
        name=name,
        origin=Origin.LIVE,
        engine=Generation.V1,
        version=reader.header.version,
        parameters=parameters,
        load=tuple(came.spec(parameters.block_size) for came in rebuilding.requests.values()),
        steps=rebuilding.collector.built(),
        outcome=Outcome.RAISED if raised else None,
        error=raised.error if raised else None,
        why=raised.why if raised else None,
        assumed=tuple(_assumed(reader, parameters)),
        gaps=tuple(_gaps(reader, rebuilding)),
    )


def _assumed(reader: TraceReader, parameters: Parameters) -> Iterable[str]:
    """What the live engine had and the sandbox stands in for otherwise."""
    live = reader.header.live
    if live.connector is not None:
        yield f"{live.connector} moves no blocks when this trace is driven again"
    if live.speculative_tokens:
        yield "no tokens are drafted when this trace is driven again"
    if live.async_scheduling and not parameters.async_scheduling:
        yield "steps were scheduled while others were in flight; here each waits for the last"
    if len(live.groups) > 1:
        yield "the model has several groups of layers; here all are like the first"


def _gaps(reader: TraceReader, rebuilding: _Rebuilding) -> Iterable[str]:
    if reader.unread:
        yield f"{len(reader.unread)} lines cannot be read, the first is line {reader.unread[0]}"
    if rebuilding.collector.lost:
        yield f"{rebuilding.collector.lost:,} events and steps were too many to keep"
