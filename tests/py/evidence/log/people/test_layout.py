"""What is made up, and what shape a lesson has."""

import pytest

from vllm_forensics.evidence.log.people.layout import invented_in, is_invented, weight_of_layout


@pytest.mark.parametrize(
    "text",
    [
        "Killed process 12345 (app)",
        "[12345.678901] app[23456]: segfault at 0",
        "#0  0x00007f1234567890 in take ()",
        "addr=0xdeadbeef",
    ],
)
def test_digits_in_their_order_are_invented(text: str) -> None:
    assert is_invented(text)


@pytest.mark.parametrize(
    "text",
    [
        "Killed process 31245 (app)",
        "#0  0x00007f3aa1c3ad73 in take ()",
        "app[1299]: segfault at 20 ip 00007f3aa1c3ad73",
        "version 2.12345",
        "1.1234 s",
    ],
)
def test_what_a_machine_printed_is_not(text: str) -> None:
    assert not is_invented(text)


def test_places_for_the_reader_are_counted_once() -> None:
    assert invented_in(["kubectl logs <pod-name>", "kubectl top <pod-name>", "kill XXXX"]) == 2


def test_sections_definitions_and_sentences_have_weight() -> None:
    lesson = [
        "## What it is",
        "A segmentation fault (or segfault) is an error. It has a name. It is old. It has 11.",
        "## What to do",
    ]
    report = ["The pool ends early", "It is so since the update."]

    assert weight_of_layout(lesson, lesson) == 4
    assert weight_of_layout(report, report) == 0
