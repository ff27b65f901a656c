"""vLLM's second scheduler, 0.8 and later: its own code, our configuration, our worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import (
    Completed,
    Generation,
    Parameters,
    PoolState,
    RequestSpec,
    RequestState,
    Snapshot,
    VllmTree,
    WorkerStep,
    WorkItem,
)
from vllm_forensics.sandbox.engine.absent import Known
from vllm_forensics.sandbox.engine.interface import GPU, prompt_tokens, request_token
from vllm_forensics.sandbox.engine.loader import loaded
from vllm_forensics.sandbox.engine.signatures import arguments_for
from vllm_forensics.sandbox.engine.v1_config import NO_PICTURES, SELECTION, Configs
from vllm_forensics.sandbox.engine.v1_hooks import hooks, managers_of
from vllm_forensics.sandbox.engine.v1_output import work_item, work_items
from vllm_forensics.sandbox.engine.v1_pool import free_blocks, misfiled_blocks
from vllm_forensics.sandbox.recorder import Recorder, wrapped

_NO_TOKEN: Final = -1
"""Sent as end of sequence: no made-up token is it."""
Import = Callable[[str], ModuleType]


class V1Engine:
    """One scheduler of a loaded vLLM. What it is built of is public, for experiments."""

    generation = Generation.V1

    def __init__(
        self, load: Import, tree: VllmTree, parameters: Parameters, recorder: Recorder
    ) -> None:
        """Build the scheduler as the engine core does, for one group of layers."""
        self._load = load
        self.tree = tree
        self._configs = Configs(tree, parameters)
        self._parameters = parameters
        self._recorder = recorder
        self._requests: dict[str, Any] = {}
        self._indices: dict[str, int] = {}
        self._specs: dict[str, RequestSpec] = {}
        self._starts: dict[str, int] = {}
        self._hasher = self._block_hasher()
        self._output_type = load("vllm.v1.outputs").ModelRunnerOutput
        self.scheduler: Any = self._scheduler()
        self.manager: Any = self.scheduler.kv_cache_manager
        self.pool: Any = self.manager.block_pool
        self._managers: tuple[Any, ...] = managers_of(self.manager)
        # Block 0 is the null block where there is one: all versions since 0.8.5 have it.
        self._null = self.pool.null_block.block_id
        self.usable_blocks = parameters.gpu_blocks - 1

    def _scheduler(self) -> Any:
        parameters = self._parameters
        spec = self._spec()
        interface = self._load("vllm.v1.kv_cache_interface")
        group = interface.KVCacheGroupSpec(["layer"], spec)
        config = self._configs.vllm_config()
        values = {
            "num_blocks": parameters.gpu_blocks,
            "kv_cache_tensors": [],
            "tensors": {},
            "kv_cache_groups": [group],
        }
        make = interface.KVCacheConfig
        kv_cache = make(**arguments_for(make, values))
        scheduler = self._load("vllm.v1.core.sched.scheduler").Scheduler
        given = {
            "vllm_config": config,
            "scheduler_config": config.scheduler_config,
            "model_config": config.model_config,
            "cache_config": config.cache_config,
            "lora_config": None,
            "kv_cache_config": kv_cache,
            "structured_output_manager": Known(
                "StructuredOutputManager",
                {
                    "accept_tokens": lambda request, tokens: True,
                    "should_advance": lambda r: False,
                    "grammar_bitmask": lambda *given: None,
                },
            ),
            "block_size": parameters.block_size,
            "mm_registry": NO_PICTURES,
            "include_finished_set": False,
            "log_stats": False,
        }
        return scheduler(**arguments_for(scheduler, given))

    def _spec(self) -> Any:
        """The one group's kind of attention. Sizes in bytes decide nothing here."""
        interface = self._load("vllm.v1.kv_cache_interface")
        values: dict[str, Any] = {
            "block_size": self._parameters.block_size,
            "num_kv_heads": 1,
            "head_size": 1,
            "dtype": None,
            "use_mla": False,
        }
        make = interface.FullAttentionSpec
        if self._parameters.sliding_window is not None:
            make = interface.SlidingWindowSpec
            values["sliding_window"] = self._parameters.sliding_window
        return make(**arguments_for(make, values))

    def _block_hasher(self) -> Callable[[Any], Any] | None:
        """Requests hash their own blocks since 0.10; before, the manager did."""
        utils = self._load("vllm.v1.core.kv_cache_utils")
        make = getattr(utils, "get_request_block_hasher", None)
        sha256 = _hash_function(self._load)
        if hasattr(utils, "init_none_hash"):
            utils.init_none_hash(sha256)
        if make is None or self._parameters.prefix_caching is False:
            return None
        hasher: Callable[[Any], Any] = make(self._parameters.block_size, sha256)
        return hasher

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
            stop_token_ids=[],
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
        self.output: Any = self.scheduler.schedule()
        still = {request.request_id for request in self.scheduler.running}
        items = list(work_items(self.output))
        if len(items) < len(self.output.num_scheduled_tokens):
            items += self._told_only_by_count(items)
        self._starts = {item.sequence: item.start for item in items}
        return WorkerStep(
            number=self._recorder.step,
            items=tuple(items),
            finished=tuple(sorted(self.output.finished_req_ids)),
            preempted=tuple(name for name in before if name not in still),
        )

    def _told_only_by_count(self, items: list[WorkItem]) -> list[WorkItem]:
        """Requests that have tokens to compute and no other data in a step's output.

        Seen in 0.11.0: by priority, a request that was scheduled in this step already loses its
        place to another, and its count stays behind. A worker goes by the counts: it computes what
        it knows of the request, with the table that it has.
        """
        told = {item.request for item in items}
        counts = self.output.num_scheduled_tokens
        return [
            work_item(name, self._starts[name], counts[name], None, replaces=False)
            for name in counts
            if name not in told and name in self._starts
        ]

    def complete(self, step: WorkerStep) -> Completed:
        """One token for each request that has computed all that it had."""
        sampled: list[list[int]] = []
        names = [item.request for item in step.items]
        for item in step.items:
            request = self._requests.get(item.request)
            if request is None or item.start + item.tokens < request.num_tokens:
                sampled.append([])  # aborted meanwhile, or not all of the prompt is computed
            else:
                index = self._indices[item.request]
                spec = self._specs[item.request]
                sampled.append([request_token(index, spec, request.num_tokens)])
        values = {
            "req_ids": names,
            "req_id_to_index": {name: place for place, name in enumerate(names)},
            "sampled_token_ids": sampled,
            "spec_token_ids": None,
            "logprobs": None,
            "prompt_logprobs_dict": {},
            "pooler_output": None,
        }
        output = self._output_type(**arguments_for(self._output_type, values))
        self.scheduler.update_from_output(self.output, output)
        requests = self._requests
        finished = [name for name in names if name in requests and requests[name].is_finished()]
        for name in finished:
            del requests[name]
        return Completed(finished=tuple(finished), tokens=sum(map(len, sampled)))

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
                    references=tuple(block.ref_cnt for block in pool.blocks),
                    counted_free=pool.free_block_queue.num_free_blocks,
                    misfiled=tuple(misfiled_blocks(pool)),
                ),
            ),
            requests=tuple(self._state(request) for request in self._in_order()),
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

    def table(self, sequence: str) -> tuple[int, ...] | None:
        """The engine's own table, null blocks included."""
        blocks = self._managers[0].req_to_blocks.get(sequence)
        return None if blocks is None else tuple(block.block_id for block in blocks)

    def queues(self) -> tuple[int, int, int]:
        """Running, waiting, swapped: there is no swapping."""
        running = len(self.scheduler.running)
        return running, len(self.scheduler.requests) - running, 0

    def idle(self) -> bool:
        """Whether no request is left."""
        return not self.scheduler.requests


