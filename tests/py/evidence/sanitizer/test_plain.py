"""The short way says what the long way says, or nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES

from vllm_forensics.evidence.sanitizer.frames import parse_frame
from vllm_forensics.evidence.sanitizer.lines import logical_lines
from vllm_forensics.evidence.sanitizer.plain import plain_line, read_frame

LINES = sorted(
    {line for name in EXPECTED for line in (SAMPLES / "raw" / name).read_bytes().split(b"\n")}
)
PARTS = (
    *(
        "    ",
        " ",
        "#0 ",
        "#12 ",
        "0x10 ",
        "0xfFf ",
        "in ",
        "pc ",
        "f",
        "a::b",
        "~c",
        "operator new",
    ),
    *(
        "()",
        "(int, char*)",
        "(unsigned long)",
        " const",
        "<int>",
        "(12)",
        " /a/b.c",
        " b.c",
        "//x.c",
    ),
    *(":1", ":0", ":1:0", ":12:3", " (m+0x1)", " (/a/m+0x1f)", "(m+0x1)", " (BuildId: 0a)"),
    *(" <null>", " ??:0", "??", "[0x1]", "+0x1", "==1==", "READ of ", "HINT: ", "=>0x", "&lt;"),
    *(
        "<b>",
        "</b>",
        "[0m",
        "=3D",
        "> ",
        "| ",
        "{",
        "\\n",
        "#012",
        "\t",
        "\r",
        "\0",
        "\x1b[1m",
        "é",
    ),
    *(
        "2026-01-15T08:12:45Z ",
        "[12.5] ",
        "(W pid=1) ",
        "12: ",
        "E   ",
        "Sanitizer: ",
        ";",
        "x" * 9000,
    ),
)
MIXED = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)


def test_every_line_of_the_samples_is_the_same_either_way() -> None:
    plain = [(line, text) for line in LINES if (text := plain_line(line)) is not None]

    assert [line for line, text in plain if logical_lines(line) != [("", text)]] == []
    assert len(plain) > len(LINES) / 3


def test_every_frame_of_the_samples_is_the_same_either_way() -> None:
    frames = [
        text for line in LINES if (text := line.decode("utf-8", "replace").strip())[:1] == "#"
    ]

    assert [text for text in frames if read_frame(text) != parse_frame(text)] == []


@settings(max_examples=1000)
@given(MIXED)
def test_any_line_is_the_same_either_way(text: str) -> None:
    raw = text.encode()

    plain = plain_line(raw)

    assert plain is None or logical_lines(raw) == [("", plain)]


@settings(max_examples=1000)
@given(MIXED)
def test_any_frame_is_the_same_either_way(text: str) -> None:
    frame = f"#1 0x10 in {text}".strip()
    without_pc = f"#1 {text}".strip()

    assert read_frame(frame) == parse_frame(frame)
    assert read_frame(without_pc) == parse_frame(without_pc)
