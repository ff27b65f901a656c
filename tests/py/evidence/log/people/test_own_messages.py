"""An exception's own words may explain and advise: they are no lesson of who pasted them."""

from vllm_forensics.evidence.log.people.page import Page

_ADVICE = [
    "RuntimeError: ",
    "        You have to guard the main module, before you can start a process in it.",
    "",
    "            if __name__ == '__main__':",
    "    To learn more, read how modules are imported.",
    "If you see it too, you should say so below.",
]


def test_the_lines_of_a_message_are_not_written_by_a_person() -> None:
    assert Page(_ADVICE).written() == [_ADVICE[0], _ADVICE[-1]]


def test_a_heading_with_its_message_takes_no_lines_below_it() -> None:
    lines = ["ValueError: no", "    You have to guard the main module."]

    assert Page(lines).written() == lines
