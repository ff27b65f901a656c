"""The first fault, with handlers undone, and nothing undone that is not a handler's doing."""

import pytest
from tests.py.support.images import (
    CODE,
    PID,
    SP,
    FakeImage,
    a_process,
    a_signal_frame,
    context_of,
    crash_image,
    general_protection,
    segv,
    sent_by_self,
)

from vllm_forensics.diagnosis.context import fault_context
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.process import Signal

FAULT_PC = CODE + 0x100
ORIGINAL = segv(0x48)


def test_without_threads_there_is_no_context() -> None:
    image = FakeImage(process=a_process(), signal=Gap(what="none"), threads=())

    assert fault_context(image) is None


def test_a_fault_of_the_processor_is_taken_as_it_is() -> None:
    image = crash_image("90", registers={"rdi": 7}, signal=ORIGINAL)

    context = context_of(image)

    assert (context.signal, context.delivered, context.pc) == (ORIGINAL, ORIGINAL, CODE)
    assert context.registers["rdi"] == 7
    assert context.frame is None


@pytest.mark.parametrize("number", [6, 11], ids=["it aborts", "SA_NODEFER: it raises at once"])
def test_a_fault_behind_a_handler_that_sent_a_signal_is_undone(number: int) -> None:
    frame = a_signal_frame(ORIGINAL, pc=FAULT_PC, registers={"rdi": 9})
    image = crash_image("90", signal=sent_by_self(number), handler_frames=(frame,))

    context = context_of(image)

    assert (context.signal, context.pc, context.sp) == (ORIGINAL, FAULT_PC, SP)
    assert context.delivered == sent_by_self(number)
    assert context.registers["rdi"] == 9
    assert context.is_page_fault


def test_of_two_handlers_faults_the_oldest_is_the_cause() -> None:
    second = a_signal_frame(segv(0x99), pc=CODE + 8, address=SP - 0x800)
    first = a_signal_frame(ORIGINAL, pc=FAULT_PC, address=SP - 0x100)
    image = crash_image("90", signal=sent_by_self(6), handler_frames=(second, first))

    assert context_of(image).signal == ORIGINAL


def test_a_real_fault_inside_another_signals_handler_is_not_undone() -> None:
    usr1 = Signal(number=10, code=0, sender_pid=7)
    frame = a_signal_frame(usr1, pc=FAULT_PC, trap=0)
    image = crash_image("90", signal=ORIGINAL, handler_frames=(frame,))

    context = context_of(image)

    assert (context.pc, context.frame) == (CODE, None)


def test_an_older_fault_does_not_replace_the_one_that_killed() -> None:
    handled = a_signal_frame(segv(0x10), pc=FAULT_PC)
    image = crash_image("90", signal=ORIGINAL, handler_frames=(handled,))

    assert context_of(image).signal == ORIGINAL


@pytest.mark.parametrize(
    "interrupting",
    [
        Signal(number=10, code=0, sender_pid=7),
        Signal(number=14, code=128),
        Signal(number=0, code=0),
        Signal(number=11, code=0, sender_pid=7),
    ],
)
def test_the_frame_of_an_asynchronous_signal_is_no_fault(interrupting: Signal) -> None:
    frame = a_signal_frame(interrupting, pc=FAULT_PC, trap=0)
    image = crash_image("90", signal=sent_by_self(6), handler_frames=(frame,))

    context = context_of(image)

    assert (context.signal, context.pc) == (sent_by_self(6), CODE)


def test_an_abort_that_a_handler_sends_again_is_undone() -> None:
    frame = a_signal_frame(sent_by_self(6), pc=FAULT_PC, trap=0)
    image = crash_image("90", signal=sent_by_self(6), handler_frames=(frame,))

    assert context_of(image).pc == FAULT_PC


def test_a_fault_wins_over_a_younger_abort() -> None:
    abort = a_signal_frame(sent_by_self(6), pc=CODE + 8, trap=0, address=SP - 0x800)
    fault = a_signal_frame(ORIGINAL, pc=FAULT_PC, address=SP - 0x100)
    image = crash_image("90", signal=sent_by_self(6), handler_frames=(abort, fault))

    assert context_of(image).signal == ORIGINAL


def test_only_vector_14_is_a_page_fault() -> None:
    frame = a_signal_frame(general_protection(), trap=13)
    image = crash_image("90", signal=sent_by_self(11), handler_frames=(frame,))

    assert not context_of(image).is_page_fault


def test_a_core_without_a_signal_has_number_0() -> None:
    image = crash_image("90", signal=ORIGINAL)
    silent = FakeImage(**(vars(image) | {"signal": Gap(what="no siginfo")}))

    context = context_of(silent)

    assert (context.signal.number, context.thread.tid) == (0, PID)
