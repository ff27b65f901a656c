"""Deaths of firmware, in the words of its systems."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.evidence.log.book import BOOK
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.model.incident import CauseClass


def test_an_esp32_tells_its_fault_and_the_monitor_the_place() -> None:
    incident = incident_of(
        "Guru Meditation Error: Core  1 panic'ed (LoadProhibited). Exception was unhandled.",
        "Core 1 register dump:",
        "PC      : 0x400d467a  PS      : 0x00060630  A0      : 0x800d4b1f  A1      : 0x3ffb1ea0",
        "",
        "Backtrace: 0x400d467a:0x3ffb1ea0 0x400d4b1c:0x3ffb1ee0",
        "0x400d467a: take_block at /src/main/pool.c:88",
        "0x400d4b1c: serve at /src/main/serve.c:12",
    )

    death = incident.first_death
    assert (death.cause.kind, death.signal) == (CauseClass.NATIVE_FAULT, "SIGSEGV")
    assert death.function == "take_block"
    assert incident.next_steps[0].startswith("addr2line ")
    assert not any("dmesg" in step for step in incident.next_steps)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Guru Meditation Error: Core  1 panic'ed (Interrupt wdt timeout on CPU1)", "hang"),
        ("abort() was called at PC 0x400d4b1c on core 0", "abort-exception"),
        ("***ERROR*** A stack overflow in task poold has been detected.", "abort-exception"),
        ("assert failed: take_block pool.c:88 (block != NULL)", "abort-exception"),
        ("Exception (28):", "native-fault"),
        ("E: ***** MPU FAULT *****", "native-fault"),
    ],
)
def test_every_system_says_of_what(line: str, kind: str) -> None:
    assert incident_of(line).first_death.cause.kind == kind


@pytest.mark.parametrize(
    "line",
    [
        "A Guru Meditation Error may come from a null pointer.",
        "The abort() was called by design.",
        "Handle exception (28) in the parser",
        "#define HARD FAULT 3",
    ],
)
def test_sentences_about_them_are_no_deaths(line: str) -> None:
    assert BOOK.read(LogLine(1, "", line)) is None
