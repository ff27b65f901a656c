"""Names that fit a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.render.short_names import short_name

KERNEL = (
    "cpu_attention::AttentionImpl<(cpu_attention::ISA)1, c10::BFloat16, 64l, c10::BFloat16>"
    "::reshape_and_cache"
)
LONG = "a" * 60


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("std::vector<int>::at", "std::vector<int>::at"),
        (KERNEL, "cpu_attention::AttentionImpl<…>::reshape_and_cache"),
        (f"f<{LONG}, g<int> >::h<int>", "f<…>::h<…>"),
        (f"{LONG}::operator<", f"{LONG}::operator<"),
        (f"{LONG}::operator<<", f"{LONG}::operator<<"),
        (f"{LONG}::operator->", f"{LONG}::operator->"),
        (f"{LONG}::operator<<int>", f"{LONG}::operator<<…>"),
        (f"{LONG}::operator<<<int>", f"{LONG}::operator<<<…>"),
        (f"{LONG}<int>::operator()", f"{LONG}<…>::operator()"),
        (f"{LONG}<int", f"{LONG}<int"),
        (f"{LONG}>int", f"{LONG}>int"),
    ],
)
def test_only_the_arguments_of_long_templates_are_left_out(name: str, shown: str) -> None:
    assert short_name(name) == shown


@given(st.text(alphabet="ab:<>=-*( operator", max_size=200))
def test_a_name_never_grows(name: str) -> None:
    assert len(short_name(name)) <= len(name) + 2 * name.count("<")
