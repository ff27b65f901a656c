"""Builds vLLM's second scheduler as its engine core does, for layers and hashes of our choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import Parameters
from vllm_forensics.sandbox.engine.absent import Known
from vllm_forensics.sandbox.engine.signatures import arguments_for
from vllm_forensics.sandbox.engine.v1_config import NO_PICTURES, Configs

Import = Callable[[str], ModuleType]


def scheduler(load: Import, configs: Configs, parameters: Parameters) -> Any:
    """A scheduler with an empty pool.

    Raises:
        UsageError: this vLLM has no asynchronous scheduler, and one is wanted.

    """
    interface = load("vllm.v1.kv_cache_interface")
    config = configs.vllm_config()
    values = {
        "num_blocks": parameters.gpu_blocks,
        "kv_cache_tensors": [],
        "tensors": {},
        "kv_cache_groups": [
            interface.KVCacheGroupSpec([f"layer.{number}"], spec)
            for number, spec in enumerate(_specs(interface, parameters))
        ],
    }
    kv_cache = interface.KVCacheConfig(**arguments_for(interface.KVCacheConfig, values))
    make = _class(load, parameters)
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
                "validate_tokens": lambda request, tokens: tokens,
                "should_advance": lambda r: False,
                "grammar_bitmask": lambda *given: None,
            },
        ),
        "block_size": parameters.block_size,
        "mm_registry": NO_PICTURES,
        "include_finished_set": False,
        "log_stats": False,
    }
    # The asynchronous one takes what its base takes.
    names = arguments_for(load("vllm.v1.core.sched.scheduler").Scheduler, given)
    return make(**names)


def _class(load: Import, parameters: Parameters) -> Any:
    if not parameters.async_scheduling:
        return load("vllm.v1.core.sched.scheduler").Scheduler
    try:
        return load("vllm.v1.core.sched.async_scheduler").AsyncScheduler
    except ModuleNotFoundError as error:
        raise UsageError(
            "this vLLM has no asynchronous scheduler", remedy="give --vllm 0.32.0"
        ) from error


def _specs(interface: Any, parameters: Parameters) -> Iterator[Any]:
    """Each group's kind of attention. Sizes in bytes decide nothing here."""
    for window in parameters.windows():
        values: dict[str, Any] = {
            "block_size": parameters.block_size,
            "num_kv_heads": 1,
            "head_size": 1,
            "dtype": None,
            "use_mla": False,
        }
        make = interface.FullAttentionSpec
        if window is not None:
            make = interface.SlidingWindowSpec
            values["sliding_window"] = window
        yield make(**arguments_for(make, values))


def block_hasher(load: Import, parameters: Parameters) -> Callable[[Any], Any] | None:
    """Requests hash their own blocks since 0.10; before, the manager did."""
    utils = load("vllm.v1.core.kv_cache_utils")
    make = getattr(utils, "get_request_block_hasher", None)
    sha256 = _hash_function(load)
    if hasattr(utils, "init_none_hash"):
        utils.init_none_hash(sha256)
    if make is None or parameters.prefix_caching is False:
        return None
    hasher: Callable[[Any], Any] = make(parameters.block_size, sha256)
    return hasher


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
