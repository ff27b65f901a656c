"""Two crashes held against each other."""

from dataclasses import replace

from tests.py.support.images import a_frame
from tests.py.support.reports import null_crash

from vllm_forensics.diagnosis.crash_why import why_crashes, why_parts
from vllm_forensics.diagnosis.signature import signature_of, signature_parts
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer_why import Why, WhySide
from vllm_forensics.model.stack import Frame, Stack


def signed(crash: Crash, *frames: Frame) -> Crash:
    thread = crash.threads[0]
    calls = frames or thread.stack.frames
    parts = signature_parts(
        crash.signal,
        FaultKind.NULL_DEREFERENCE,
        tuple(calls),
        program=crash.program,
        builds={module.path: module.build_id for module in crash.modules},
    )
    return replace(
        crash,
        signature=signature_of(parts),
        signature_parts=parts,
        threads=(replace(thread, fault_index=0, stack=Stack(tid=1, frames=tuple(calls))),),
    )


def side(crash: Crash) -> WhySide:
    return WhySide(asked=crash.core, signature=crash.signature, core=crash.core)


def why(one: Crash, other: Crash) -> Why:
    return why_crashes((side(one), one), (side(other), other))


def dropped(answer: Why) -> dict[str, tuple[str | None, str | None]]:
    return {pair.name: (pair.one, pair.other) for pair in answer.dropped}


def test_a_stray_pointer_is_one_bug_and_what_differs_is_said() -> None:
    one = signed(null_crash())
    elsewhere = replace(one.fault, kind=FaultKind.WILD_POINTER, address=0x7000, message=None)
    other = replace(one, pid=99, fault=elsewhere)

    answer = why(one, other)

    assert answer.same
    assert dropped(answer) == {
        "process": ("42", "99"),
        "kind of the fault": ("null-dereference", "wild-pointer"),
        "address": ("0x48", "0x7000"),
    }
    assert answer.explanation == (
        f"One bug by the signature: all {len(answer.parts)} parts agree. What differs does not "
        "count: process, kind of the fault, address."
    )


def test_lines_and_builds_differ_without_counting() -> None:
    one = signed(null_crash(), a_frame(0, "f", line=1), a_frame(1, "g", line=2))
    other = signed(null_crash(), a_frame(0, "f", line=5), a_frame(1, "g", line=6))
    other = replace(
        other, modules=tuple(replace(module, build_id="ff") for module in other.modules)
    )

    answer = why(one, other)

    assert answer.same
    assert dropped(answer)["line in f"] == ("engine.cpp:1", "engine.cpp:5")
    assert "build of engine" in dropped(answer)
    assert "lines, build of engine" in answer.explanation


def test_the_frame_that_differs_is_named() -> None:
    one = signed(null_crash(), a_frame(0, "f"), a_frame(1, "g"))
    other = signed(null_crash(), a_frame(0, "f"), a_frame(1, "h"))

    answer = why(one, other)

    assert not answer.same
    assert [pair.name for pair in answer.parts if not pair.agrees] == ["frame 2"]
    assert "frame 2: g in the first, h in the second" in answer.explanation


def test_what_a_crash_lacks_is_a_doubt() -> None:
    one = signed(null_crash(), a_frame(0, "f"))
    nameless = signed(null_crash(), a_frame(0, None))
    shallow = replace(signed(null_crash(), a_frame(0, "g")), depth=Depth.NOTES)

    assert "frames without names, of engine" in why(one, nameless).explanation
    assert "read without its calls" in why(one, shallow).explanation
    assert "without names" not in why(nameless, nameless).explanation


def test_parts_alone_can_be_compared() -> None:
    one, other = signed(null_crash(), a_frame(0, "f")), signed(null_crash(), a_frame(0, "g"))

    answer = why_parts((side(one), one.signature_parts), (side(other), other.signature_parts))

    assert not answer.same
    assert answer.dropped == ()
