"""gdb's records, whole and damaged, and the plain names of functions."""

import faulthandler
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.gdb_mi import (
    MiFrame,
    MiResult,
    parse_frames,
    parse_line,
    parse_records,
    parse_thread_ids,
    parse_variables,
)
from vllm_forensics.model.stack import SourceLine, Variable

LONG = 50_000


@pytest.fixture
def _ends() -> Iterator[None]:
    """A parser that does not come to an end is killed, with its stack."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def result(payload: str) -> MiResult:
    found = parse_records([f"7^done,{payload}"])
    assert found.ok
    return found


def test_a_result_and_what_the_console_printed() -> None:
    found = parse_records(
        ['~"one\\n"', '&"log"', '=note,id="i1"', '~"two"', '3^done,x="1"', "(gdb) "]
    )

    assert (found.ok, found.payload, found.console) == (True, {"x": "1"}, "one\ntwo")


def test_an_error_has_its_message() -> None:
    found = parse_records(['4^error,msg="No symbol \\"x\\"."'])

    assert (found.ok, found.error) == (False, 'No symbol "x".')


def test_without_a_result_nothing_is_ok() -> None:
    assert not parse_records([]).ok


@pytest.mark.parametrize(
    "line",
    [
        '^done,a=[b={c="" ""luf,d="",e=""}]', '^done,a=[b={c""},d={e=""}]', '^done,a=[,""]',
        "^done,stack=[", '^done,stack=[frame={level="0"', '^done,x="', "^done,x=][", "^done,x=abc",
        "^done,x", "^done,", "^", "~", '~"', "^done,=", "^done,x={}}", '^done,x={"a"}', "\x00",
        "^done,x=" + "[" * 5000 + "]" * 5000, '^done,x="a\\',
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_ends")
def test_a_damaged_record_is_passed_over(line: str) -> None:
    found = parse_records([line, '9^error,msg="after"'])

    assert found.error == "after"


def test_frames_have_plain_names_and_places() -> None:
    frames = parse_frames(
        result(
            'stack=[frame={level="0",addr="0x401000",func="vllm::Block::id(int) const",'
            'file="e.cpp",fullname="/src/e.cpp",line="7"},frame={level="1",addr="0x7f00",func="??"},'
            'frame={level="2",addr="0x7f10",func="<signal handler called>"}]'
        )
    )

    assert frames[0] == MiFrame(
        level=0, pc=0x40_1000, function="vllm::Block::id", file="/src/e.cpp", line=7
    )
    assert (frames[1].function, frames[1].file, frames[1].line) == (None, None, None)
    assert frames[2].is_signal


def test_frames_behind_one_that_is_unavailable_rest_on_nothing() -> None:
    frames = parse_frames(
        result(
            'stack=[frame={level="0",addr="0x1"},frame={level="1",addr="<unavailable>"},'
            'frame={level="2",addr="0x3"}]'
        )
    )

    assert [frame.pc for frame in frames] == [1]


def test_a_single_frame_is_a_stack() -> None:
    assert [f.pc for f in parse_frames(result('stack={frame={level="0",addr="0x1"}}'))] == [1]


@pytest.mark.parametrize(
    "payload",
    ['stack=[{frame="x"}]', 'stack="x"', 'stack=[{frame={level={},addr=[]}}]', "stack=[]",
     'stack=[frame={level="0",addr="0x1",func=["x"],file={},line=[]}]'],
)  # fmt: skip
def test_a_stack_of_another_shape_raises_nothing(payload: str) -> None:
    for frame in parse_frames(result(payload)):
        assert frame.function is None


def test_variables_have_arguments_first() -> None:
    found = parse_variables(
        result(
            'variables=[{name="local",value="1"},{name="this",arg="1",type="Block *",value="0x0"},'
            '{name="x@entry",arg="1",value="5"}]'
        )
    )

    assert found == (
        Variable(name="this", value="0x0", type="Block *", is_argument=True),
        Variable(name="local", value="1"),
    )


def test_of_two_locals_with_one_name_the_inner_one_is_visible() -> None:
    found = parse_variables(result('variables=[{name="i",value="inner"},{name="i",value="outer"}]'))

    assert [variable.value for variable in found] == ["inner"]


def test_threads_by_their_kernel_id() -> None:
    threads = result(
        'threads=[{id="2",target-id="Thread 0x7f (LWP 43)"},{id="1",target-id="LWP 42"},'
        '{id="3",target-id="process 9"}]'
    )

    assert parse_thread_ids(threads) == {43: "2", 42: "1"}


def test_a_line_and_its_file() -> None:
    found = parse_line(parse_records(['~"Line 88 of \\"/src/a b.cpp\\" starts at …"', "^done"]))

    assert found == SourceLine(file="/src/a b.cpp", line=88)
    assert parse_line(parse_records(['~"No line number information"', "^done"])) is None


@pytest.mark.parametrize(
    "unit", ["{", "[", '"', "\\", "a=[", "a={", '{a="b"},', '["x",', "a,", "="]
)
@pytest.mark.parametrize("start", ["^done,x=", '^done,x=["', '~"'])
@pytest.mark.usefixtures("_ends")
def test_the_time_for_a_long_record_grows_with_its_length(unit: str, start: str) -> None:
    parse_records([start + (unit * LONG)[:LONG]])


# pygdbmi 0.11 logs an odd character through a deprecated method.
@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")
@settings(deadline=None, max_examples=200)
@given(st.text(alphabet='^~*=,[]{}"\\ab01done', max_size=80))
def test_no_text_raises_anything(text: str) -> None:
    for line in (text, f"^done,{text}", f"^done,stack=[{text}]", f"^done,variables=[{text}]"):
        found = parse_records([line])
        parse_frames(found)
        parse_variables(found)
        parse_thread_ids(found)
        parse_line(found)
