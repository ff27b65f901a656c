"""Signals that somebody else sent, and what is left when no rule can prove anything."""

from dataclasses import replace

import pytest
from tests.py.support.images import CODE, PID, SP, context_of, crash_image, segv, sent_by_self

from vllm_forensics.diagnosis.outside import external_signal, unknown
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.process import Signal, SignalFrame


@pytest.mark.parametrize(
    ("signal", "sender"),
    [
        (Signal(number=6, code=0, sender_pid=7), "process 7"),
        (Signal(number=15, code=-1, sender_pid=7), "process 7"),
        (Signal(number=11, code=0, sender_pid=0), "outside this pid namespace"),
        (Signal(number=3, code=128), "the terminal"),
    ],
)
def test_the_sender_is_named(signal: Signal, sender: str) -> None:
    image = crash_image("90", signal=signal)

    finding = external_signal(image, context_of(image))

    assert finding is not None
    assert finding.kind is FaultKind.EXTERNAL_SIGNAL
    assert sender in finding.summary


@pytest.mark.parametrize(
    ("code", "rax", "is_outside"),
    [
        (b"\x0f\x05", (1 << 64) - 4, True),  # syscall, -EINTR
        (b"\x0f\x05", 0, False),  # the program's own tgkill
        (b"\x90\x90", (1 << 64) - 4, False),
    ],
)
@pytest.mark.parametrize("number", [6, 11])
def test_what_interrupts_a_system_call_comes_from_outside(
    code: bytes, rax: int, is_outside: bool, number: int
) -> None:
    waiting = SignalFrame(
        address=SP + 64,
        signal=Signal(number=0, code=0),
        registers={"rax": rax},
        pc=CODE + 2,
        sp=SP + 1024,
        trap_number=0,
        error_code=0,
    )
    image = crash_image("90", signal=sent_by_self(number), memory={CODE: code})
    image = replace(image, handler_frames=(waiting,))

    finding = external_signal(image, context_of(image))

    assert (finding is not None) is is_outside
    assert finding is None or "waited in a system call" in finding.summary


@pytest.mark.parametrize(
    "signal", [sent_by_self(6), Signal(number=11, code=0, sender_pid=PID), segv(0)]
)
def test_what_the_program_did_to_itself_is_not_external(signal: Signal) -> None:
    image = crash_image("90", signal=signal)

    assert external_signal(image, context_of(image)) is None


@pytest.mark.parametrize(
    ("signal", "words"),
    [
        (sent_by_self(10), "sent the signal to itself"),
        (Signal(number=0, code=0), "does not say which signal"),
        (Signal(number=31, code=1), "cause could not be established"),
        (Signal(number=19, code=0), "No crash: this core was taken of a living process"),
    ],
)
def test_unknown_says_what_is_not_known(signal: Signal, words: str) -> None:
    image = crash_image("90", signal=signal)

    finding = unknown(image, context_of(image))

    assert finding.kind is FaultKind.UNKNOWN
    assert words in finding.summary


def test_an_earlier_fault_is_denied_only_where_the_stack_can_be_read() -> None:
    lost = crash_image("90", signal=sent_by_self(10))
    whole = crash_image("90", signal=sent_by_self(10), memory={SP: bytes(64)})

    assert "earlier fault cannot be known: no stack" in unknown(lost, context_of(lost)).summary
    assert "nothing shows an earlier fault" in unknown(whole, context_of(whole)).summary
