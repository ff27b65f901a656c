"""A stack that begins in a known signal handler tells a death without its heading."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ClueKind

FRAMES = """/opt/app/build/segfault-handler.node(+0x2dc)[0x7f1be0001234]
/lib/libc.so.6(+0x43090)[0x7f1be0005678]
/opt/app/pool.node(_ZN4pool4takeEi+0x14)[0x7f1be0009abc]
"""


def test_the_frames_alone_are_a_likely_fault_and_have_a_place() -> None:
    incident = explain_incident(parse_incident_log([FRAMES.encode()]), "log")

    assert incident is not None
    death = incident.first_death
    assert (death.cause.kind, death.cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)
    assert (death.function, death.module) == ("pool::take", "pool.node")


def test_behind_a_heading_the_frames_belong_to_it() -> None:
    log = "PID 4242 received SIGSEGV for address: 0x48\n" + FRAMES

    (clue,) = parse_incident_log([log.encode()]).clues

    assert (clue.kind, clue.pid, clue.signal) == (ClueKind.SIGNAL, 4242, "SIGSEGV")
    assert len(clue.native) == 3


def test_a_function_of_that_name_in_prose_is_none() -> None:
    log = b"The stack shows absl::lts_20230802::WriteFailureInfo(), which prints it.\n"

    assert parse_incident_log([log]).clues == ()


@pytest.mark.parametrize(
    "frames",
    [
        "   5: rust_begin_unwind\n   6: core::panicking::panic_fmt\n   7: pool::take\n",
        "   2:     0x5581c0de1234 - panicking::default_handler::h7ae2\n"
        "   5:     0x5581c0de2345 - sys_common::unwind::begin_unwind::h2255\n"
        "   6:     0x5581c0de3456 - pool::take\n",
    ],
)
def test_a_panic_that_lost_its_message_is_known_by_its_frames(frames: str) -> None:
    incident = explain_incident(parse_incident_log([frames.encode()]), "log")

    assert incident is not None
    assert incident.first_death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert incident.first_death.function == "pool::take"


def test_the_stack_of_an_error_that_was_caught_is_no_panic() -> None:
    log = b"   5: std::panicking::try\n   6: std::panic::catch_unwind\n   7: std::rt::lang_start\n"

    assert parse_incident_log([log]).clues == ()
