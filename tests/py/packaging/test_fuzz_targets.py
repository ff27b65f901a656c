"""Every target that the fuzzer is given runs: no target names what is no longer there."""

import contextlib

import pytest
from fuzz.run import seeds
from fuzz.targets import TARGETS

from vllm_forensics.errors import EvidenceError


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_its_seeds_and_what_is_cut_off(name: str) -> None:
    target, given = TARGETS[name](), list(seeds(name))
    assert given

    for seed in given[:: max(1, len(given) // 40)]:
        for data in (seed, seed[: len(seed) // 2], b""):
            with contextlib.suppress(EvidenceError):
                target(data)
