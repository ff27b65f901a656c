"""Native and Python frames joined where they were."""

from tests.py.support.images import a_frame

from vllm_forensics.diagnosis.mixed_stack import gil_of, lacks_loop, merge_stack
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.python_stack import PythonFrame, PythonThread
from vllm_forensics.model.stack import Frame, FrameKind

LOOP = "_PyEval_EvalFrameDefault"


def native(*functions: str) -> tuple[Frame, ...]:
    return tuple(a_frame(at, function) for at, function in enumerate(functions))


def called(function: str, *, is_entry: bool = False) -> PythonFrame:
    return PythonFrame(
        function=function, file="app.py", line=3, is_entry=is_entry, tier=Tier.PYSTACK
    )


def names(frames: tuple[Frame, ...]) -> list[str | None]:
    return [frame.function for frame in frames]


def test_a_run_of_python_calls_stands_before_the_loop_that_ran_it() -> None:
    merged = merge_stack(
        native("crash", LOOP, "main"), (called("inner"), called("outer", is_entry=True))
    )

    assert names(merged) == ["crash", "inner", "outer", LOOP, "main"]
    assert [frame.kind for frame in merged[1:3]] == [FrameKind.PYTHON] * 2


def test_native_code_between_two_python_calls_stays_between_them() -> None:
    merged = merge_stack(
        native("crash", LOOP, "call_back", LOOP, "main"),
        (called("on_event", is_entry=True), called("run"), called("<module>", is_entry=True)),
    )

    assert names(merged) == [
        *("crash", "on_event", LOOP, "call_back"),
        *("run", "<module>", LOOP, "main"),
    ]


def test_a_loop_without_a_python_frame_left_gets_none() -> None:
    merged = merge_stack(native("crash", LOOP, LOOP), (called("only", is_entry=True),))

    assert names(merged) == ["crash", "only", LOOP, LOOP]


def test_python_frames_beyond_what_was_unwound_stand_at_the_end() -> None:
    merged = merge_stack(
        native("crash", LOOP), (called("inner", is_entry=True), called("outer", is_entry=True))
    )

    assert names(merged) == ["crash", "inner", LOOP, "outer"]


def test_a_whole_stack_without_a_known_loop_says_so() -> None:
    nameless, cut, known = (native("crash", *rest) for rest in (("_start",), (), (LOOP, "_start")))
    calls = (called("only", is_entry=True),)

    assert lacks_loop(nameless, merge_stack(nameless, calls))
    assert not lacks_loop(cut, merge_stack(cut, calls))
    assert not lacks_loop(known, merge_stack(known, calls))
    assert not lacks_loop((), ())


def test_a_loop_of_tail_calls_is_a_loop() -> None:
    merged = merge_stack(native("crash", "_TAIL_CALL_CALL"), (called("f", is_entry=True),))

    assert names(merged) == ["crash", "f", "_TAIL_CALL_CALL"]


def test_who_waits_for_the_lock_and_who_holds_it() -> None:
    holder = PythonThread(tid=1, frames=(), holds_gil=True)

    assert gil_of(holder, native("crash", LOOP)) == "holds"
    assert gil_of(None, native("futex_wait", "take_gil", LOOP)) == "waits"
    assert gil_of(None, native("crash")) is None