def _hash_function(load: Import) -> Callable[[Any], Any]:
    """VLLM's own default; its module moved."""
    for name in ("vllm.utils.hashing", "vllm.utils"):
        try:
            found = load(name)
        except ModuleNotFoundError:
            continue
        if callable(found.__dict__.get("sha256")):
            function: Callable[[Any], Any] = found.sha256
            return function
    raise UsageError("this vLLM has no sha256 for blocks", remedy="give another --vllm VERSION")


@contextmanager
def opened_v1(tree: VllmTree, parameters: Parameters, recorder: Recorder) -> Iterator[V1Engine]:
    """A new engine of the tree's vLLM, recorded; the modules are forgotten after the block.

    Raises:
        UsageError: a parameter that this generation does not have.

    """
    for name, plain in (("best_of", 1), ("cpu_blocks", 0)):
        if getattr(parameters, name) != plain:
            raise UsageError(
                f"vLLM's second engine has no {name.replace('_', ' ')}",
                remedy="give --vllm 0.4.2 for it, or leave the option out",
            )
    if parameters.gpu_blocks < 2:
        raise UsageError("one block is vLLM's null block", remedy="give --gpu-blocks 2 or more")
    with loaded(tree, SELECTION) as load, wrapped(hooks(load, recorder)):
        yield V1Engine(load, tree, parameters, recorder)
