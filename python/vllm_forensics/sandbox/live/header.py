"""The first line of a trace: which engine it is, and all that decides what it schedules."""

from __future__ import annotations

from typing import Any, Final

from vllm_forensics.sandbox.live.lines import Group, HeaderLine, Live

_LONGEST_TEXT: Final = 40
"""Of a configured value: names of choices are shorter, and paths are nobody's business."""
_MODEL_FIELDS: Final = ("max_model_len", "is_encoder_decoder", "is_hybrid", "runner_type")


def header_of(scheduler: Any, *, version: str | None, file: str, pid: int) -> HeaderLine:
    """What a scheduler was built from; nothing of the model's name, paths or prompts.

    Raises:
        AttributeError: this vLLM keeps it elsewhere.

    """
    options, cache = scheduler.scheduler_config, scheduler.cache_config
    groups = [_group(group) for group in scheduler.kv_cache_config.kv_cache_groups]
    return HeaderLine(
        kind="run",
        schema="forensics.sandbox_events/1",
        engine="v1",
        version=version,
        parameters={
            "gpu_blocks": scheduler.kv_cache_manager.block_pool.num_gpu_blocks,
            "block_size": groups[0].block_size if groups else cache.block_size,
            "sliding_window": groups[0].sliding_window if groups else None,
            "prefix_caching": bool(cache.enable_prefix_caching),
            "chunked_prefill": _chunked(options),
            "policy": str(getattr(options.policy, "value", options.policy)),
            "max_batched_tokens": options.max_num_batched_tokens,
            "max_seqs": options.max_num_seqs,
            "max_model_len": scheduler.max_model_len,
            "async_scheduling": bool(getattr(options, "async_scheduling", False)),
        },
        live=Live(
            file=file,
            pid=pid,
            scheduler=f"{type(scheduler).__module__}.{type(scheduler).__qualname__}",
            async_scheduling=bool(getattr(options, "async_scheduling", False)),
            connector=_name(getattr(scheduler, "connector", None)),
            speculative_tokens=int(getattr(scheduler, "num_spec_tokens", 0) or 0),
            groups=groups,
            options={
                "scheduler": _plain(options),
                "cache": _plain(cache),
                "model": {
                    name: value
                    for name, value in _plain(scheduler.vllm_config.model_config).items()
                    if name in _MODEL_FIELDS
                },
            },
        ),
    )


def _chunked(options: Any) -> bool:
    """Until 0.11 the field that decides was set from the one that the user gives."""
    stated = getattr(options, "chunked_prefill_enabled", None)
    return bool(options.enable_chunked_prefill if stated is None else stated)


def _group(group: Any) -> Group:
    spec = group.kv_cache_spec
    window = getattr(spec, "sliding_window", None)
    return Group(
        type=type(spec).__name__,
        block_size=spec.block_size,
        sliding_window=window if isinstance(window, int) else None,
        layers=len(group.layer_names),
    )


def _name(thing: object | None) -> str | None:
    return None if thing is None else type(thing).__name__


def _plain(config: Any) -> dict[str, bool | int | float | str | None]:
    """The fields of a configuration that are one value."""
    values = getattr(config, "__dict__", {})
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("_")
        and (
            value is None
            or isinstance(value, bool | int | float)
            or (isinstance(value, str) and len(value) <= _LONGEST_TEXT and "/" not in value)
        )
    }
