"""The line that the author wrote."""

from dataclasses import replace

from tests.py.support.images import CODE, a_frame, crash_image, segv

from vllm_forensics.diagnosis.source_line import at_own_line
from vllm_forensics.model.stack import FrameKind, SourceLine

HEADER = "/usr/include/c++/12/bits/stl_vector.h"
CODE_OF_TWO = "90 48 8b 07"


def test_a_line_in_a_system_header_is_replaced_by_the_nearest_own_one_before() -> None:
    image = crash_image(
        CODE_OF_TWO, at=1, signal=segv(0), places={CODE: SourceLine(file="/src/e.cpp", line=3)}
    )
    frame = a_frame(0, "work", pc=CODE + 1, file=HEADER, line=1123)

    found = at_own_line(image, frame, CODE + 1)

    assert (found.file, found.line) == ("/src/e.cpp", 3)


def test_an_own_line_is_kept() -> None:
    image = crash_image(
        CODE_OF_TWO, at=1, signal=segv(0), places={CODE: SourceLine(file="/src/e.cpp", line=3)}
    )
    frame = a_frame(0, "work", pc=CODE + 1)

    assert at_own_line(image, frame, CODE + 1) is frame


def test_an_inlined_call_keeps_its_line() -> None:
    image = crash_image(
        CODE_OF_TWO, at=1, signal=segv(0), places={CODE: SourceLine(file="/src/e.cpp", line=3)}
    )
    frame = replace(a_frame(0, "at", pc=CODE + 1, file=HEADER), kind=FrameKind.INLINED)

    assert at_own_line(image, frame, CODE + 1) is frame


def test_a_trap_is_shown_at_its_own_instruction() -> None:
    image = crash_image(
        "cc 90", at=1, signal=segv(0), places={CODE: SourceLine(file="engine.cpp", line=5)}
    )
    frame = a_frame(0, "work", pc=CODE + 1, line=6)

    found = at_own_line(image, frame, CODE)

    assert (found.file, found.line) == ("/src/engine.cpp", 5)


def test_without_any_own_line_the_frame_is_kept() -> None:
    image = crash_image(CODE_OF_TWO, at=1, signal=segv(0))
    frame = a_frame(0, "work", pc=CODE + 1, file=HEADER)

    assert at_own_line(image, frame, CODE + 1) is frame
