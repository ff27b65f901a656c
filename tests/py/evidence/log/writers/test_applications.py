"""Deaths of applications that their own records alone make known."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import CauseClass


def test_blenders_record_names_it_and_a_frame_without_symbols_has_no_function() -> None:
    incident = incident_of(
        "# backtrace",
        "Exception Record:",
        "",
        "ExceptionCode         : EXCEPTION_ILLEGAL_INSTRUCTION (0xc000001d)",
        "Exception Address     : 0x00007FFDA03CC97F",
        "Exception Module      : pool.pyd",
        "",
        "Stack trace:",
        "pool.pyd            :0x00007FFDA03CC97F  Symbols not available",
    )

    death = incident.first_death
    assert (death.name, death.signal) == ("blender", "SIGILL")
    assert (death.module, death.function) == ("pool.pyd", None)
    assert "Win32_Processor" in incident.next_steps[0]


@pytest.mark.parametrize(
    ("function", "place"),
    [
        ("take_block", "take_block"),
        ("'ns::Block *ns::pool::take_block()'", "ns::pool::take_block"),
        ("'std::pair<bool,ns::B *> ns::cache<ns::B,ns::T>::take<ns::C>(int)'", "ns::cache::take"),
    ],
)
def test_an_emulators_failed_check_tells_its_source_below(function: str, place: str) -> None:
    death = incident_of(
        "·F 0:05:02.509742 {RSX [0x4242]} SIG: Thread terminated due to fatal error: "
        "Verification failed (object: 0x0)",
        rf"(in file C:\src\Emu\pool.cpp:88[:3], in function {function}) (error=0x8)",
    ).first_death

    assert (death.name, death.cause.kind) == ("rpcs3", CauseClass.ABORT_EXCEPTION)
    assert (death.function, death.file, death.line) == (place, r"C:\src\Emu\pool.cpp", 88)


def test_an_older_one_tells_what_was_thrown() -> None:
    death = incident_of(
        "F {RSX [0x4242]} RSX: class std::runtime_error thrown: Verification failed:",
        "(in file rpcs3/Emu/Pool.h:88)",
    ).first_death

    assert (death.name, death.file, death.line) == ("rpcs3", "rpcs3/Emu/Pool.h", 88)


def test_what_is_thrown_elsewhere_is_no_death() -> None:
    line = b"I {RSX [0x4242]} RSX: the exceptions thrown: 3\n"

    assert not parse_incident_log([line]).clues


def test_a_backend_of_postgres_signs_its_failed_assertion() -> None:
    death = incident_of(
        "# CREATE EXTENSION crashes server on v18",
        "",
        'TRAP: failed Assert("pool != NULL"), File: "pool.c", Line: 88, PID: 4242',
    ).first_death

    assert (death.name, death.pid, death.file, death.line) == ("postgres", 4242, "pool.c", 88)
