"""Which lines of a text a person wrote, and which stand in a fence."""

import pytest

from vllm_forensics.evidence.log.people.page import Page


def test_lines_between_two_marks_stand_in_a_fence_and_so_do_the_marks() -> None:
    page = Page(["It ends so:", "```", "Segmentation fault", "```", "Any idea?"])

    assert [page.is_fenced(at) for at in range(5)] == [False, True, True, True, False]
    assert page.written() == ["It ends so:", "Any idea?"]


@pytest.mark.parametrize("margin", ["", "   ", "\t", "> ", "> > "])
def test_a_fence_may_be_quoted_or_moved_to_the_right(margin: str) -> None:
    page = Page([f"{margin}~~~", f"{margin}Bus error", f"{margin}~~~", "It came back."])

    assert page.written() == ["It came back."]


def test_a_text_that_was_cut_off_within_a_fence_begins_in_it() -> None:
    page = Page(["Aborted (core dumped)", "```", "What can I do?"])

    assert page.written() == ["What can I do?"]


def test_a_fence_that_nobody_closed_reaches_to_the_end() -> None:
    page = Page(["This is what I get every day:", "```", "Killed", "more"])

    assert page.written() == ["This is what I get every day:"]


def test_the_paragraph_above_a_fenced_line_stands_above_its_fence() -> None:
    lines = ["You would see something like", "this in your terminal:", "", "```", "a", "Killed"]
    page = Page([*lines, "```", "Nothing of this is about the other one", "Killed"])

    assert page.paragraph_above(5) == "You would see something like this in your terminal:"
    assert page.paragraph_above(8) == "Nothing of this is about the other one"
    assert page.paragraph_above(0) == ""


def test_a_fence_may_have_more_marks_than_three() -> None:
    page = Page(["````diff", "+```", "+Segmentation fault", "+```", "````"])

    assert page.is_of_patch(2)
