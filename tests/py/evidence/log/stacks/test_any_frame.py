"""Frames in forms that no table knows."""

import pytest

from vllm_forensics.evidence.log.stacks.any_frame import any_frame, without_prefix

FRAMES = {
    "[0x5581c0de1234] ../src/pool.c:88 take": ("take", None, None),
    "[Callstack]  03  0x00005581c0de1234  ns::Pool::take(int) [C:/src/pool.cpp, line 88]": (
        "ns::Pool::take(int)",
        None,
        None,
    ),
    "0x00007f1be0001234 libpool.so!ns::Pool::take(int) const [/src/pool.cpp:88]": (
        "ns::Pool::take",
        "libpool.so",
        None,
    ),
    "2. ns::Pool::take(int) const @ 0x1234 in /usr/bin/serve": (
        "ns::Pool::take(int) const",
        "/usr/bin/serve",
        None,
    ),
    "1. serve(ns::Pool::take(int) const+0x27) [0x1234567]": (
        "ns::Pool::take(int) const",
        "serve",
        "0x27",
    ),
    "#3 0x5581c0de1234 (/opt/app/serve+0x1234)": (None, "/opt/app/serve", "0x1234"),
    " 0  libpool.so + 0x705ac": (None, "libpool.so", "0x705ac"),
    "4: ns::Pool::take(int)": ("ns::Pool::take(int)", None, None),
}
NO_FRAMES = (
    "1. Restart the server",
    "2. Buffer overflow: a program writes",
    "take(int)",
    "12 workers are up",
    "  r8: 00000000beeddead  r9: 00000000beeddead",
    "3) install the package (optional)",
    "#42 fixes the pool",
)


@pytest.mark.parametrize(("text", "expected"), FRAMES.items())
def test_a_frame_is_read_by_its_form(
    text: str, expected: tuple[str | None, str | None, str | None]
) -> None:
    found = any_frame(text)

    assert found is not None
    assert (found["function"], found["module"], found["offset"]) == expected


@pytest.mark.parametrize("text", NO_FRAMES)
def test_a_lists_item_is_no_frame(text: str) -> None:
    assert any_frame(text) is None


def test_a_loggers_prefix_is_what_two_lines_share() -> None:
    death = "2026.01.15 08:12:45.123 [ 4242 ] {} <Fatal> Daemon: Received signal 11"
    frame = "2026.01.15 08:12:45.456789 [ 42 ] {} <Fatal> Daemon: 2. ns::f() @ 0x1234 in /bin/serve"

    assert without_prefix(death, frame) == "2. ns::f() @ 0x1234 in /bin/serve"


@pytest.mark.parametrize("text", ["", "Received signal 11", "nothing alike"])
def test_without_a_prefix_nothing_is_taken(text: str) -> None:
    assert without_prefix("Received signal 11", text) is None


@pytest.mark.parametrize(
    "line",
    [
        "0x18ca4a000 - 0x18cf8ffff com.example.Pool (6.9) <8e1809ff> /System/Library/Pool",
        "       0x108a5b000 -        0x108a5cff7  org.example.pool (2.7) <616F3E94> /opt/pool",
        "7f1be0000000-7f1be0021000 r-xp 00000000 08:06 1901460 /usr/lib/libpool.so",
    ],
)
def test_a_mapping_is_no_frame(line: str) -> None:
    assert any_frame(line) is None
