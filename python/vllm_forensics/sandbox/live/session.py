"""One scheduler that is recorded: what it was told and did becomes lines of a trace."""

from __future__ import annotations

import hashlib
import secrets
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from vllm_forensics.sandbox.engine.v1_output import work_items
from vllm_forensics.sandbox.engine_errors import short_path
from vllm_forensics.sandbox.event_sink import JsonLines
from vllm_forensics.sandbox.live.lines import (
    AbortLine,
    AnswerLine,
    CameLine,
    HeaderLine,
    RaisedLine,
    ResetLine,
    ScheduleLine,
    StoppedLine,
    TraceLine,
)
from vllm_forensics.sandbox.live.state import state_of
from vllm_forensics.sandbox.recorder import Recorder

_DIGEST_BYTES: Final = 8


class Store(Protocol):
    """Where a trace goes."""

    @property
    def segment(self) -> int:
        """Which one is being written, from 1."""

    @property
    def full(self) -> bool:
        """Whether it is time for the next segment."""

    def next_segment(self) -> None:
        """Go on in an empty one."""

    def write(self, data: bytes) -> None:
        """Append, so that it outlives the process."""


class LiveRecorder(Recorder):
    """Keeps nothing in memory but who holds what; calls are told by the line of the engine."""

    # One more than in a sandbox: the guard stands between the engine and the wrapper.
    _depth = 4


class _Known:
    """A request that came, and how much of it was told."""

    __slots__ = ("block_hashes", "hashes", "outputs", "request")

    def __init__(self, request: Any) -> None:
        self.request = request
        self.outputs = 0
        """Tokens that it has put out."""
        self.hashes = 0
        known = getattr(request, "block_hashes", None)
        self.block_hashes: list[Any] = known if isinstance(known, list) else []
        """Of its full blocks; requests have them since 0.10, in a list that grows."""


