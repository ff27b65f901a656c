"""Text that waits for its turn."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_forensics.capture.spool import Spool
from vllm_forensics.errors import ToolError

MIB = 1 << 20


@pytest.fixture
def spool() -> Iterator[Spool]:
    with Spool() as made:
        yield made


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_texts_come_back_in_any_order(spool: Spool) -> None:
    texts = ["one", "", "zwölf \udce9", "x" * 6 * MIB, "last"]
    places = [spool.put(text) for text in texts]

    found = [spool.get(place) for place in reversed(places)]

    assert found == texts[::-1]


def test_what_is_large_lies_in_a_file_that_is_gone_afterwards() -> None:
    before = open_files()

    with Spool() as spool:
        spool.put("x")
        small = open_files()
        spool.put("x" * 6 * MIB)
        large = open_files()

    assert (small, large, open_files()) == (before, before + 1, before)


def test_where_there_is_no_room_it_is_said(spool: Spool) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5 * MIB, hard))
    try:
        with pytest.raises(ToolError, match="cannot be kept in") as told:
            spool.put("x" * 6 * MIB)
        spool.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert "TMPDIR" in told.value.remedy
