"""The configuration objects that vLLM's second scheduler reads, for any version of it.

What the run decides is stated here. What a class of vLLM's own source states as a literal default
is taken from there. Anything else that a version asks for is refused by name.
"""

from __future__ import annotations

import importlib.machinery
from collections.abc import Mapping
from copy import copy
from functools import cache
from typing import Any, Final

from vllm_forensics.model.sandbox import Parameters, VllmTree
from vllm_forensics.sandbox.engine.absent import Known
from vllm_forensics.sandbox.engine.loader import QuietLogger, Selection, defaults_in
from vllm_forensics.sandbox.engine.v1_connector import Connector

NO_PICTURES: Final = Known(
    "MultiModalRegistry",
    {
        "supports_multimodal_inputs": lambda config: False,
        "get_encdec_max_encoder_len": lambda config: 0,
    },
)
"""The made-up model takes text only."""

SELECTION: Final = Selection(
    packages=("vllm.v1.core",),
    modules=(
        "vllm.distributed.kv_events",
        "vllm.envs",
        "vllm.multimodal.utils",
        "vllm.utils",
        "vllm.utils.hashing",
        "vllm.utils.math_utils",
        "vllm.v1.engine",
        "vllm.v1.hisparse.block_pool",
        "vllm.v1.hisparse.layout",
        "vllm.v1.kv_cache_interface",
        "vllm.v1.kv_cache_layout",
        "vllm.v1.kv_cache_spec_registry",
        "vllm.v1.kv_hints",
        "vllm.v1.metrics.cache_hit_source",
        "vllm.v1.metrics.stats",
        "vllm.v1.outputs",
        "vllm.v1.request",
        "vllm.v1.spec_decode.metrics",
        "vllm.v1.structured_output.request",
        "vllm.v1.utils",
    ),
    stand_ins={
        "vllm.logger": {"init_logger": QuietLogger},
        "vllm.multimodal": {"MULTIMODAL_REGISTRY": NO_PICTURES},
        # No platform adds kinds of its own, and none computes.
        "vllm.platforms": {
            "current_platform": Known(
                "current_platform",
                {"register_custom_kv_cache_specs": lambda config: None, "is_xpu": lambda: False},
            )
        },
        "vllm.distributed.kv_transfer.kv_connector.factory": {
            "KVConnectorFactory": Known(
                "KVConnectorFactory",
                {
                    "create_connector": lambda config, role, kv_cache_config=None: (
                        config.kv_transfer_config.connector
                    )
                },
            )
        },
        "vllm.distributed.kv_transfer.kv_connector.v1": {
            "KVConnectorRole": Known("KVConnectorRole", {"SCHEDULER": "scheduler"}),
        },
        "vllm.config": {"get_current_vllm_config_or_none": lambda: None},
    },
)
"""The modules that decide about blocks and requests; found by asking what they import."""

_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "SchedulerConfig": ("vllm.config.scheduler", "vllm.config"),
    "CacheConfig": ("vllm.config.cache", "vllm.config"),
    "ParallelConfig": ("vllm.config.parallel", "vllm.config"),
    "ObservabilityConfig": ("vllm.config.observability", "vllm.config"),
    "SamplingParams": ("vllm.sampling_params",),
    "ModelConfig": ("vllm.config.model", "vllm.config"),
}
"""Where a class is stated: in 0.8 all configuration was one file."""


