"""Makes a real vLLM write far outside of its KV cache, after it has served for a while.

Python imports this in every process of the engine. The kernel is the one that was released; only
the slots that it is given are shifted.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

HEALTHY_CALLS = 20
SHIFT = 100_000_000
SPARES_FIRST_HALF = bool(os.environ.get("VICTIM_SPARES_FIRST_HALF"))


class _ShiftSlots(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "vllm._custom_ops":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            _shift(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _shift(module: Any) -> None:
    real, calls = module.cpu_attn_reshape_and_cache, 0

    def cpu_attn_reshape_and_cache(
        key: Any, value: Any, keys: Any, values: Any, slot_mapping: Any, *rest: Any, **named: Any
    ) -> Any:
        nonlocal calls
        calls += 1
        slots = slot_mapping.clone()
        if calls > HEALTHY_CALLS:
            slots[len(slots) // 2 if SPARES_FIRST_HALF else 0 :] += SHIFT
        return real(key, value, keys, values, slots, *rest, **named)

    module.cpu_attn_reshape_and_cache = cpu_attn_reshape_and_cache


sys.meta_path.insert(0, _ShiftSlots())
