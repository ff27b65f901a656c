"""Python's calls in a core that lacks some of their memory."""

from dataclasses import replace

from tests.py.support.images import a_frame

from vllm_forensics.diagnosis.python_calls import more_of_each, place_of_calls
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.python_stack import UNREAD, PythonFrame, PythonThread
from vllm_forensics.model.stack import Frame, FrameKind


def thread(tid: int, *functions: str, tier: Tier = Tier.NOTES) -> PythonThread:
    frames = tuple(
        PythonFrame(function=name, file="/app/serve.py", line=3, is_entry=False, tier=tier)
        for name in functions
    )
    return PythonThread(tid=tid, frames=frames, holds_gil=None)


def python(function: str, file: str, line: int | None = None) -> Frame:
    return replace(a_frame(0, function, kind=FrameKind.PYTHON), file=file, line=line)


def test_a_reading_that_leaves_calls_out_does_not_stand() -> None:
    own = (thread(1, "store", UNREAD, "<module>"), thread(2, "wait"))
    theirs = (thread(1, "<module>", tier=Tier.PYSTACK), thread(2, "wait", tier=Tier.PYSTACK))

    threads, in_part = more_of_each(own, theirs)

    assert threads == (own[0], theirs[1])
    assert in_part == {1}


def test_what_both_could_read_in_part_only_is_not_called_whole() -> None:
    own = (thread(1, "store"), thread(2, "wait", UNREAD))
    theirs = (thread(1, "store", "<module>"), thread(2, "wait", "<module>"))

    threads, in_part = more_of_each(own, theirs)

    assert threads == theirs
    assert in_part == {1, 2}


def test_a_thread_that_one_of_both_knows_is_kept() -> None:
    own, theirs = (thread(1, "store"),), (thread(2, "wait"),)

    threads, in_part = more_of_each(own, theirs)

    assert {one.tid for one in threads} == {1, 2}
    assert in_part == {1}


def test_nothing_read_is_nobodys() -> None:
    assert more_of_each((thread(1),), ()) == ((), frozenset())


def test_the_innermost_call_that_has_a_name_is_told() -> None:
    calls = (python("__call__", UNREAD), python(UNREAD, UNREAD), python("store", UNREAD))

    assert place_of_calls((*calls, python("main", "/app/serve.py", 3))) == "store"


def test_a_call_of_a_known_file_is_told_with_its_line() -> None:
    assert place_of_calls((python("__call__", "/app/serve.py", 3),)) == "__call__ (/app/serve.py:3)"
    assert place_of_calls((python(UNREAD, UNREAD),)) is None
