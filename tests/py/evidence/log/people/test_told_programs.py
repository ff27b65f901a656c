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
        (TITLE + "运行pool.py的时候出现了这个错误信息\n", "pool.py"),
        (TITLE + "I get it whenever I run src/pool.py on this machine.\n", "pool.py"),
        (TITLE + "$ doas ./pool --all\nreading\n\nIt ended with a segmentation fault.\n", "pool"),
        (TITLE + "To reproduce:\n\n`poetry run python take.py --all`\n", "python"),
        (TITLE + "Do this:\n```\nPOOL=1 ./bin/pool --all\n```\n", "pool"),
        (TITLE + "It is\n$ POOL_TRACE=1 pool start --all\n", "pool"),
        (
            "# Exit code 137\n\nWe saw the pool container was terminated with exit code 137.\n",
            "pool",
        ),
        ("# Bug\n\nIt causes Poolview core dump on every start.\n", "Poolview"),
        (PAGE + "I always see this while running poolview with an empty file.\n", "poolview"),
        (PAGE + "Opened a file from the poolview binary of my own, and it was gone.\n", "poolview"),
        (TITLE + "The command I run is: ./pool_crack a 4.\n", "pool_crack"),
        (TITLE + "It happens always.\n\nApplication: poolview\nVersion: 2.1\n", "poolview"),
        (
            PAGE.replace("view", "view.d") + "The poolview is stuck then, and I end it.\n",
            "poolview",
        ),
        (TITLE + "1. Open Poolview\n2. Wait, and it is gone\n", "Poolview"),
        (PAGE.replace("view", "view-qt") + "I opened Poolview, and saw this.\n", "Poolview"),
    ],
)
def test_what_was_run_is_who_died(text: str, name: str) -> None:
    assert name_in(text) == name


@pytest.mark.parametrize(
    "text",
    [
        TITLE + "I get it when I run `import pool` in a new shell.\n",
        TITLE + "I get it when I run `docker build pool` here.\n",
        TITLE + "I get it after\n```\npython setup.py install\njava -version\n```\n",
        TITLE + "I get it when I run the pool with my own model.\n",
        TITLE + "1. Open Settings\n2. Wait\n",
        TITLE + "I get it when I run take_all.\n\npool.take_all()\n",
        PAGE + "My program uses poolview as a library, and running poolview helps.\n",
        PAGE + "I opened poolview from Python, and saw this.\n",
        TITLE + "It comes once I use unite.\n\nunite is a list.\n",
    ],
)
def test_what_is_no_program_is_no_name(text: str) -> None:
    assert name_in(text) is None


def test_in_a_report_a_plain_sentence_names_who_crashed() -> None:
    text = "# Crash while opening a file\n\npoolview crashes while it loads the file.\n"
    (*_, clue) = parse_incident_log([f'{text}\n"free(): invalid size" is visible\n'.encode()]).clues

    assert (clue.name, clue.is_told) == ("poolview", True)


def test_whom_a_sentence_says_crashed_is_who_a_nameless_stack_is_of() -> None:
    stack = (
        "#0  0x00007f1b2c3d4e5f in raise () from /lib64/libc.so.6\n"
        "#1  0x00007f1b2c3d4e6f in abort () from /lib64/libc.so.6\n"
        "#2  0x00007f1b2c3d4e7f in take () from /opt/libpool.so\n"
    )

    assert name_in(f"We see a core dump on the server once a day.\n{stack}") == "server"
    assert name_in(f"The server got a core dump, whatever we did:\n{stack}") == "server"
    assert name_in(f"Here my command is `python take.py --all=yes`.\n{stack}") == "python"
    assert name_in(f"The stack is this, from a machine of ours:\n{stack}") is None


def test_of_what_was_run_a_parent_tells_another_end() -> None:
    text = "$ ./run-all.sh\nstarting\nERROR: process exited with signal 11\n"

    assert name_in(text) is None


def test_a_title_tells_where_the_heap_was_found_damaged() -> None:
    text = '# pool::Cache::take() leading to "double free or corruption (out)"\n\nIt is rare.\n'

    (clue,) = parse_incident_log([text.encode()]).clues

    assert [call.function for call in clue.native] == ["pool::Cache::take"]


def test_a_name_that_is_told_stays() -> None:
    text = TITLE + "When I run `./pool`, the worker segfaults after a while.\n"

    clues = parse_incident_log([text.encode()]).clues

    assert {clue.name for clue in clues} <= {"worker", None}
