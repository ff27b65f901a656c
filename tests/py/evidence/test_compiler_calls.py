"""Records of compiler calls: whatever they hold, what can be read is."""

from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.compiler_calls import parse_compiler_calls


def test_calls_are_read_and_torn_lines_passed_over() -> None:
    record = (
        b"/build\x1fgcc\x1f-DTEXT=one\ntwo\x1f-o\x1fa.o\x1f\n/b\x1fg++\x1f-o\x1fb.so\x1fb.o\x1f\n"
    )

    calls = parse_compiler_calls([b"", b"/\n", record])

    assert [(call.folder, call.output) for call in calls] == [("/build", None), ("/b", "b.so")]


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_record_raises(records: list[bytes]) -> None:
    for call in parse_compiler_calls(records):
        assert call.folder.startswith("/")
        assert call.arguments
