"""What a live engine's trace tells: what was broken, when, and what was going on at its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.event import Chain
from vllm_forensics.model.sandbox import (
    BlockCounts,
    Generation,
    Outcome,
    RequestSpec,
    RequestState,
    SandboxRun,
    StepRecord,
    Violation,
    ViolationKind,
    VllmTree,
    WorkerStep,
    WorkItem,
)
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.findings import Findings
from vllm_forensics.sandbox.live.lines import (
    AbortLine,
    AnswerLine,
    CameLine,
    RaisedLine,
    ScheduleLine,
    StateLine,
    StoppedLine,
    TraceLine,
)
from vllm_forensics.sandbox.live.reader import TraceReader
from vllm_forensics.sandbox.live.told_recorder import ToldRecorder
from vllm_forensics.sandbox.recording_lines import EventLine
from vllm_forensics.sandbox.recording_reader import parameters_of
from vllm_forensics.sandbox.shadow_worker import ShadowWorker

_MOST_STEPS: Final = 1_000_000


class TraceCheck:
    """A worker that is told again what the real one was told, over a pool that is told too."""

    def __init__(self, reader: TraceReader) -> None:
        """Nothing is checked yet.

        Raises:
            EvidenceError: the header states a pool that nobody would run.

        """
        self._reader = reader
        try:
            parameters = parameters_of(reader.header.parameters)
        except msgspec.ValidationError as error:
            raise EvidenceError(
                "the trace states parameters that nobody runs",
                remedy="is its first line damaged?",
            ) from error
        self._parameters = parameters
        self._recorder = ToldRecorder()
        self._findings = Findings(self._recorder)
        self._worker = ShadowWorker(
            self._recorder,
            block_size=parameters.block_size,
            window=parameters.sliding_window,
            total=parameters.gpu_blocks,
        )
        self._requests: dict[str, RequestState] = {}
        self._load: dict[str, RequestSpec] = {}
        self._steps: list[StepRecord] = []
        self._in_flight: dict[int, ScheduleLine] = {}
        self._finished: list[str] = []
        self._preempted = 0
        self._raised: RaisedLine | None = None
        self._stopped: str | None = None
        self._begins_at: int | None = None

    def run(self) -> SandboxRun:
        """Go through the whole trace."""
        for line in self._reader:
            self._take(line)
        return self._told()

    def _take(self, line: TraceLine | EventLine) -> None:
        match line:
            case EventLine():
                self._recorder.tell(line)
            case CameLine():
                self._came(line)
            case ScheduleLine():
                self._scheduled(line)
            case AnswerLine():
                self._answered(line)
            case AbortLine():
                for name in line.requests:
                    self._requests.pop(name, None)
            case StateLine():
                self._began_with(line)
            case RaisedLine():
                self._raised = line
            case StoppedLine():
                self._stopped = line.why
            case _:
                pass

    def _came(self, line: CameLine) -> None:
        self._load[line.id] = RequestSpec(
            id=line.id,
            arrival=line.arrival,
            prompt_len=line.prompt,
            max_tokens=line.output,
            priority=line.priority,
        )
        self._requests[line.id] = RequestState(
            id=line.id,
            state="waiting",
            tokens=line.prompt,
            prompt_len=line.prompt,
            computed=0,
            pool=GPU,
            tables=(),
        )

    def _began_with(self, line: StateLine) -> None:
        """The worker's tables, as if it was told them in a step that computes nothing."""
        self._begins_at = line.step
        self._recorder.step = line.step
        self._recorder.begin_with(line, GPU)
        items = []
        for known in line.requests:
            self._requests[known.id] = RequestState(
                id=known.id,
                state="running" if any(known.tables) else "waiting",
                tokens=known.tokens,
                prompt_len=known.prompt,
                computed=known.computed,
                pool=GPU,
                tables=tuple(tuple(table) for table in known.tables),
            )
            if any(known.tables):
                start = min(known.computed, len(known.tables[0]) * self._parameters.block_size)
                items.append(
                    WorkItem(known.id, known.id, start, 0, tuple(known.tables[0]), replaces=True)
                )
        self._worker.execute(
            WorkerStep(number=max(line.step, 0), items=tuple(items)), self._findings.add
        )

    def _scheduled(self, line: ScheduleLine) -> None:
        self._recorder.step = line.step
        self._in_flight[line.step] = line
        self._preempted += len(line.preempted)
        step = WorkerStep(
            number=line.step,
            items=tuple(line.items),
            finished=tuple(line.forgotten),
            preempted=tuple(line.preempted),
        )
        self._worker.execute(step, self._findings.add)
        for item in line.items:
            state = self._requests.get(item.request)
            if state is not None:
                computed = item.start + item.tokens
                self._requests[item.request] = replace(state, state="running", computed=computed)
        for name in line.preempted:
            if name in self._requests:
                self._requests[name] = replace(self._requests[name], state="preempted")

    def _answered(self, line: AnswerLine) -> None:
        scheduled = self._in_flight.pop(line.step, None)
        for name, count in line.tokens.items():
            state = self._requests.get(name)
            if state is not None:
                self._requests[name] = replace(state, tokens=state.tokens + count)
        for name in line.finished:
            self._requests.pop(name, None)
        self._finished += line.finished
        if len(self._steps) < _MOST_STEPS:
            self._steps.append(
                StepRecord(
                    number=line.step,
                    scheduled_tokens=sum(item.tokens for item in scheduled.items)
                    if scheduled
                    else 0,
                    running=line.running,
                    waiting=line.waiting,
                    swapped=line.swapped,
                    preempted=tuple(line.preempted),
                    gpu_used=self._recorder.used_blocks[GPU],
                    cpu_used=0,
                )
            )

    def _check_leak(self) -> None:
        """Blocks that are held although no request is left."""
        held = sorted(b for b, count in self._recorder.holders[GPU].items() if count > 0)
        if held and not self._requests and not self._in_flight:
            message = (
                f"{len(held)} of the blocks are still held after the last request ended: "
                f"{', '.join(map(str, held[:8]))}{' …' if len(held) > 8 else ''}"
            )
            self._findings.add(ViolationKind.LEAK, message, None, held[0])

    def _told(self) -> SandboxRun:
        header = self._reader.header
        self._check_leak()
        violations = self._findings.with_chains()
        total = self._parameters.gpu_blocks
        in_flight = list(self._in_flight.values())
        return SandboxRun(
            engine=Generation.V1,
            tree=VllmTree(
                root=header.live.file.rpartition("/vllm/")[0],
                version=header.version,
                file=header.live.file,
                generation=Generation.V1,
            ),
            parameters=self._parameters,
            load=tuple(self._load.values()),
            outcome=self._outcome(violations),
            error=self._raised.error if self._raised else None,
            raised_at=(),
            steps=tuple(self._steps),
            finished=tuple(self._finished),
            refused=(),
            preemptions=self._preempted,
            violations=violations,
            unshown_violations=self._findings.unshown,
            chains=() if violations or not in_flight else self._in_hand(in_flight[-1]),
            why="; ".join(self._why()),
            blocks=(
                BlockCounts(
                    pool=GPU,
                    total=total,
                    usable=total - 1,
                    free=total - 1 - self._recorder.used_blocks[GPU],
                ),
            ),
            requests=tuple(self._requests.values()),
            events=self._recorder.count,
        )

    def _outcome(self, violations: tuple[Violation, ...]) -> Outcome:
        if self._raised is not None:
            return Outcome.RAISED
        if violations:
            return Outcome.VIOLATION
        whole = not (self._in_flight or self._requests or self._stopped)
        return Outcome.FINISHED if whole else Outcome.CUT

    def _in_hand(self, line: ScheduleLine) -> tuple[Chain, ...]:
        """The life of the first block that the worker was about to write."""
        block = self._recorder.used_in(line.step, GPU)
        return () if block is None else (self._recorder.chain(GPU, block),)

    def _why(self) -> Iterable[str]:
        header = self._reader.header
        if self._raised is not None:
            yield self._raised.why
        for line in self._in_flight.values():
            tokens = sum(item.tokens for item in line.items)
            names = ", ".join(item.request for item in line.items[:4])
            more = f" and {len(line.items) - 4} more" if len(line.items) > 4 else ""
            yield (
                f"the worker had step {line.step}, {tokens} tokens of {names}{more}, and gave no "
                "answer: the process ended there, or it still runs"
            )
        if not self._in_flight and self._requests:
            yield f"the trace ends between two steps, with {len(self._requests)} requests left"
        if self._stopped is not None:
            yield f"the recording stopped and the engine did not: {self._stopped}"
        if self._begins_at is not None:
            yield f"steps until {self._begins_at} are in an earlier segment, or cut off"
        if self._reader.unread:
            count, first = len(self._reader.unread), self._reader.unread[0]
            lines = "1 line" if count == 1 else f"{count:,} lines"
            yield f"{lines} cannot be read, the first is line {first}"
        if len(header.live.groups) > 1:
            yield (
                f"the model has {len(header.live.groups)} groups of layers: of each step only the "
                "first group's tables are recorded"
            )


def check_trace(lines: Iterable[bytes], name: str) -> SandboxRun:
    """Go through the trace of a live engine; `lines` are read once, in order.

    Raises:
        EvidenceError: it is no such trace.

    """
    return TraceCheck(TraceReader(lines, name)).run()
