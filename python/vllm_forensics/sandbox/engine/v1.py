"""vLLM's second scheduler, 0.8 and later: its own code, our configuration, our worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import (
    CheckWhen,
    Completed,
    Generation,
    Parameters,
    PoolState,
    RequestSpec,
    RequestState,
    Snapshot,
    Transfer,
    TransferKind,
    VllmTree,
    WorkerStep,
    WorkItem,
)
from vllm_forensics.sandbox.engine.interface import (
    GPU,
    Ledger,
    output_token,
    prompt_tokens,
    request_token,
)
from vllm_forensics.sandbox.engine.loader import loaded, whole
from vllm_forensics.sandbox.engine.options import refuse_others
from vllm_forensics.sandbox.engine.signatures import arguments_for
from vllm_forensics.sandbox.engine.v1_config import SELECTION, Configs
from vllm_forensics.sandbox.engine.v1_connector import Connector
from vllm_forensics.sandbox.engine.v1_hooks import hooks, managers_of
from vllm_forensics.sandbox.engine.v1_ledger import V1Ledger, writes_seen
from vllm_forensics.sandbox.engine.v1_output import work_item, work_items
from vllm_forensics.sandbox.engine.v1_pool import free_blocks, misfiled_blocks
from vllm_forensics.sandbox.engine.v1_scheduler import block_hasher, scheduler
from vllm_forensics.sandbox.recorder import Recorder, wrapped

_NO_TOKEN: Final = -1
"""Sent as end of sequence: no made-up token is it."""
_STOP: Final = -2
"""Ends a request where it comes out."""
Import = Callable[[str], ModuleType]


class _Tokens(list[int]):
    """What was sampled for one request; 0.11.1 and 0.11.2 ask for an array of numpy."""

    def tolist(self) -> list[int]:
        """As an array has it."""
        return list(self)


class V1Engine:
    """One scheduler of a loaded vLLM. What it is built of is public, for experiments."""

    generation = Generation.V1

    def __init__(
        self, load: Import, tree: VllmTree, parameters: Parameters, recorder: Recorder
    ) -> None:
        """Build the scheduler as the engine core does."""
        self._load = load
        self.tree = tree
        connector = Connector(parameters.block_size) if parameters.connector else None
        self._connector = connector
        self._configs = Configs(tree, parameters, connector)
        self._parameters = parameters
        self._recorder = recorder
        self._requests: dict[str, Any] = {}
        self._indices: dict[str, int] = {}
        self._specs: dict[str, RequestSpec] = {}
        self._starts: dict[str, int] = {}
        self._outputs: dict[int, Any] = {}
        """By number, of steps that are not completed."""
        self._hasher = block_hasher(load, parameters)
        self._output_type = load("vllm.v1.outputs").ModelRunnerOutput
        self.scheduler: Any = scheduler(load, self._configs, parameters)
        self.manager: Any = self.scheduler.kv_cache_manager
        self.pool: Any = self.manager.block_pool
        self._managers: tuple[Any, ...] = managers_of(self.manager)
        # Block 0 is the null block where there is one: all versions since 0.8.5 have it.
        self._null = self.pool.null_block.block_id
        self.usable_blocks = parameters.gpu_blocks - 1
        self.ledger: Ledger | None = None

    def add(self, spec: RequestSpec) -> None:
        """Queue a request, as the engine core does."""
        index = len(self._indices)
        self._indices[spec.id] = index
        self._specs[spec.id] = spec
        sampling = self._configs.known(
            "SamplingParams",
            max_tokens=spec.max_tokens,
            min_tokens=0,
            num_logprobs=None,
            eos_token_id=_NO_TOKEN,
            ignore_eos=True,
            stop_token_ids=[_STOP],
            structured_outputs=None,
            guided_decoding=None,
            extra_args=None,
        )
        make = self._load("vllm.v1.request").Request
        values = {
            "request_id": spec.id,
            "prompt_token_ids": prompt_tokens(index, spec),
            "sampling_params": sampling,
            "pooling_params": None,
            "eos_token_id": _NO_TOKEN,
            "arrival_time": float(index),
            "priority": spec.priority,
            "block_hasher": self._hasher,
            "multi_modal_inputs": None,
            "multi_modal_hashes": None,
            "multi_modal_placeholders": None,
            "multi_modal_kwargs": None,
            "prompt": None,
            "lora_request": None,
        }
        request = make(**arguments_for(make, values))
        self._requests[spec.id] = request
        self.scheduler.add_request(request)

    def step(self) -> WorkerStep:
        """Schedule."""
        before = [request.request_id for request in self.scheduler.running]
        output = self.scheduler.schedule()
        self._outputs[self._recorder.step] = output
        still = {request.request_id for request in self.scheduler.running}
        items = list(work_items(output))
        if len(items) < len(output.num_scheduled_tokens):
            items += self._told_only_by_count(items, output.num_scheduled_tokens)
        self._starts = {item.sequence: item.start for item in items}
        return WorkerStep(
            number=self._recorder.step,
            items=tuple(items),
            finished=tuple(sorted(output.finished_req_ids)),
            preempted=tuple(name for name in before if name not in still),
            further=tuple(
                tuple(work_items(output, group)) for group in range(1, len(self._managers))
            ),
            transfers=self._begun(),
        )

    def _begun(self) -> tuple[Transfer, ...]:
        return () if self._connector is None else self._connector.taken()

    def _told_only_by_count(self, items: list[WorkItem], counts: dict[str, int]) -> list[WorkItem]:
        """Requests that have tokens to compute and no other data in a step's output.

        Seen in 0.11.0: by priority, a request that was scheduled in this step already loses its
        place to another, and its count stays behind. A worker goes by the counts: it computes what
        it knows of the request, with the table that it has.
        """
        told = {item.request for item in items}
        return [
            work_item(name, self._starts[name], counts[name], None, replaces=False)
            for name in counts
            if name not in told and name in self._starts
        ]

    def complete(
        self, step: WorkerStep, done: tuple[Transfer, ...] = (), *, ends: str | None = None
    ) -> Completed:
        """One token for each request that has computed all that it had, and accepted drafts."""
        output = self._outputs.pop(step.number)
        drafts: dict[str, list[int]] = getattr(output, "scheduled_spec_decode_tokens", None) or {}
        names = [item.request for item in step.items]
        sampled = [self._sampled(item, len(drafts.get(item.request, ()))) for item in step.items]
        for name, tokens in zip(names, sampled, strict=True):
            if name == ends and tokens:
                tokens[-1] = _STOP
        values = {
            "req_ids": names,
            "req_id_to_index": {name: place for place, name in enumerate(names)},
            "sampled_token_ids": sampled,
            "spec_token_ids": None,
            "logprobs": None,
            "prompt_logprobs_dict": {},
            "pooler_output": None,
            "kv_connector_output": self._transferred(done),
        }
        told = self._output_type(**arguments_for(self._output_type, values))
        self.scheduler.update_from_output(output, told)
        requests = self._requests
        finished = [name for name in names if name in requests and requests[name].is_finished()]
        for name in finished:
            del requests[name]
        if self._parameters.spec_tokens:
            self._draft(names)
        return Completed(
            finished=tuple(finished), tokens=sum(map(len, sampled)), transfers=self._begun()
        )

    def _sampled(self, item: WorkItem, drafts: int) -> _Tokens:
        """None for what was aborted meanwhile, or has not computed all of its prompt."""
        request = self._requests.get(item.request)
        if request is None or item.start + item.tokens - drafts < request.num_tokens:
            return _Tokens()
        index, known = self._indices[item.request], request.num_tokens
        # Some of the drafts are right: none, one, and so on, in turns.
        right = (index + known) % (drafts + 1)
        spec = self._specs[item.request]
        return _Tokens(request_token(index, spec, known + place) for place in range(right + 1))

    def _draft(self, names: list[str]) -> None:
        """What a drafter proposes after the step; the scheduler takes as many as it wants."""
        going_on = [name for name in names if name in self._requests]
        proposed = [
            [
                output_token(self._indices[name], self._requests[name].num_tokens + place)
                for place in range(self._parameters.spec_tokens)
            ]
            for name in going_on
        ]
        make = self._load("vllm.v1.outputs").DraftTokenIds
        self.scheduler.update_draft_token_ids(make(going_on, proposed))

    def _transferred(self, done: tuple[Transfer, ...]) -> Any:
        if not done:
            return None
        return self._load("vllm.v1.outputs").KVConnectorOutput(
            finished_sending={t.request for t in done if t.kind is TransferKind.SEND},
            finished_recving={t.request for t in done if t.kind is TransferKind.LOAD},
        )

    def abort(self, request: str) -> None:
        """As the engine core does when a client went away."""
        if self._requests.pop(request, None) is not None:
            status = self._load("vllm.v1.request").RequestStatus.FINISHED_ABORTED
            self.scheduler.finish_requests(request, status)

    def snapshot(self) -> Snapshot:
        """The whole state between two steps."""
        pool = self.pool
        return Snapshot(
            step=self._recorder.step,
            pools=(
                PoolState(
                    name=GPU,
                    total=pool.num_gpu_blocks,
                    reserved=(self._null,),
                    free=tuple(free_blocks(pool)),
                    references=tuple([block.ref_cnt for block in pool.blocks]),
                    counted_free=pool.free_block_queue.num_free_blocks,
                    misfiled=tuple(misfiled_blocks(pool)),
                ),
            ),
            requests=(
                *(self._state(request) for request in self._in_order()),
                *self._left_behind(),
            ),
        )

    def _left_behind(self) -> Iterator[RequestState]:
        """Blocks that go back to the pool once the steps in flight are completed."""
        for fence, blocks in getattr(self.scheduler, "deferred_frees", ()):
            yield RequestState(
                id=f"(freed, until step {fence} is completed)",
                state="deferred",
                tokens=0,
                prompt_len=0,
                computed=0,
                pool=GPU,
                tables=(tuple(block.block_id for block in blocks),),
            )

    def _in_order(self) -> list[Any]:
        """Running, then as they wait, then all others (blocked, or waiting for a transfer)."""
        ordered = {r.request_id: r for r in (*self.scheduler.running, *self.scheduler.waiting)}
        return list((ordered | self.scheduler.requests).values())

    def _state(self, request: Any) -> RequestState:
        name = request.request_id
        return RequestState(
            id=name,
            state=request.status.name.lower(),
            tokens=request.num_tokens,
            prompt_len=request.num_prompt_tokens,
            computed=request.num_computed_tokens,
            pool=GPU,
            tables=tuple(
                tuple(
                    block.block_id
                    for block in manager.req_to_blocks.get(name, ())
                    if block.block_id != self._null
                )
                for manager in self._managers
            ),
        )

    def table(self, sequence: str, group: int = 0) -> tuple[int, ...] | None:
        """The engine's own table, null blocks included."""
        blocks = self._managers[group].req_to_blocks.get(sequence)
        return None if blocks is None else tuple(block.block_id for block in blocks)

    def queues(self) -> tuple[int, int, int]:
        """Running, waiting, swapped: there is no swapping."""
        running = len(self.scheduler.running)
        return running, len(self.scheduler.requests) - running, 0

    def idle(self) -> bool:
        """Whether no request is left."""
        return not self.scheduler.requests


