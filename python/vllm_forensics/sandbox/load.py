"""Loads: all alike, drawn from a seed, or read from lines of JSON."""

from __future__ import annotations

import json
import random
from dataclasses import fields, replace
from typing import Any, Final

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import RequestSpec

_MAX_REQUESTS: Final = 100_000
_MAX_TOKENS: Final = 1_000_000
"""Of one request; longer than any model's context."""
_MAX_NAME: Final = 80
_SPREAD: Final = 4
"""Steps between two arrivals of a drawn load, at most."""
_NAMES: Final = {
    "id": "id",
    "arrival": "arrival",
    "prompt": "prompt_len",
    "output": "max_tokens",
    "priority": "priority",
    "prefix": "prefix",
    "abort_after": "abort_after",
}


def uniform(count: int, prompt_len: int, max_tokens: int) -> tuple[RequestSpec, ...]:
    """`count` requests alike, all there from the start, called 0, 1, 2 and so on."""
    _require(0 < count <= _MAX_REQUESTS, f"{count} requests", f"from 1 to {_MAX_REQUESTS:,}")
    _require(0 < prompt_len <= _MAX_TOKENS, f"a prompt of {prompt_len}", "1 token or more")
    _require(0 < max_tokens <= _MAX_TOKENS, f"an output of {max_tokens}", "1 token or more")
    return tuple(
        RequestSpec(id=str(number), prompt_len=prompt_len, max_tokens=max_tokens)
        for number in range(count)
    )


def drawn(load: tuple[RequestSpec, ...], seed: int) -> tuple[RequestSpec, ...]:
    """The load with lengths from half to one and a half of its own, and arrivals apart."""
    chance = random.Random(seed)  # noqa: S311 - no secret: the same seed must give the same load
    arrival = 0
    found = []
    for spec in load:
        arrival += chance.randint(0, _SPREAD)
        found.append(
            replace(
                spec,
                arrival=arrival,
                prompt_len=chance.randint(max(1, spec.prompt_len // 2), spec.prompt_len * 3 // 2),
                max_tokens=chance.randint(max(1, spec.max_tokens // 2), spec.max_tokens * 3 // 2),
            )
        )
    return tuple(found)


def require_fits_model(load: tuple[RequestSpec, ...], max_model_len: int) -> None:
    """Refuse what every vLLM refuses before its scheduler sees it.

    Raises:
        UsageError: a prompt is as long as the model's context, or longer.

    """
    for spec in load:
        if spec.prompt_len >= max_model_len:
            raise UsageError(
                f"request {spec.id} has a prompt of {spec.prompt_len} tokens, and the model's "
                f"context is {max_model_len}",
                remedy=f"give --max-model-len {spec.prompt_len + spec.max_tokens} or more",
            )


def parse_load(text: str) -> tuple[RequestSpec, ...]:
    """One JSON object a line: `prompt` and `output` in tokens, `arrival` in steps, and more.

    Also `id`, `priority`, `prefix` (tokens shared with every other request that has any) and
    `abort_after` (a step).

    Raises:
        UsageError: a line is none of that.

    """
    found: list[RequestSpec] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            found.append(_parsed(line, number, len(found)))
            _require(len(found) <= _MAX_REQUESTS, "the load", f"at most {_MAX_REQUESTS:,} requests")
    names = {spec.id for spec in found}
    _require(bool(found), "the load", "a line for each request")
    _require(len(names) == len(found), "the load", "each id once")
    return tuple(found)


def load_fields(spec: RequestSpec) -> dict[str, Any]:
    """One request as a line of a load names it; what is usual is left out."""
    usual = {field.name: field.default for field in fields(spec)}
    found = {short: getattr(spec, name) for short, name in _NAMES.items()}
    return {short: value for short, value in found.items() if value != usual[_NAMES[short]]}


def _parsed(line: str, number: int, place: int) -> RequestSpec:
    wrong = UsageError(
        f"line {number} of the load is no request: {line[:80]}",
        remedy='write {"arrival": 0, "prompt": 170, "output": 16}; also id, priority, prefix, '
        "abort_after",
    )
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise wrong from error
    if not isinstance(value, dict) or set(value) - set(_NAMES):
        raise wrong
    given = {_NAMES[name]: item for name, item in value.items() if item is not None}
    request = given.pop("id", place)
    if not isinstance(request, str | int) or len(str(request)) > _MAX_NAME:
        raise wrong
    if not all(type(item) is int and abs(item) <= _MAX_TOKENS for item in given.values()):
        raise wrong
    if any(item < 0 for name, item in given.items() if name != "priority"):
        raise wrong
    if given.get("prompt_len", 0) < 1 or given.get("max_tokens", 0) < 1:
        raise wrong
    return RequestSpec(id=str(request), **given)


def _require(holds: bool, what: str, instead: str) -> None:  # noqa: FBT001 - a condition, no option
    if not holds:
        raise UsageError(f"{what} cannot be driven", remedy=f"give {instead}")
