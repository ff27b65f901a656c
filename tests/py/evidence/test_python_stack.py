"""Python stacks as CPython 3.11 dumped them, and text that nobody dumped."""

from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.python_stack import parse_python_stacks
from vllm_forensics.model.sanitized import PythonFrame, PythonThread

CURRENT = """\
== UndefinedBehaviorSanitizer 14778
Current thread 0x00007f775bca97c0 (most recent call first):
  File "/srv/t.py", line 5 in inner
  File "/srv/t.py", line 7 in <module>
== AddressSanitizer 14778
Thread 0x00007f775a0006c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 1119 in join

Current thread 0x00007f775bca97c0 (most recent call first):
  File "/srv/with "quotes", line 3 in x.py", line 6 in <lambda>
  File ???, line ??? in inner
  ...
"""
NATIVE = """\
== death 20
Thread 0x00007f775a0006c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 1119 in join

Thread 0x00007f775bca97c0 (most recent call first):
  File "/srv/t.py", line 7 in <module>
"""


def test_each_report_has_the_stack_of_its_own_thread() -> None:
    undefined, address = parse_python_stacks(CURRENT)

    assert (undefined.sanitizer, undefined.thread) == (
        "UndefinedBehaviorSanitizer",
        PythonThread.CURRENT,
    )
    assert undefined.frames == (
        PythonFrame(function="inner", file="/srv/t.py", line=5),
        PythonFrame(function="<module>", file="/srv/t.py", line=7),
    )
    assert address.sanitizer == "AddressSanitizer"
    assert address.frames[-1] == PythonFrame(function="inner", file=None, line=None)


def test_where_the_thread_runs_no_python_the_main_thread_stands_in() -> None:
    [stack] = parse_python_stacks(NATIVE)

    assert (stack.sanitizer, stack.thread) == (None, PythonThread.MAIN)
    assert stack.frames == (PythonFrame(function="<module>", file="/srv/t.py", line=7),)


def test_a_cut_off_dump_gives_what_was_written() -> None:
    [stack] = parse_python_stacks(CURRENT.split(", line 7")[0])

    assert stack.frames == (PythonFrame(function="inner", file="/srv/t.py", line=5),)


def test_dumps_are_bounded() -> None:
    frames = '  File "a.py", line 1 in f\n' * 5000
    text = f"== AddressSanitizer 1\nCurrent thread 0x1 (most recent call first):\n{frames}" * 300

    stacks = parse_python_stacks(text)

    assert (len(stacks), len(stacks[0].frames)) == (200, 200)


@given(st.text(alphabet='= Thread0x1:\n File"?,line in…', max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert len(parse_python_stacks(text)) <= text.count("== ")
