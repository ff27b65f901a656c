"""One scheduler that is recorded: what it was told and did becomes lines of a trace."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from vllm_forensics.sandbox.engine_errors import short_path
from vllm_forensics.sandbox.live.columns import columns
from vllm_forensics.sandbox.live.known import Contents, Known
from vllm_forensics.sandbox.live.lines import (
    AbortLine,
    AnswerLine,
    CameLine,
    EventsLine,
    HeaderLine,
    RaisedLine,
    ResetLine,
    ScheduleLine,
    StoppedLine,
    TraceLine,
)
from vllm_forensics.sandbox.live.live_recorder import LiveRecorder
from vllm_forensics.sandbox.live.state import state_of


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


class LiveSession:
    """The trace of one scheduler, from its first request to the end of the process."""

    def __init__(self, store: Store, told: Callable[[str], None]) -> None:
        """`told` is called once, with the reason, if the recording has to stop."""
        self._store = store
        self._told = told
        self._buffer = bytearray()
        self._encoder = msgspec.json.Encoder()
        self._contents = Contents()
        self._known: dict[str, Known] = {}
        self._in_flight: dict[int, tuple[int, list[str], list[str]]] = {}
        """By identity of a step's output: its number, its requests, who was preempted in it."""
        self._header: HeaderLine | None = None
        self._scheduler: Any = None
        self._watched: frozenset[int] = frozenset()
        self._stopped = False
        self._sends = False
        self.recorder = LiveRecorder()
        self.pool: Any = None
        """The block pool that is recorded; None before and after."""

    def begin(self, scheduler: Any, header: HeaderLine) -> None:
        """Record this scheduler from now on."""
        self._header = header
        self._scheduler = scheduler
        self._sends = header.live.connector is not None
        manager = scheduler.kv_cache_manager
        self._contents.most = max(self._contents.most, 4 * len(manager.block_pool.blocks))
        self._line(header)
        self._flush()
        self.pool = manager.block_pool
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
        self._watched, self.pool = frozenset(), None
        self._line(StoppedLine(kind="stopped", step=self.recorder.step, why=why))
        try:
            self._flush()
        except OSError:
            self._buffer.clear()
        self._stopped = True
        self._told(why)

    def added(self, request: Any) -> None:
        """A request came."""
        known = self._known[request.request_id] = Known(request)
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

    def begin_step(self) -> list[Any]:
        """A step is about to be scheduled; the requests that run until then."""
        self._take_changes()
        self.recorder.step += 1
        return list(self._scheduler.running)

    def scheduled(self, output: Any, running_before: list[Any]) -> None:
        """A step was scheduled; from here on it may kill the process."""
        step = self.recorder.step
        running, preempted = self._scheduler.running, []
        if running[: len(running_before)] != running_before:
            still = {request.request_id for request in running}
            names = [request.request_id for request in running_before]
            preempted = [name for name in names if name not in still]
        items, more = columns(output)
        told = [item.request for item in items] + (more.requests if more is not None else [])
        self._in_flight[id(output)] = (step, told, preempted)
        self._line(
            ScheduleLine(
                kind="schedule",
                step=step,
                items=items,
                more=more,
                forgotten=sorted(output.finished_req_ids),
                preempted=preempted,
            )
        )
        self._flush()

    def completed(self, output: Any) -> None:
        """The worker's answer was taken in. Called for every step: no call more than is needed."""
        step, names, preempted = self._in_flight.pop(id(output), (self.recorder.step, [], []))
        everyone, left = self._known, self._scheduler.requests
        told = [everyone.get(name) for name in names]
        others: dict[str, int] = {}
        if len(output.num_scheduled_tokens) > len(names):  # some are told of by a count alone
            more = {name: everyone.get(name) for name in output.num_scheduled_tokens}
            others = {n: len(k.outputs) for n, k in more.items() if k and n not in set(names)}
            names = list(more)
        some = [known for known in told if known is not None]
        hashes = {
            known.name: self._new_hashes(known)
            for known in some
            if len(known.block_hashes) != known.hashes
        }
        # One whose blocks a connector still sends stays, and is finished.
        ended = [name for name in names if name not in left and name in everyone]
        if self._sends:
            ended += [k.name for k in some if k.name in left and k.request.is_finished()]
        status = {name: everyone.pop(name).request.status.name for name in ended}
        running = len(self._scheduler.running)
        self._line(
            AnswerLine(
                kind="step",
                step=step,
                outputs=[0 if known is None else len(known.outputs) for known in told],
                others=others,
                finished=ended,
                status=status,
                hashes=hashes,
                preempted=preempted,
                running=running,
                waiting=len(left) - running,
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
        request = self.recorder.failed_for(error)
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

    def _new_hashes(self, known: Known) -> list[int | str]:
        """Of the blocks that became full since the last time."""
        new: list[int | str]
        new = [self._contents.number(value) for value in known.block_hashes[known.hashes :]]
        known.hashes += len(new)
        return new

    def _take_changes(self) -> None:
        """What was done to blocks stands before the line of the call that did it."""
        changes = self.recorder.changes
        if changes:
            sites = self.recorder.new_sites
            line = EventsLine(kind="events", step=self.recorder.step, changes=changes, sites=sites)
            self._buffer += self._encoder.encode(line)
            self._buffer += b"\n"
            changes.clear()
            sites.clear()

    def _line(self, line: TraceLine) -> None:
        self._take_changes()
        self.recorder.working_on = None
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
            self.recorder.forget_sites()
            live = replace(self._header.live, segment=self._store.segment)
            self._line(replace(self._header, live=live))
            going_on = (known.request for known in self._known.values())
            self._line(state_of(self.recorder, self._scheduler, going_on))
            data = bytes(self._buffer)
            self._buffer.clear()
            self._store.write(data)
