"""Somebody asks the shell for the last status: the line below answers."""

import pytest

from vllm_forensics.evidence.log.scan import parse_incident_log


@pytest.mark.parametrize(
    ("text", "signal", "status"),
    [
        ("$ python pool.py\n$ echo $?\n139\n", "SIGSEGV", 139),
        ("root@node1:/srv# python3 pool.py; echo $?\n\n134\n", "SIGABRT", 134),
        ("> echo $status\n-11\n", "SIGSEGV", -11),
        ("PS C:\\app> $LASTEXITCODE\n-1073741819\n", "SIGSEGV", None),
        ("C:\\app>echo %ERRORLEVEL%\n-1073741795\n", "SIGILL", None),
    ],
)
def test_a_deadly_status_below_the_question_is_read(
    text: str, signal: str, status: int | None
) -> None:
    (clue,) = parse_incident_log([text.encode()]).clues

    assert (clue.source, clue.signal, clue.exit) == ("the shell", signal, status)
    assert clue.of_another


@pytest.mark.parametrize(
    "text",
    [
        "$ echo $?\n1\n",
        "$ echo $?\n0\n139\n",
        "$ echo $?\n139 tests passed\n",
        "Type `echo $?` to see the status\n139\n",
        "$ echo $?",
    ],
)
def test_other_answers_tell_of_no_death(text: str) -> None:
    assert parse_incident_log([text.encode()]).clues == ()
