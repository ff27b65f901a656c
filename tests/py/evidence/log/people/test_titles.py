"""A page whose title is a death's name tells of none; a log that begins with it does."""

import pytest

from vllm_forensics.evidence.log.scan import parse_incident_log


@pytest.mark.parametrize(
    "text",
    [
        "Bus error\n\nIn computing, a bus error is a fault that the hardware raises.\n",
        "Segmentation fault\n\nA segmentation fault (in short segfault) happens where\n",
        "Floating point exception\nWhat is it? A floating point exception is raised when\n",
    ],
)
def test_a_page_that_explains_its_title_is_no_death(text: str) -> None:
    assert parse_incident_log([text.encode()]).clues == ()


@pytest.mark.parametrize(
    "text",
    [
        "Bus error\nI get this whenever I import the module.\n",
        "Bus error (core dumped)\nA bus error is what I get.\n",
        "$ python pool.py\nstart\nstart\nBus error\nA bus error is what I get.\n",
    ],
)
def test_a_death_on_the_first_lines_is_one(text: str) -> None:
    (clue,) = parse_incident_log([text.encode()]).clues

    assert clue.signal == "SIGBUS"
