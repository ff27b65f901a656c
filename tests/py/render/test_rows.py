"""Text beside labels: what may be copied is never broken, what is read is."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from vllm_forensics.render.rows import Rows, advice, command, labelled, paragraph, path, steps
from vllm_forensics.render.terminal import TerminalStyle, render_parts

LONG = "/srv/crashes/" + "a-rather-long-name." * 12 + "core.4242"
SPACED = f"/srv/the crashes of/{'a folder with blanks ' * 8}/core.4242"
COMMANDS = (
    f"forensics core --gdb {LONG}    # look around by hand, everything loaded",
    f"forensics core {shlex.quote(SPACED)}",
    "PYTHONFAULTHANDLER=1 COMMAND    # every process then says where it died, "
    + "and"
    + " more" * 30,
    "dmesg -T | grep -iE 'killed process|oom-kill'",
)


def lines(part: Rows, width: int) -> list[str]:
    return render_parts([part], TerminalStyle(width=width)).splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_command_is_one_line_however_narrow_the_terminal(width: int) -> None:
    shown = lines(steps(COMMANDS, 8), width)

    assert shown == [f"{'Next' if not n else '':8}{one}" for n, one in enumerate(COMMANDS)]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_shell_takes_a_path_with_blanks_from_the_screen(width: int) -> None:
    [_, line, *_] = lines(steps(COMMANDS, 8), width)

    assert shlex.split(line) == ["forensics", "core", SPACED]


@pytest.mark.parametrize("place", [LONG, SPACED])
def test_a_path_within_a_text_stays_whole(place: str) -> None:
    said = path(place) + Text(" is cut off: 25 of 33 MB were written before the disk was full")

    shown = lines(labelled("error", [said], 8), 60)

    assert shown[0] == f"error   {place}"
    assert len(shown) > 1
    assert all(len(line) <= 60 for line in shown[1:])


def test_prose_is_broken_between_words_and_hangs_below_its_beginning() -> None:
    prose = "the first own frame above is the place to look; the rest of it is in the JSON"

    shown = lines(steps([prose], 8), 50)

    assert [line[:8] for line in shown] == ["Next    ", " " * 8]
    assert " ".join(line[8:] for line in shown) == prose


def test_a_label_that_is_too_long_for_a_margin_has_a_line_of_its_own() -> None:
    table = Rows(gap=1)
    table.add_row("short", "one")
    table.add_row(LONG, "two")

    assert lines(table, 80) == ["short one", LONG, "      two"]


def test_indentation_is_kept_by_the_lines_that_follow() -> None:
    assert lines(paragraph("  one two three"), 20) == ["  one two three"]
    assert lines(paragraph("  first second third fourth"), 20) == [
        "  first second third",
        "  fourth",
    ]


def test_colours_do_not_move_the_breaks() -> None:
    text = Text("one ", style="quiet").append("two three ", style="mark").append("four " * 20)
    style = TerminalStyle(width=40, color=True)

    colored = render_parts([paragraph(text)], style)

    assert "\x1b[" in colored
    assert max(len(line) for line in lines(paragraph(text), 40)) <= 40


@pytest.mark.parametrize(
    ("text", "is_typed"),
    [
        ("find who left the pointer null: a failed lookup, a reset(), a moved-from owner", False),
        ("clamp the value to the type's range before the cast", False),
        ("py-spy dump --pid PID", True),
        ("forensics core CORE tells the pointer's value, where a core was kept", True),
        ("lscpu | grep flags", True),
        ("NCCL_DEBUG=INFO COMMAND", True),
        ("coredumpctl info PID", True),
        ("minidump-stackwalk FILE SYMBOLS prints its stacks", True),
        ("minidump-2-core it > core", True),
        ("rename one, or put it into an anonymous namespace", False),
    ],
)
def test_what_may_be_typed_is_told_from_prose(text: str, is_typed: bool) -> None:
    assert advice(text).no_wrap is is_typed


@given(text=st.text(max_size=300), width=st.integers(20, 120))
def test_nothing_is_lost_and_no_word_is_broken(text: str, width: int) -> None:
    text = "".join(letter if letter.isprintable() else " " for letter in text)

    shown = lines(paragraph(text), width)

    assert " ".join(shown).split() == text.split()


@given(text=st.text(max_size=300).filter(str.isprintable), width=st.integers(20, 120))
def test_a_command_comes_out_as_it_went_in(text: str, width: int) -> None:
    [shown] = lines(labelled("Next", [command(text)], 8), width) or [""]

    assert shown == f"Next    {text}".rstrip()
