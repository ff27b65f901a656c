"""Tracebacks as they are pasted: in frames that Rich draws, broken, cut, with turned quotes."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import Clue, ClueKind, Follows

_WIDTH = 76


def _row(text: str = "") -> str:
    return f"│ {text:<{_WIDTH - 2}} │\n"


def _edge(left: str, right: str, title: str = "") -> str:
    return left + (f" {title} " if title else "").center(_WIDTH, "─") + right + "\n"


def _panel(*rows: str) -> str:
    top = _edge("╭", "╮", "Traceback (most recent call last)")
    return top + "".join(map(_row, rows)) + _edge("╰", "╯")


def _clues(text: str) -> tuple[Clue, ...]:
    return parse_incident_log([text.encode()]).clues


def _calls(clue: Clue) -> list[tuple[str, str, int]]:
    return [(call.function, call.file, call.line) for call in clue.python]


_RUN = ("/home/me/run.py:8 in <module>", "", "  6 import kit", "❱ 8 kit.go(3)", "  9", "")


def test_calls_and_the_exception_below_the_frame() -> None:
    (clue,) = _clues(
        _panel(*_RUN, "/v/kit/core.py:21 in go", "", "❱ 21 │   raise ValueError(n)", "  22")
        + "ValueError: 3\n"
    )
    assert clue.kind is ClueKind.EXCEPTION
    assert clue.detail == "ValueError: 3"
    assert _calls(clue) == [("go", "/v/kit/core.py", 21), ("<module>", "/home/me/run.py", 8)]


@pytest.mark.parametrize(
    ("rows", "call"),
    [
        (("/v/lib/kit/core.py:21 in", "__call__"), ("__call__", "/v/lib/kit/core.py", 21)),
        (("/v/lib/a-long-fol", "der/core.py:21 in go"), ("go", "/v/lib/a-long-folder/core.py", 21)),
        ((r"C:\me\core.py:21 in go",), ("go", r"C:\me\core.py", 21)),
        (("in <cell line: 3>:5",), ("<cell line: 3>", "<cell>", 5)),
    ],
)
def test_a_place_is_read_however_it_was_broken(
    rows: tuple[str, ...], call: tuple[str, str, int]
) -> None:
    (clue,) = _clues(_panel(*rows, "", "❱ 21 │   x()", "") + "KeyError: 'a'\n")
    assert _calls(clue) == [call]


def test_variables_in_a_box_of_their_own_are_no_calls() -> None:
    box = ("╭──── locals ────╮", "│ n = /a/b.py:3 in x │", "╰────────────────╯")
    (clue,) = _clues(_panel(*_RUN, *box, "/v/core.py:2 in go", "", "❱ 2 x()", "") + "OSError: no\n")
    assert [call[0] for call in _calls(clue)] == ["go", "<module>"]
    assert clue.detail == "OSError: no"


def test_frames_are_chained_as_plain_tracebacks_are() -> None:
    between = "\nDuring handling of the above exception, another exception occurred:\n\n"
    first, second = _clues(
        _panel(*_RUN) + "KeyError: 'a'\n" + between + _panel(*_RUN) + "ValueError: b\n"
    )
    assert (first.detail, second.detail) == ("KeyError: 'a'", "ValueError: b")
    assert second.follows is Follows.HANDLING


def test_without_its_upper_part_calls_are_read_from_the_arrow_on() -> None:
    text = "".join(map(_row, ("❱ 8 │   sys.exit(cli())", "  9", "", "/v/core.py:7 in main", "")))
    (clue,) = _clues(text)
    assert clue.kind is ClueKind.STACK
    assert _calls(clue) == [("main", "/v/core.py", 7)]
    assert clue.text == "/v/core.py:7 in main"


def test_what_stands_below_a_frame_without_an_edge_is_not_its() -> None:
    top = _edge("╭", "╮", "Traceback (most recent call last)")
    (clue,) = _clues(top + "".join(map(_row, _RUN)) + "ValueError: 3\n[INFO] done\n")
    assert clue.detail == "ValueError: 3"
    assert len(clue.python) == 1


def test_a_box_of_text_is_no_traceback() -> None:
    text = _edge("╭", "╮", "Summary") + _row("/v/core.py:7 in main") + _edge("╰", "╯")
    assert _clues(text) == ()


def test_a_message_on_the_lines_below_is_the_exceptions() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "<string>", line 1, in <module>\n'
        '  File "C:\\p\\Lib\\multiprocessing\\spawn.py", line 122, in spawn_main\n'
        "    exitcode = _main(fd, parent_sentinel)\n"
        "RuntimeError: \n"
        "        An attempt was made to start a process while main is imported\n"
    )
    (clue,) = _clues(text)
    assert clue.detail == (
        "RuntimeError: An attempt was made to start a process while main is imported"
    )
    pool = "concurrent.futures.process.BrokenProcessPool: A process in the process pool was "
    (incident,) = explain_incidents(
        parse_incident_log([(text + pool + "terminated abruptly\n").encode()]), "a.log"
    )
    assert incident.first_death.role.value == "worker"
    assert incident.first_death.cause.kind.value == "python-exception"


def test_an_exception_without_a_message_takes_no_line_of_others() -> None:
    head = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    x()\n'
    for text in (head + "ValueError:\nserver stopped\n", head + "ValueError\n    indented\n"):
        (clue,) = _clues(text)
        assert clue.detail == "ValueError"


def test_quotes_that_a_site_turned_are_quotes() -> None:
    (clue,) = _clues(
        "Traceback (most recent call last):\n"
        "File “/v/kit/core.py”, line 21, in go\nreturn n[3]\n"
        "IndexError: list index out of range\n"
    )
    assert _calls(clue) == [("go", "/v/kit/core.py", 21)]


@pytest.mark.parametrize(
    "above",
    [
        "Task exception was never retrieved\nfuture: <Task finished name='Task-2'>",
        "Exception in callback Pool.take()\nhandle: <Handle Pool.take()>",
        "Exception in Tkinter callback",
        "--- Logging error ---",
        "Exception in thread loader:",
    ],
)
def test_what_a_loop_or_a_thread_reports_may_have_been_survived(above: str) -> None:
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 2, in w\n    x()\n'
    (clue,) = _clues(f"{above}\n{traceback}ValueError: lost\n")
    assert clue.is_caught
