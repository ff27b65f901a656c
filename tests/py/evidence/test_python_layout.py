"""The offsets that the supervisor chooses memory by are those that the reader reads it by."""

import re

import pytest
from tests.py.integration.tool import REPOSITORY

from vllm_forensics.evidence.python_layout import layout_of

SOURCE = REPOSITORY / "csrc" / "supervisor" / "python_memory.cpp"
ROW = re.compile(r"\{(\d+(?:, (?:\d+|kNone)){8})\}")
ROWS = {
    int(minor): [None if one == "kNone" else int(one) for one in rest]
    for minor, *rest in (row.split(", ") for row in ROW.findall(SOURCE.read_text("utf-8")))
}


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_the_supervisor_knows_the_offsets_of_a_version(minor: int) -> None:
    layout = layout_of(3 << 24 | minor << 16, 0)

    assert layout is not None
    offsets = layout.offsets
    frame, *second = offsets.frame
    assert ROWS[minor] == [
        *(offsets.interpreters, offsets.gil_in_runtime, offsets.gil_pointer, offsets.threads),
        *(frame, second[0] if second else None, offsets.previous, offsets.code),
    ]


def test_neither_knows_a_version_that_the_other_does_not() -> None:
    known = {minor for minor in range(100) if layout_of(3 << 24 | minor << 16, 0) is not None}

    assert set(ROWS) == known
