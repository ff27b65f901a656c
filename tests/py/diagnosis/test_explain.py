"""The whole judgement: the sentences hold the facts, whatever the functions are called."""

import dataclasses

import pytest
from tests.py.support.images import (
    CODE,
    HEAP,
    PID,
    SP,
    STACK,
    FakeImage,
    a_frame,
    a_process,
    a_signal_frame,
    crash_image,
    libc_frame,
    segv,
    sent_by_self,
    signal_frame_marker,
    words,
)

from vllm_forensics.diagnosis.explain import diagnose
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.finding import Diagnosis, FaultKind
from vllm_forensics.model.process import Signal, Symbol
from vllm_forensics.model.stack import SourceLine, Stack, Variable

LOAD = "48 8b 47 48"
NULL_THIS = (Variable(name="this", value="0x0", is_argument=True),)


def judged(image: FakeImage) -> Diagnosis:
    diagnosis = diagnose(image)
    assert diagnosis is not None
    return diagnosis


def null_member(member: str = "Block::id", caller: str = "copy_blocks") -> FakeImage:
    frames = (
        a_frame(0, member, variables=NULL_THIS),
        a_frame(1, caller, pc=CODE + 0x400, file="/src/cache.cpp", line=88),
    )
    return crash_image(LOAD, signal=segv(0x48), frames=frames)


def test_no_threads_no_judgement() -> None:
    empty = FakeImage(process=a_process(), signal=Gap(what="none"), threads=())

    assert diagnose(empty) is None


def test_a_null_object_blames_the_caller_by_place() -> None:
    diagnosis = judged(null_member())

    assert diagnosis.finding.kind is FaultKind.NULL_DEREFERENCE
    assert (
        "It happened in Block::id, called on a null object by copy_blocks (cache.cpp:88)."
        in diagnosis.explanation
    )
    assert diagnosis.instruction is not None
    assert diagnosis.instruction.text == "mov rax, qword ptr [rdi + 0x48]"


def test_the_facts_do_not_depend_on_names() -> None:
    usual, renamed = judged(null_member()), judged(null_member("A::b", "c"))

    assert renamed.finding == usual.finding
    assert renamed.explanation == usual.explanation.replace("Block::id", "A::b").replace(
        "copy_blocks", "c"
    )


def test_a_const_member_on_null_is_known_by_its_symbol_without_debug_information() -> None:
    symbol = Symbol(name="_ZNK5Block2idEv", address=CODE, size=4)
    frames = (a_frame(0, "Block::id", file=None), a_frame(1, "caller", pc=CODE + 0x400))
    image = crash_image(LOAD, signal=segv(0x48), frames=frames)
    const = dataclasses.replace(image, functions=(symbol,))
    other = dataclasses.replace(
        image, functions=(dataclasses.replace(symbol, name="_ZN5Block2idEv"),)
    )

    blamed, kept = judged(const).culprit, judged(other).culprit

    assert blamed is not None
    assert kept is not None
    assert (blamed.function, kept.function) == ("caller", "Block::id")


def test_the_origin_is_a_sentence() -> None:
    find = Symbol(name="_ZN4vllm4findEi", address=CODE + 0x800, size=16)
    call = "e8" + (find.address - CODE - 5).to_bytes(4, "little").hex()
    image = crash_image(
        call + "48 8b 40 48",
        at=5,
        signal=segv(0x48),
        functions=(find,),
        places={CODE: SourceLine(file="/src/cache.cpp", line=84)},
    )

    explanation = judged(image).explanation

    assert "Null was returned by vllm::find at cache.cpp:84." in explanation


def test_what_is_only_likely_is_said_to_be() -> None:
    image = crash_image("ff d2 74 00 48 8b 00", at=4, signal=segv(0))  # call rdx; je; load

    assert "Probably null was returned by an indirect call." in judged(image).explanation


