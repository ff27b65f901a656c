"""Loads: read from lines, drawn from a seed, built for an effect."""

import json

import pytest

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import RequestSpec
from vllm_forensics.sandbox.load import (
    drawn,
    parse_load,
    require_fits_model,
    uniform,
)


def test_a_line_is_a_request_and_what_is_left_out_has_a_default() -> None:
    text = '{"arrival": 2, "prompt": 170, "output": 16}\n\n{"id": "x", "prompt": 5, "output": 1}\n'

    assert parse_load(text) == (
        RequestSpec(id="0", arrival=2, prompt_len=170, max_tokens=16),
        RequestSpec(id="x", prompt_len=5, max_tokens=1),
    )


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[1, 2]",
        '{"prompt": 170}',
        '{"prompt": 0, "output": 1}',
        '{"prompt": 1e9, "output": 1}',
        '{"prompt": true, "output": 1}',
        '{"prompt": 170, "output": 16, "tokens": 3}',
        '{"prompt": 999999999, "output": 1}',
        "[" * 5000,
    ],
)
def test_a_line_that_is_no_request_is_named(line: str) -> None:
    with pytest.raises(UsageError, match="line 2 of the load"):
        parse_load('{"prompt": 1, "output": 1}\n' + line)


def test_an_empty_load_and_one_with_an_id_twice_are_refused() -> None:
    twice = '{"id": "a", "prompt": 1, "output": 1}\n' * 2

    for text in ("", "\n\n", twice):
        with pytest.raises(UsageError):
            parse_load(text)


def test_the_same_seed_draws_the_same_load() -> None:
    load = uniform(20, 100, 40)

    assert drawn(load, 7) == drawn(load, 7)
    assert drawn(load, 7) != drawn(load, 8)
    assert all(50 <= spec.prompt_len <= 150 for spec in drawn(load, 7))


def test_a_prompt_that_no_model_takes_is_refused_with_what_to_type() -> None:
    with pytest.raises(UsageError) as error:
        require_fits_model(uniform(1, 9000, 10), 8192)

    assert error.value.remedy == "give --max-model-len 9010 or more"


def test_hostile_numbers_never_become_a_load() -> None:
    values: tuple[object, ...] = (-1, 10**7, 2.5, None, "3", [], {})
    for value in values:
        with pytest.raises(UsageError):
            parse_load(json.dumps({"prompt": value, "output": 1}))
