"""Names with nothing to leave out take a short way, which ends where the long one does."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.diagnosis.sanitizer import names as sanitizer_names

PARTS = (
    *("a", "b_c", "h0123456789abcdef", "::", "std", "__1", "(int, char*)", "()", "(a::b*)"),
    *("operator", "~x", " ", " const", "_GLOBAL__N_1", "lambda", "(", ")", "*", "é", "$_0", "9"),
)
NEVER = re.compile(r"(?!)")


@settings(max_examples=2000)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7).map("".join))
def test_both_ways_end_at_one_name(function: str) -> None:
    way = sanitizer_names.stable_name.__wrapped__
    name = way(function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sanitizer_names, "_PLAIN", NEVER)
        assert way(function) == name
