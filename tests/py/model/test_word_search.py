"""Words are found where a plain search finds them."""

from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.model.word_search import positions_of_word


@given(st.lists(st.sampled_from([0, 0, 0, 1, 2]), max_size=200), st.integers(0, 600))
def test_a_word_is_found_wherever_a_plain_search_finds_it(memory: list[int], number: int) -> None:
    held, word = bytes(memory), number.to_bytes(4, "little")

    found = list(positions_of_word(held, word))

    assert len(found) == held.count(word)
    assert all(held.startswith(word, at) for at in found)
    assert found[:1] == ([held.find(word)] if word in held else [])
