"""What a baseline may be."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.baseline import parse_baseline

ONE = "v1:heap-use-after-free:q::look:0123456789ab"
TWO = "v1:segv:operator new:ba9876543210"


def test_a_list_of_signatures() -> None:
    assert parse_baseline(f"# known\n{ONE}\n\n {TWO}\n{ONE}\n".encode()) == (ONE, TWO)


def test_an_answer_gives_a_leak_reports_leaks() -> None:
    answer = {
        "schema": "forensics.asan/1",
        "reports": [
            {"signature": ONE, "leaks": []},
            {"signature": "v1:memory-leak:all:000000000000", "leaks": [{"signature": TWO}]},
        ],
    }

    assert parse_baseline(json.dumps(answer).encode()) == (ONE, TWO)


def test_an_answer_without_signatures_of_leaks_gives_the_reports() -> None:
    answer = {"schema": "forensics.asan/1", "reports": [{"signature": ONE, "leaks": [{}]}]}

    assert parse_baseline(json.dumps(answer).encode()) == (ONE,)


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema": "forensics.core/1", "crashes": []}',
        b'{"schema": "forensics.asan/1", "reports": 3}',
        f"{ONE}\nsomething else\n".encode(),
    ],
)
def test_another_answer_or_a_broken_list_is_an_error(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        parse_baseline(data)


@pytest.mark.parametrize(
    "data",
    [
        b"==7==ERROR: AddressSanitizer: x\n",
        b'{"log": "a"}\n{"log": "b"}\n',
        b"{",
    ],
)
def test_what_is_neither_may_be_a_log(data: bytes) -> None:
    assert parse_baseline(data) is None


@pytest.mark.parametrize("data", [b"", b"# nothing\n"])
def test_an_empty_list_knows_nothing(data: bytes) -> None:
    assert parse_baseline(data) == ()


@given(st.one_of(st.binary(), st.text(alphabet='{}[]":1v#\n a')))
def test_nothing_raises_anything_else(data: bytes | str) -> None:
    with contextlib.suppress(EvidenceError):
        parse_baseline(data if isinstance(data, bytes) else data.encode())
