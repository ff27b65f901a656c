"""A frame's line: what gives way in a narrow terminal, and what never does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.render.frame_line import fitted

NAME = "cpu_attention::AttentionImpl<…>::reshape_and_cache"
PLACE = "executor/multiproc_executor.py:1045"


@pytest.mark.parametrize("width", [36, 50, 74, 160])
def test_a_line_number_is_never_cut(width: int) -> None:
    line = "".join(fitted(NAME, PLACE, "Python", width))

    assert len(line) <= width
    assert "or.py:1045" in line


def test_a_note_goes_before_a_folder_and_a_folder_before_a_name() -> None:
    roomy, less, little = (fitted("worker_main", PLACE, "Python", width) for width in (70, 50, 40))

    assert (roomy.place, roomy.note) == (PLACE, "  Python")
    assert (less.place, less.note) == (PLACE, "")
    assert (little.function.strip(), little.place) == ("worker_main", PLACE.partition("/")[2])


def test_places_stand_below_each_other_where_there_is_room() -> None:
    starts = {len(fitted(name, "a.py:1", "", 80).function) for name in ("one", "another")}

    assert len(starts) == 1


def test_a_frame_without_a_place_is_its_name() -> None:
    assert "".join(fitted("decorate_context", "", "Python", 80)) == "decorate_context"


@given(
    name=st.text("abc:<", max_size=200),
    place=st.text("abc/", max_size=80),
    width=st.integers(34, 160),
)
def test_no_line_is_wider_than_it_may_be(name: str, place: str, width: int) -> None:
    assert len("".join(fitted(name, f"{place}.py:12345", "inlined", width))) <= width
