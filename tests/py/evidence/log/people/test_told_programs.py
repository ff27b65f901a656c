"""Who died where somebody tells what he ran."""

from __future__ import annotations

import pytest

from vllm_forensics.evidence.log.scan import parse_incident_log

TITLE = "# Segmentation fault\n\n"
PAGE = "somebody/poolview · issue #12 · open · C++\n# Segmentation fault when I open files\n\n"


def name_in(text: str) -> str | None:
    return next((clue.name for clue in parse_incident_log([text.encode()]).clues), None)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (TITLE + "I get it when I run `./build/pool`, whatever I do.\n", "pool"),
        (TITLE + 'It happens whenever I try to execute "pool_take -n 3 file".\n', "pool_take"),
        (TITLE + "We see it after running ./pool-cli in the folder.\n", "pool-cli"),
        (TITLE + "运行 `./pool` 的时候出现的\n", "pool"),
        (TITLE + "$ doas ./pool --all\nreading\n\nIt ended with a segmentation fault.\n", "pool"),
        (PAGE + "I always see this while running poolview with an empty file.\n", "poolview"),
        (PAGE + "Opened a file from the poolview binary of my own, and it was gone.\n", "poolview"),
        (PAGE.replace("view", "view-qt") + "I opened Poolview, and saw this.\n", "Poolview"),
    ],
)
def test_what_was_run_is_who_died(text: str, name: str) -> None:
    assert name_in(text) == name


@pytest.mark.parametrize(
    "text",
    [
        TITLE + "I get it when I run `import pool` in a new shell.\n",
        TITLE + "I get it when I run `docker run pool` here.\n",
        TITLE + "I get it when I run the pool with my own model.\n",
        PAGE + "My program uses poolview as a library, and running poolview helps.\n",
        PAGE + "I opened poolview from Python, and saw this.\n",
    ],
)
def test_what_is_no_program_is_no_name(text: str) -> None:
    assert name_in(text) is None


def test_a_name_that_is_told_stays() -> None:
    text = TITLE + "When I run `./pool`, the worker segfaults after a while.\n"

    clues = parse_incident_log([text.encode()]).clues

    assert {clue.name for clue in clues} <= {"worker", None}
