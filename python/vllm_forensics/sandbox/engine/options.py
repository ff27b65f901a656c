"""What a generation does not have is refused before it is driven, with what to type."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import Parameters


def refuse_others(
    parameters: Parameters, engine: str, options: Iterable[str], *, remedy: str
) -> None:
    """Refuse parameters that are not as they are by default.

    Raises:
        UsageError: one of `options` is not.

    """
    usual = Parameters()
    for name in options:
        if getattr(parameters, name) != getattr(usual, name):
            raise UsageError(f"{engine} has no {name.replace('_', ' ')}", remedy=remedy)