class Configs:
    """Makes the objects for one tree."""

    def __init__(
        self, tree: VllmTree, parameters: Parameters, connector: Connector | None = None
    ) -> None:
        """Nothing is read yet."""
        self._tree = tree
        self._connector = connector
        self._parameters = parameters
        self._batch = parameters.batch(chunks=parameters.chunked_prefill is not False)

    def known(self, name: str, **fields: Any) -> Known:
        """An object of vLLM's class `name`: its literal defaults, then ours."""
        return Known(name, {**_defaults(self._tree.root, name), **fields})

    def vllm_config(self) -> Known:
        """All of it, for one GPU and no adapters."""
        parameters = self._parameters
        in_flight = 2 if parameters.async_scheduling else 1
        scheduler = self._scheduler_config()
        return self.known(
            "VllmConfig",
            scheduler_config=scheduler,
            cache_config=self._cache_config(),
            model_config=self.known(
                "ModelConfig",
                max_model_len=parameters.max_model_len,
                uses_mrope=False,
                is_encoder_decoder=False,
                is_multimodal_model=False,
                is_diffusion=False,
                supports_multimodal_inputs=False,
                runner_type="generate",
                return_sampling_mask=False,
                is_hybrid=False,
                has_inner_state=False,
                skip_tokenizer_init=True,
            ),
            parallel_config=self.known(
                "ParallelConfig",
                data_parallel_index=0,
                data_parallel_rank=0,
                pipeline_parallel_size=1,
                decode_context_parallel_size=1,
                prefill_context_parallel_size=1,
                world_size=1,
            ),
            observability_config=self.known("ObservabilityConfig"),
            aux_output_config=Known("AuxOutputConfig", {"enabled": False}),
            ec_manager_config=Known(
                "EncoderCacheManagerConfig", {"get_encoder_cache_manager_obj": lambda: None}
            ),
            device_config=Known("DeviceConfig", {}),
            lora_config=None,
            kv_events_config=None,
            kv_transfer_config=self._transfer_config(),
            ec_transfer_config=None,
            speculative_config=self._speculative_config(),
            structured_outputs_config=Known("StructuredOutputsConfig", {}),
            is_mm_encoder_only=False,
            num_speculative_tokens=parameters.spec_tokens,
            num_lookahead_tokens=parameters.spec_tokens,
            num_prefill_lookahead_tokens=0,
            # What the real properties give with and without asynchronous scheduling.
            max_concurrent_batches=in_flight,
            max_in_flight_tokens=self._batch * in_flight,
            use_v2_model_runner=False,
        )

    def _transfer_config(self) -> Known | None:
        if self._connector is None:
            return None
        return Known(
            "KVTransferConfig",
            {
                "connector": self._connector,
                "kv_load_failure_policy": "recompute",
                "is_kv_consumer": True,
                "is_kv_producer": False,
            },
        )

    def _speculative_config(self) -> Known | None:
        if not self._parameters.spec_tokens:
            return None
        return Known(
            "SpeculativeConfig",
            {
                "num_speculative_tokens": self._parameters.spec_tokens,
                "num_speculative_tokens_per_batch_size": None,
                "method": "eagle3",
                "max_num_new_slots_for_drafting": 0,
                "use_eagle": lambda: True,
                "use_eagle_block_drop": lambda: True,
                "uses_draft_model": lambda: False,
                "use_dflash": lambda: False,
                "use_dspark": lambda: False,
            },
        )

    def _scheduler_config(self) -> Known:
        parameters = self._parameters
        chosen = (
            {}
            if parameters.chunked_prefill is None
            else {
                "enable_chunked_prefill": parameters.chunked_prefill,
                "chunked_prefill_enabled": parameters.chunked_prefill,
            }
        )
        # In 0.8 to 0.11 `chunked_prefill_enabled` was set from the other by the real class.
        usual = {"enable_chunked_prefill": True, "chunked_prefill_enabled": True}
        return self.known(
            "SchedulerConfig",
            **{
                **usual,
                **chosen,
                "max_num_batched_tokens": self._batch,
                "max_num_seqs": parameters.max_seqs,
                "max_model_len": parameters.max_model_len,
                "policy": parameters.policy.value,
                "async_scheduling": parameters.async_scheduling,
                "max_num_encoder_input_tokens": self._batch,
                "encoder_cache_size": self._batch,
            },
        )

    def _cache_config(self) -> Known:
        parameters = self._parameters
        caching = parameters.prefix_caching
        return self.known(
            "CacheConfig",
            block_size=parameters.block_size,
            num_gpu_blocks=parameters.gpu_blocks,
            num_cpu_blocks=0,
            sliding_window=parameters.sliding_window,
            enable_prefix_caching=True if caching is None else caching,
        )


def _defaults(root: str, name: str) -> dict[str, Any]:
    """A class's literal defaults; containers are its own for each object, as in vLLM."""
    return {
        field: copy(value) if isinstance(value, list | dict | set) else value
        for field, value in _stated(root, name).items()
    }


@cache
def _stated(root: str, name: str) -> Mapping[str, Any]:
    """Read once: there is an object of some of these classes for each request."""
    for module in _SOURCES.get(name, ()):
        source = _source(root, module)
        if source is not None and f"class {name}" in source:
            return defaults_in(source, name)
    return {}


def _source(root: str, module: str) -> str | None:
    """A module's text, found as Python would find it, and not executed."""
    path: list[str] | None = [root]
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None:
            return None
        path = (
            None if spec.submodule_search_locations is None else [*spec.submodule_search_locations]
        )
        if path is None and name != module:
            return None
    loader = spec.loader if spec else None
    return (
        loader.get_source(name)
        if isinstance(loader, importlib.machinery.SourceFileLoader)
        else None
    )
