"""vLLM's first scheduler, 0.3 and 0.4: sequence groups, two block managers, swapping to the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from types import ModuleType
from typing import Any, Final

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import (
    Completed,
    Generation,
    Parameters,
    Policy,
    PoolState,
    RequestSpec,
    RequestState,
    Snapshot,
    Transfer,
    VllmTree,
    WorkerStep,
    WorkItem,
)
from vllm_forensics.sandbox.engine.absent import Known
from vllm_forensics.sandbox.engine.interface import CPU, GPU, output_token, prompt_tokens
from vllm_forensics.sandbox.engine.loader import QuietLogger, Selection, loaded
from vllm_forensics.sandbox.engine.options import refuse_others
from vllm_forensics.sandbox.engine.v0_hooks import hooks
from vllm_forensics.sandbox.recorder import Recorder, wrapped

_SELECTION: Final = Selection(
    packages=("vllm.core",),
    modules=("vllm.block", "vllm.prefix", "vllm.sequence", "vllm.utils"),
    stand_ins={"vllm.logger": {"init_logger": QuietLogger}},
)
Import = Callable[[str], ModuleType]


class _Logprob(float):
    """Of a made-up token; a plain number in 0.3, an object with a `logprob` in 0.4."""

    logprob = 0.0


class V0Engine:
    """One scheduler of a loaded vLLM. What it is built of is public, for experiments."""

    generation = Generation.V0
    ledger = None

    def __init__(
        self,
        load: Import,
        tree: VllmTree,
        parameters: Parameters,
        recorder: Recorder,
        names: dict[int, str],
    ) -> None:
        """Build the scheduler as the engine does; `names` gets the request of each sequence."""
        self._load = load
        self.tree = tree
        self._parameters = parameters
        self._recorder = recorder
        self._names = names
        self._labels: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._places: dict[int, int] = {}
        self._groups: dict[str, Any] = {}
        self._indices: dict[str, int] = {}
        self._ended: list[str] = []
        self._status = load("vllm.sequence").SequenceStatus
        self.scheduler: Any = self._scheduler()
        self.manager: Any = self.scheduler.block_manager
        self.usable_blocks = parameters.gpu_blocks - getattr(self.manager, "watermark_blocks", 0)
        self._blocks = self._all_blocks()

    def _scheduler(self) -> Any:
        parameters = self._parameters
        batch = parameters.batch(chunks=bool(parameters.chunked_prefill))
        scheduler = Known(
            "SchedulerConfig",
            {
                "max_num_batched_tokens": batch,
                "max_num_seqs": parameters.max_seqs,
                "max_model_len": parameters.max_model_len,
                "max_paddings": batch,
                "chunked_prefill_enabled": bool(parameters.chunked_prefill),
                "use_v2_block_manager": parameters.block_manager == 2,
                "num_lookahead_slots": 0,
                "delay_factor": 0.0,
            },
        )
        cache = Known(
            "CacheConfig",
            {
                "block_size": parameters.block_size,
                "num_gpu_blocks": parameters.gpu_blocks,
                "num_cpu_blocks": parameters.cpu_blocks,
                "sliding_window": parameters.sliding_window,
                "enable_prefix_caching": bool(parameters.prefix_caching),
            },
        )
        return self._load("vllm.core.scheduler").Scheduler(scheduler, cache, None)

    def _all_blocks(self) -> dict[str, list[Any]]:
        """The block objects of the manager of version 1, while all of them are free."""
        found: dict[str, list[Any]] = {}
        for name in (GPU, CPU):
            allocator = getattr(self.manager, f"{name}_allocator", None)
            if hasattr(allocator, "free_blocks"):
                blocks = list(allocator.free_blocks)  # type: ignore[union-attr]
                found[name] = sorted(blocks, key=lambda block: int(block.block_number))
        return found

    def add(self, spec: RequestSpec) -> None:
        """Queue a request as one group with one sequence, as the engine does."""
        index = len(self._indices)
        self._indices[spec.id] = index
        module = self._load("vllm.sequence")
        number = len(self._names)
        self._name(number, spec.id, 0)
        sequence = module.Sequence(
            number, "", prompt_tokens(index, spec), self._parameters.block_size
        )
        sampling = Known(
            "SamplingParams",
            {
                "best_of": self._parameters.best_of,
                "use_beam_search": False,
                "max_tokens": spec.max_tokens,
            },
        )
        group = module.SequenceGroup(spec.id, [sequence], sampling, float(index))
        self._groups[spec.id] = group
        self.scheduler.add_seq_group(group)

    def _name(self, number: int, request: str, place: int) -> None:
        self._names[number] = request
        self._places[number] = place
        many = self._parameters.best_of > 1
        self._labels[number] = f"{request}.{place}" if many else request
        self._numbers[self._labels[number]] = number

    def step(self) -> WorkerStep:
        """Schedule."""
        before = {group.request_id for group in (*self.scheduler.running, *self.scheduler.swapped)}
        self._metadata, self._output = self.scheduler.schedule()
        output = self._output
        still = {group.request_id for group in (*self.scheduler.running, *self.scheduler.swapped)}
        finished, self._ended = tuple(self._ended), []
        self._refused = tuple(group.request_id for group in output.ignored_seq_groups)
        for name in self._refused:
            self._groups.pop(name, None)
        return WorkerStep(
            number=self._recorder.step,
            items=tuple(self._items()),
            finished=finished,
            preempted=tuple(sorted((before - still) & set(self._groups))),
            swapped_in=tuple(output.blocks_to_swap_in.items()),
            swapped_out=tuple(output.blocks_to_swap_out.items()),
            copies=tuple(
                (source, target)
                for source, targets in output.blocks_to_copy.items()
                for target in targets
            ),
        )

    def _items(self) -> Iterator[WorkItem]:
        for metadata in self._metadata:
            for number, data in metadata.seq_data.items():
                blocks = tuple(metadata.block_tables[number])
                start, count = data.get_len() - 1, 1
                if metadata.is_prompt:
                    start, count = self._prompt_part(metadata, data, blocks)
                yield WorkItem(
                    sequence=self._labels[number],
                    request=metadata.request_id,
                    start=start,
                    tokens=count,
                    blocks=blocks,
                    replaces=True,
                )

    def _prompt_part(self, metadata: Any, data: Any, blocks: tuple[int, ...]) -> tuple[int, int]:
        """First token and number of tokens of a prompt that are computed into blocks of its own.

        Blocks that were found in the cache are skipped by the worker, or written once more with
        what is in them already: its manager of version 2 does not say that they are computed.
        """
        chunk = getattr(metadata, "token_chunk_size", None)
        start = 0 if chunk is None else data.get_num_computed_tokens()
        end = data.get_len() if chunk is None else min(start + chunk, data.get_len())
        if self._parameters.prefix_caching:
            holders = self._recorder.holders[GPU]
            shared = takewhile(lambda block: holders.get(block, 0) > 1, blocks)
            found = max(sum(1 for _ in shared), len(metadata.computed_block_nums or ()))
            start = max(start, min(found * self._parameters.block_size, end))
        return start, end - start

    def complete(
        self, step: WorkerStep, done: tuple[Transfer, ...] = (), *, ends: str | None = None
    ) -> Completed:
        """What the engine does with the worker's output where there is no beam search."""
        del step, done, ends
        tokens = 0
        for metadata in self._metadata:
            group = self._groups.get(metadata.request_id)
            if group is None:
                continue
            chunk = getattr(metadata, "token_chunk_size", None)
            if chunk is not None:
                group.update_num_computed_tokens(chunk)
            if getattr(metadata, "do_sample", True):
                tokens += self._sample(group)
        self.scheduler.free_finished_seq_groups()
        ended = {n: group for n, group in self._groups.items() if group.is_finished()}
        # A group that was swapped out and can never come back is given up without a word too.
        given_up = tuple(
            name
            for name, group in ended.items()
            if any(s.status == self._status.FINISHED_IGNORED for s in group.get_seqs())
        )
        for name in ended:
            del self._groups[name]
        return Completed(
            finished=tuple(name for name in ended if name not in given_up),
            refused=self._refused + given_up,
            tokens=tokens,
        )

    def _sample(self, group: Any) -> int:
        """One token for each running sequence; after the prompt, for each continuation of it."""
        parents = group.get_seqs(status=self._status.RUNNING)
        first = len(group.get_seqs()) == 1 and parents and parents[0].get_output_len() == 0
        children = []
        if first:
            for place in range(1, self._parameters.best_of):
                number = len(self._names)
                self._name(number, group.request_id, place)
                children.append((parents[0].fork(number), parents[0]))
        everyone = [*children, *((parent, parent) for parent in parents)]
        for sequence, _ in everyone:
            self._append(group, sequence)
        for child, parent in children:
            group.add(child)
            if not child.is_finished():
                self.scheduler.fork_seq(parent, child)
        for sequence, parent in everyone:
            if sequence.is_finished():
                self._ended.append(self._labels[sequence.seq_id])
                if sequence is parent:
                    self.scheduler.free_seq(sequence)
        return len(everyone)

    def _append(self, group: Any, sequence: Any) -> None:
        place = self._places[sequence.seq_id]
        token = output_token(self._indices[group.request_id], sequence.get_len(), place)
        sequence.append_token_id(token, {token: _Logprob()})
        done = sequence.get_output_len() >= group.sampling_params.max_tokens
        if done or sequence.get_len() >= self._parameters.max_model_len:
            sequence.status = self._status.FINISHED_LENGTH_CAPPED

    def abort(self, request: str) -> None:
        """As the engine does when a client went away."""
        group = self._groups.pop(request, None)
        if group is not None:
            self._ended += [self._labels[sequence.seq_id] for sequence in group.get_seqs()]
            self.scheduler.abort_seq_group(request)

    def snapshot(self) -> Snapshot:
        """The whole state between two steps."""
        queues = [
            (group, state, CPU if state == "swapped" else GPU)
            for state in ("running", "swapped", "waiting")
            for group in getattr(self.scheduler, state)
        ]
        # Where it raised in the middle of a step, a group may stand in no queue.
        queued = {group.request_id for group, _, _ in queues}
        lost = [(g, "running", GPU) for name, g in self._groups.items() if name not in queued]
        return Snapshot(
            step=self._recorder.step,
            pools=tuple(self._pools()),
            requests=tuple(
                self._state(group, state, pool) for group, state, pool in (*queues, *lost)
            ),
        )

    def _state(self, group: Any, state: str, pool: str) -> RequestState:
        unfinished = [s for s in group.get_seqs() if not s.is_finished()]
        longest = max((s.get_len() for s in unfinished), default=0)
        return RequestState(
            id=group.request_id,
            state=state,
            tokens=longest,
            prompt_len=unfinished[0].get_prompt_len() if unfinished else 0,
            computed=longest if state != "waiting" else 0,
            pool=pool,
            tables=tuple(
                tuple(self.manager.get_block_table(s))
                for s in unfinished
                if s.seq_id in self.manager.block_tables
            ),
        )

    def _pools(self) -> Iterator[PoolState]:
        if hasattr(self.manager, "block_allocator"):
            yield from self._pools_of_second_manager()
            return
        for name, total in ((GPU, self._parameters.gpu_blocks), (CPU, self._parameters.cpu_blocks)):
            allocator = getattr(self.manager, f"{name}_allocator")
            references = [0] * total
            if name in self._blocks:
                free = [block.block_number for block in reversed(allocator.free_blocks)]
                held = self._blocks[name]
            else:
                free = [block.block_number for block in allocator.evictor.free_table.values()]
                free += range(allocator.current_num_blocks, total)
                held = list(allocator.cached_blocks.values())
            for block in held:
                references[block.block_number] = block.ref_count
            yield PoolState(
                name=name, total=total, reserved=(), free=tuple(free), references=tuple(references)
            )

    def _pools_of_second_manager(self) -> Iterator[PoolState]:
        """Its blocks on the CPU are numbered after those on the GPU."""
        first = 0
        sizes = (self._parameters.gpu_blocks, self._parameters.cpu_blocks)
        allocators = self.manager.block_allocator._allocators
        by_name = {key.name: allocator for key, allocator in allocators.items()}
        for name, total in zip((GPU, CPU), sizes, strict=True):
            allocator = by_name[name.upper()]
            inner = getattr(allocator, "_hashless_allocator", allocator)
            counts = inner._refcounter._refcounts
            free = list(inner._free_block_indices)
            if inner is not allocator:  # with prefix caching: free, and found by content until used
                free += allocator.evictor.free_table
            yield PoolState(
                name=name,
                total=total,
                reserved=(),
                free=tuple(block - first for block in free),
                references=tuple(counts[first + block] for block in range(total)),
            )
            first += total

    def table(self, sequence: str, group: int = 0) -> tuple[int, ...] | None:
        """The engine's own table."""
        del group
        number = self._numbers.get(sequence)
        blocks = None if number is None else self.manager.block_tables.get(number)
        if blocks is None:
            return None
        if hasattr(blocks, "physical_block_ids"):
            return tuple(blocks.physical_block_ids)
        return tuple(block.block_number for block in blocks)

    def queues(self) -> tuple[int, int, int]:
        """Running, waiting, swapped."""
        scheduler = self.scheduler
        return len(scheduler.running), len(scheduler.waiting), len(scheduler.swapped)

    def idle(self) -> bool:
        """Whether no request is left."""
        return not self._groups


@contextmanager
def opened_v0(tree: VllmTree, parameters: Parameters, recorder: Recorder) -> Iterator[V0Engine]:
    """A new engine of the tree's vLLM, recorded; the modules are forgotten after the block.

    Raises:
        UsageError: a parameter that this generation does not have.

    """
    if parameters.policy is not Policy.FCFS:
        raise UsageError(
            "vLLM's first engine has one policy, fcfs", remedy="give a newer --vllm, such as 0.32.0"
        )
    refuse_others(
        parameters,
        "vLLM's first engine",
        ("async_scheduling", "spec_tokens", "hybrid", "connector"),
        remedy="give a newer --vllm, such as 0.32.0",
    )
    names: dict[int, str] = {}
    with (
        loaded(tree, _SELECTION) as load,
        wrapped(hooks(load, recorder, names, parameters.gpu_blocks)),
    ):
        yield V0Engine(load, tree, parameters, recorder, names)
