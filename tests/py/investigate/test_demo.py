"""Which demos are meant."""

import pytest

from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.demo import choose_demos

KNOWN = ("Heap.UseAfterFree", "Heap.DoubleFree", "Threads.DataRace")


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ((), list(KNOWN)),
        (("heap",), ["Heap.UseAfterFree", "Heap.DoubleFree"]),
        (("DataRace", "threads.datarace"), ["Threads.DataRace"]),
        (("free", "Race"), list(KNOWN)),
    ],
)
def test_a_wish_is_any_part_of_a_name_in_any_case(
    wanted: tuple[str, ...], chosen: list[str]
) -> None:
    assert choose_demos(KNOWN, wanted) == chosen


def test_a_wish_that_no_demo_answers_lists_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no demo stack") as caught:
        choose_demos(KNOWN, ("heap", "stack"))

    assert "Threads.DataRace" in caught.value.remedy
