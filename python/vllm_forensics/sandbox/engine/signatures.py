"""Constructors differ between versions: each gets the arguments that it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from vllm_forensics.sandbox.engine.absent import refuse


def arguments_for(make: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that `make` takes.

    Raises:
        UnmodelledError: it requires one that is not among them.

    """
    taken: dict[str, Any] = {}
    for name, parameter in inspect.signature(make).parameters.items():
        if name in values:
            taken[name] = values[name]
        elif parameter.default is parameter.empty and parameter.kind in {
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        }:
            refuse(f"a value for {name} of {make.__qualname__}")
    return taken