class LiveSession:
    """The trace of one scheduler, from its first request to the end of the process."""

    def __init__(self, store: Store, told: Callable[[str], None]) -> None:
        """`told` is called once, with the reason, if the recording has to stop."""
        self._store = store
        self._told = told
        self._buffer = bytearray()
        self._encoder = msgspec.json.Encoder()
        self._key = secrets.token_bytes(16)
        self._known: dict[str, _Known] = {}
        self._in_flight: dict[int, tuple[int, list[str]]] = {}
        """By identity of a step's output: its number, and who was preempted in it."""
        self._header: HeaderLine | None = None
        self._scheduler: Any = None
        self._watched: frozenset[int] = frozenset()
        self._stopped = False
        self._sends = False
        self.recorder = LiveRecorder(JsonLines(self._buffer.extend), kept=0)

    def begin(self, scheduler: Any, header: HeaderLine) -> None:
        """Record this scheduler from now on."""
        self._header = header
        self._scheduler = scheduler
        self._sends = header.live.connector is not None
        manager = scheduler.kv_cache_manager
        self._line(header)
        self._flush()
        self._watched = frozenset(map(id, (scheduler, manager, manager.block_pool)))

    def watches(self, instance: object) -> bool:
        """Whether this scheduler, manager or pool is the one that is recorded."""
        return id(instance) in self._watched

    def give_up(self, error: BaseException) -> None:
        """Record no more; what was seen until now stays."""
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({short_path(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
        self.stop(
            f"{type(error).__name__}{where}: this vLLM is not understood, or the disk is full"
        )

    def stop(self, why: str) -> None:
        """End the trace, and say so once."""
        self._watched = frozenset()
        self._line(StoppedLine(kind="stopped", step=self.recorder.step, why=why))
        try:
            self._flush()
        except OSError:
            self._buffer.clear()
        self._stopped = True
        self._told(why)

    def added(self, request: Any) -> None:
        """A request came."""
        known = self._known[request.request_id] = _Known(request)
        self._line(
            CameLine(
                kind="request",
                id=request.request_id,
                prompt=request.num_prompt_tokens,
                output=request.max_tokens,
                arrival=self.recorder.step + 1,
                priority=getattr(request, "priority", 0),
                hashes=self._new_hashes(known),
            )
        )

    def scheduled(self, output: Any, running_before: Iterable[str]) -> None:
        """A step was scheduled; from here on it may kill the process."""
        step = self.recorder.step
        still = {request.request_id for request in self._scheduler.running}
        preempted = [name for name in running_before if name not in still]
        self._in_flight[id(output)] = (step, preempted)
        self._line(
            ScheduleLine(
                kind="schedule",
                step=step,
                items=list(work_items(output)),
                forgotten=sorted(output.finished_req_ids),
                preempted=preempted,
            )
        )
        self._flush()

    def completed(self, output: Any) -> None:
        """The worker's answer was taken in. Called for every step: no call more than is needed."""
        tokens: dict[str, int] = {}
        status: dict[str, str] = {}
        hashes: dict[str, list[str]] = {}
        left = self._scheduler.requests
        for name in output.num_scheduled_tokens:
            known = self._known.get(name)
            if known is None:
                continue
            outputs = known.request.num_output_tokens
            if outputs != known.outputs:
                tokens[name] = max(outputs - known.outputs, 0)
                known.outputs = outputs
            if len(known.block_hashes) != known.hashes:
                hashes[name] = self._new_hashes(known)
            # One whose blocks a connector still sends stays, and is finished.
            if name not in left or (self._sends and known.request.is_finished()):
                status[name] = known.request.status.name
                del self._known[name]
        step, preempted = self._in_flight.pop(id(output), (self.recorder.step, []))
        running = len(self._scheduler.running)
        self._line(
            AnswerLine(
                kind="step",
                step=step,
                tokens=tokens,
                finished=list(status),
                status=status,
                hashes=hashes,
                preempted=preempted,
                running=running,
                waiting=len(self._scheduler.requests) - running,
                swapped=0,
            )
        )
        self._flush()

    def unfinished(self) -> list[str]:
        """The requests that can still be ended."""
        return [name for name, known in self._known.items() if not known.request.is_finished()]

    def aborted(self, before: list[str], status: str) -> None:
        """Requests were ended from outside."""
        ended = [name for name in before if self._known[name].request.is_finished()]
        if ended:
            for name in ended:
                del self._known[name]
            step = self.recorder.step
            self._line(AbortLine(kind="abort", step=step, requests=ended, status=status))
            self._flush()

    def reset(self, *, done: bool) -> None:
        """The cache by content was to be emptied."""
        self._line(ResetLine(kind="reset", step=self.recorder.step, done=done))
        self._flush()

    def raised(self, error: BaseException) -> None:
        """A call into the scheduler raised; its message may quote what is private."""
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if "/vllm/" in f.filename), None)
        where = "" if place is None else f" at {short_path(place.filename)}:{place.lineno}"
        request = self.recorder.failing
        self._line(
            RaisedLine(
                kind="end",
                outcome="raised",
                error=f"{type(error).__name__}{where}",
                why="the scheduler raised"
                if request is None
                else f"the scheduler raised while it worked for request {request}",
            )
        )
        self._flush()

    def _new_hashes(self, known: _Known) -> list[str]:
        """Of the blocks that became full since the last time."""
        new = [self._digest(value) for value in known.block_hashes[known.hashes :]]
        known.hashes += len(new)
        return new

    def _digest(self, value: object) -> str:
        raw = value if isinstance(value, bytes) else repr(value).encode()
        return hashlib.blake2b(raw, key=self._key, digest_size=_DIGEST_BYTES).hexdigest()

    def _line(self, line: TraceLine) -> None:
        self._buffer += self._encoder.encode(line)
        self._buffer += b"\n"

    def _flush(self) -> None:
        """Hand over what happened, between two calls of the engine: never half of a step."""
        if self._stopped:  # in the middle of a call, whose wrappers still come to their end
            self._buffer.clear()
            return
        data = bytes(self._buffer)
        self._buffer.clear()
        self._store.write(data)
        if self._store.full and self._header is not None:
            self._store.next_segment()
            live = replace(self._header.live, segment=self._store.segment)
            self._line(replace(self._header, live=live))
            going_on = (known.request for known in self._known.values())
            self._line(state_of(self.recorder, self._scheduler, going_on))
            data = bytes(self._buffer)
            self._buffer.clear()
            self._store.write(data)