@contextmanager
def opened_v1(
    tree: VllmTree, parameters: Parameters, recorder: Recorder, *, full: bool = False
) -> Iterator[V1Engine]:
    """A new engine of the tree's vLLM, recorded; the modules are forgotten after the block.

    `full`: of the whole vLLM that this Python has, with torch, instead of the scheduler's modules.

    Raises:
        UsageError: a parameter that this generation does not have.

    """
    refuse_others(
        parameters,
        "vLLM's second engine",
        ("best_of", "cpu_blocks"),
        remedy="give --vllm 0.4.2 for it, or leave the option out",
    )
    if parameters.hybrid and parameters.sliding_window is None:
        raise UsageError(
            "some layers see everything and the others the same", remedy="give --sliding-window"
        )
    if parameters.hybrid and parameters.connector:
        raise UsageError(
            "the made-up connector moves one group of layers", remedy="leave --hybrid out"
        )
    if parameters.async_scheduling and parameters.spec_tokens:
        raise UsageError(
            "with a step in flight it is not known which drafts are right",
            remedy="leave --async-scheduling or --spec-tokens out",
        )
    if parameters.gpu_blocks < 2:
        raise UsageError("one block is vLLM's null block", remedy="give --gpu-blocks 2 or more")
    modules = whole(tree) if full else loaded(tree, SELECTION)
    with modules as load, wrapped(hooks(load, recorder)):
        engine = V1Engine(load, tree, parameters, recorder)
        if parameters.check is CheckWhen.END:
            yield engine
            return
        with writes_seen(load("vllm.v1.core.kv_cache_utils").KVCacheBlock) as written:
            engine.ledger = V1Ledger(engine.scheduler, managers_of(engine.manager), written)
            yield engine
