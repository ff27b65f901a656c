"""Our own scheduler: first come, first served, small, and without any vLLM.

It admits in the order of arrival, and only what fits with its whole prompt; where the pool is too
small for what runs, it preempts the last that came. What that had is swapped to the CPU where there
is room, and computed anew later where there is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import (
    Completed,
    Generation,
    Parameters,
    Policy,
    RequestSpec,
    RequestState,
    Snapshot,
    Transfer,
    WorkerStep,
    WorkItem,
)
from vllm_forensics.sandbox.engine.interface import CPU, GPU, output_token, prompt_tokens
from vllm_forensics.sandbox.engine.options import refuse_others
from vllm_forensics.sandbox.engine.planted import POOLS
from vllm_forensics.sandbox.engine.reference_pool import ReferencePool
from vllm_forensics.sandbox.recorder import Recorder


@dataclass(slots=True, eq=False)
class _Request:
    spec: RequestSpec
    tokens: list[int]
    index: int
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    cached: int = 0
    """Blocks that were offered to the cache."""
    told: int = 0
    """Blocks of the table that the worker has."""
    on_cpu: tuple[int, ...] = ()
    """Where its blocks were swapped to."""


class ReferenceEngine:
    """First come, first served; whole prompts unless chunks are asked for."""

    generation = Generation.REFERENCE
    tree = None
    ledger = None

    def __init__(self, parameters: Parameters, recorder: Recorder) -> None:
        """An empty engine.

        Raises:
            UsageError: a parameter that only vLLM's engines have.

        """
        refuse_others(
            parameters,
            "the reference engine",
            ("sliding_window", "best_of", "spec_tokens", "hybrid", "connector"),
            remedy="give --vllm VERSION or PATH: 0.4.2 has best-of, 0.32.0 the others",
        )
        self._parameters = parameters
        self._batch = parameters.batch(chunks=bool(parameters.chunked_prefill))
        self._recorder = recorder
        self.pool = POOLS[parameters.plant](
            parameters.gpu_blocks, recorder, caching=bool(parameters.prefix_caching)
        )
        self.swap_space = ReferencePool(parameters.cpu_blocks, recorder, name=CPU)
        self.usable_blocks = parameters.gpu_blocks
        self._waiting: deque[_Request] = deque()
        self._swapped: deque[_Request] = deque()
        self._moved_out: list[tuple[int, int]] = []
        self._moved_in: list[tuple[int, int]] = []
        self._running: list[_Request] = []
        self._requests: dict[str, _Request] = {}
        self._ended: list[str] = []
        self._count = 0

    def add(self, spec: RequestSpec) -> None:
        """Queue a request."""
        request = _Request(spec=spec, tokens=prompt_tokens(self._count, spec), index=self._count)
        self._count += 1
        self._requests[spec.id] = request
        self._waiting.append(request)
        self._sort()

    def _sort(self) -> None:
        if self._parameters.policy is Policy.PRIORITY:
            self._waiting = deque(sorted(self._waiting, key=_turn))
            self._swapped = deque(sorted(self._swapped, key=_turn))
            self._running.sort(key=_turn)

    def step(self) -> WorkerStep:
        """Grow what runs, preempting from the end; then bring back and admit what fits."""
        budget = self._batch
        items: list[WorkItem] = []
        preempted: list[str] = []
        for request in tuple(self._running):
            if request not in self._running:
                continue
            count = min(len(request.tokens) - request.computed, budget)
            if count and self._grow(request, request.computed + count, preempted):
                items.append(self._item(request, count))
                budget -= count
        while not preempted and budget > 0 and len(self._running) < self._parameters.max_seqs:
            # What was swapped out came before all that waits.
            if not (self._bring_back if self._swapped else self._admit)(items, budget):
                break
            budget -= items[-1].tokens
        finished, self._ended = tuple(self._ended), []
        moved_in, self._moved_in = tuple(self._moved_in), []
        moved_out, self._moved_out = tuple(self._moved_out), []
        return WorkerStep(
            number=self._recorder.step,
            items=tuple(items),
            finished=finished,
            preempted=tuple(preempted),
            swapped_in=moved_in,
            swapped_out=moved_out,
        )

    def _item(self, request: _Request, count: int) -> WorkItem:
        """The whole table the first time, then what was added."""
        item = WorkItem(
            sequence=request.spec.id,
            request=request.spec.id,
            start=request.computed,
            tokens=count,
            blocks=tuple(request.blocks[request.told :]),
            replaces=request.told == 0,
        )
        request.computed += count
        request.told = len(request.blocks)
        return item

    def _grow(self, request: _Request, tokens: int, preempted: list[str]) -> bool:
        missing = -(-tokens // self._parameters.block_size) - len(request.blocks)
        while missing > self.pool.count_free():
            victim = self._running.pop()
            self._preempt(victim)
            preempted.append(victim.spec.id)
            if victim is request:
                return False
        if missing > 0:
            with self._recorder.working_for(request.spec.id):
                request.blocks += self.pool.allocate(missing)
        return True

    def _preempt(self, victim: _Request) -> None:
        with self._recorder.working_for(victim.spec.id):
            for block in victim.blocks:
                self._recorder.noted(EventKind.PREEMPT, GPU, block)
        victim.cached = 0
        if len(victim.blocks) <= self.swap_space.count_free():
            self._swap_out(victim)
            return
        self._release(victim)
        victim.computed = 0
        self._waiting.appendleft(victim)

    def _swap_out(self, victim: _Request) -> None:
        """To the CPU, to go on later where it was."""
        with self._recorder.working_for(victim.spec.id):
            victim.on_cpu = tuple(self.swap_space.allocate(len(victim.blocks)))
            self.pool.swapped_out(reversed(victim.blocks))
        self._moved_out += zip(victim.blocks, victim.on_cpu, strict=True)
        victim.blocks = []
        victim.told = 0
        self._swapped.appendleft(victim)

    def _bring_back(self, items: list[WorkItem], budget: int) -> bool:
        """The first that was swapped out, with a block to grow into where it needs one."""
        request = self._swapped[0]
        count = min(len(request.tokens) - request.computed, budget)
        needed = -(-(request.computed + count) // self._parameters.block_size)
        if max(needed, len(request.on_cpu)) > self.pool.count_free():
            return False
        with self._recorder.working_for(request.spec.id):
            request.blocks = self.pool.allocate(max(needed, len(request.on_cpu)))
            self.swap_space.free(reversed(request.on_cpu))
        self._moved_in += zip(request.on_cpu, request.blocks, strict=False)
        request.on_cpu = ()
        self._running.append(self._swapped.popleft())
        items.append(self._item(request, count))
        return True

    def _admit(self, items: list[WorkItem], budget: int) -> bool:
        if not self._waiting:
            return False
        request = self._waiting[0]
        hits = self._hits(request)
        start = len(hits) * self._parameters.block_size
        count = len(request.tokens) - start
        if count > budget:
            if not self._parameters.chunked_prefill:
                return False
            count = budget
        revived = sum(self.pool.references[block] == 0 for block in hits)
        needed = -(-len(request.tokens) // self._parameters.block_size) - len(hits)
        if needed + revived > self.pool.count_free():
            return False
        with self._recorder.working_for(request.spec.id):
            for block in hits:
                self.pool.touch(block)
            now = -(-(start + count) // self._parameters.block_size) - len(hits)
            request.blocks = hits + self.pool.allocate(now)
        request.computed = start
        request.cached = len(hits)
        self._waiting.popleft()
        self._running.append(request)
        items.append(self._item(request, count))
        return True

    def _hits(self, request: _Request) -> list[int]:
        """Blocks with the first tokens; the last token is always computed."""
        size = self._parameters.block_size
        found: list[int] = []
        while (len(found) + 1) * size < len(request.tokens):
            block = self.pool.find(tuple(request.tokens[: (len(found) + 1) * size]))
            if block is None:
                break
            found.append(block)
        return found

    def complete(
        self, step: WorkerStep, done: tuple[Transfer, ...] = (), *, ends: str | None = None
    ) -> Completed:
        """One token for each request whose prompt is computed."""
        del done
        finished: list[str] = []
        tokens = 0
        for item in step.items:
            request = self._requests.get(item.request)
            if request is None:
                continue
            self._offer(request)
            if request.computed < len(request.tokens):
                continue
            request.tokens.append(output_token(request.index, len(request.tokens)))
            tokens += 1
            made = len(request.tokens) - request.spec.prompt_len
            if made >= request.spec.max_tokens or item.request == ends:
                self._end(request)
                finished.append(item.request)
        return Completed(finished=tuple(finished), tokens=tokens)

    def _offer(self, request: _Request) -> None:
        if self._parameters.prefix_caching:
            size = self._parameters.block_size
            with self._recorder.working_for(request.spec.id):
                for place in range(request.cached, request.computed // size):
                    content = tuple(request.tokens[: (place + 1) * size])
                    self.pool.cache(request.blocks[place], content)
            request.cached = max(request.cached, request.computed // size)

    def _end(self, request: _Request) -> None:
        self._release(request)
        self._requests.pop(request.spec.id, None)
        if request in self._running:
            self._running.remove(request)
        for queue in (self._waiting, self._swapped):
            if request in queue:
                queue.remove(request)
        self._ended.append(request.spec.id)

    def _release(self, request: _Request) -> None:
        """Free from the end, so that what was first is found longest."""
        with self._recorder.working_for(request.spec.id):
            self.pool.free(reversed(request.blocks))
            self.swap_space.free(reversed(request.on_cpu))
        request.blocks = []
        request.on_cpu = ()
        request.told = 0

    def abort(self, request: str) -> None:
        """End a request at once."""
        if request in self._requests:
            self._end(self._requests[request])

    def snapshot(self) -> Snapshot:
        """The whole state between two steps."""
        states = [(request, "running") for request in self._running]
        states += [(request, "swapped") for request in self._swapped]
        states += [(request, "waiting") for request in self._waiting]
        return Snapshot(
            step=self._recorder.step,
            pools=(self.pool.state(), self.swap_space.state()),
            requests=tuple(
                RequestState(
                    id=request.spec.id,
                    state=state,
                    tokens=len(request.tokens),
                    prompt_len=request.spec.prompt_len,
                    computed=request.computed,
                    pool=CPU if request.on_cpu else GPU,
                    tables=(request.on_cpu or tuple(request.blocks),),
                )
                for request, state in states
            ),
        )

    def table(self, sequence: str, group: int = 0) -> tuple[int, ...] | None:
        """The engine's own table."""
        del group
        request = self._requests.get(sequence)
        return None if request is None else tuple(request.blocks)

    def queues(self) -> tuple[int, int, int]:
        """Running, waiting, swapped."""
        return len(self._running), len(self._waiting), len(self._swapped)

    def idle(self) -> bool:
        """Whether no request is left."""
        return not self._requests


def _turn(request: _Request) -> tuple[int, int]:
    return request.spec.priority, request.index


@contextmanager
def opened_reference(parameters: Parameters, recorder: Recorder) -> Iterator[ReferenceEngine]:
    """An empty engine."""
    yield ReferenceEngine(parameters, recorder)