def test_a_fault_inside_the_allocator_points_elsewhere() -> None:
    frames = (libc_frame(0, "_int_malloc"), libc_frame(1, "malloc"), a_frame(2, "grow"))
    image = crash_image(LOAD, signal=segv(0x48), frames=frames)

    assert "damaged earlier and elsewhere" in judged(image).explanation


@pytest.mark.parametrize("name", ["mallocator", "work", "free_blocks", "reallocate"])
def test_own_code_that_only_sounds_like_the_allocator_is_not_taken_for_it(name: str) -> None:
    image = crash_image(LOAD, signal=segv(0x48), frames=(a_frame(0, name),))

    assert "inside the allocator" not in judged(image).explanation


def test_a_handler_that_ended_it_with_another_signal_is_told() -> None:
    fault = a_signal_frame(segv(0x48), pc=CODE)
    frames = (
        libc_frame(0, "abort"),
        a_frame(1, "on_crash", pc=CODE + 0x900),
        signal_frame_marker(2),
        a_frame(3, "work"),
    )
    image = crash_image(
        LOAD, pc=CODE + 0x900, signal=sent_by_self(6), frames=frames, handler_frames=(fault,)
    )

    diagnosis = judged(image)

    assert diagnosis.reraised_by == "on_crash"
    assert diagnosis.context_pc == CODE
    assert "The signal handler on_crash then ended it with SIGABRT" in diagnosis.explanation


def test_a_handler_that_sent_the_same_signal_again_is_told() -> None:
    fault = a_signal_frame(segv(0x48), pc=CODE)
    image = crash_image(LOAD, pc=CODE + 0x900, signal=sent_by_self(11), handler_frames=(fault,))

    assert "sent the signal a second time" in judged(image).explanation


def test_a_recursion_names_its_cycle_and_its_depth() -> None:
    frames = tuple(a_frame(at, ("even", "odd")[at % 2], pc=CODE + at % 2) for at in range(20))
    stack = words(CODE) * 1000
    image = crash_image(
        "53",
        registers={"rsp": STACK},
        signal=segv(STACK - 8, 2),
        frames=frames,
        memory={STACK: stack.ljust(0x2_1000, b"\0")},
    )

    diagnosis = judged(image)

    assert diagnosis.finding.kind is FaultKind.STACK_OVERFLOW
    assert "even → odd called itself: 1,000 times on this stack." in diagnosis.explanation


def test_int3_is_shown_at_its_own_address() -> None:
    diagnosis = judged(crash_image("cc 90", at=1, signal=Signal(number=5, code=128)))

    assert diagnosis.context_pc == CODE
    assert diagnosis.instruction is not None
    assert diagnosis.instruction.text == "int3"


def test_an_abort_has_no_faulting_instruction() -> None:
    diagnosis = judged(crash_image(LOAD, signal=sent_by_self(6)))

    assert diagnosis.instruction is None
    assert "The nearest call in the program's own code is work" in diagnosis.explanation


def test_a_culprit_without_lines_gets_the_command_that_finds_them() -> None:
    frames = (a_frame(0, "work", pc=CODE, file=None),)

    steps = judged(crash_image(LOAD, signal=segv(0x48), frames=frames)).next_steps

    assert any("addr2line -Cfie /opt/app/engine 0x1000" in step for step in steps)


def test_an_unknown_cause_suggests_the_python_stack() -> None:
    steps = judged(crash_image("90", signal=Signal(number=10, code=0))).next_steps

    assert any(step.startswith("PYTHONFAULTHANDLER=1 COMMAND ") for step in steps)


def test_a_thread_that_was_not_unwound_is_still_judged() -> None:
    image = dataclasses.replace(
        crash_image(LOAD, registers={"rdi": HEAP, "rsp": SP}, signal=segv(0x48)), stacks={}
    )

    diagnosis = judged(image)

    assert diagnosis.finding.kind is FaultKind.NULL_DEREFERENCE
    assert diagnosis.culprit is None


def test_the_same_image_gives_the_same_answer() -> None:
    image = dataclasses.replace(null_member(), stacks={PID: Stack(tid=PID, frames=())})

    assert diagnose(image) == diagnose(image)
