"""Windows' records of faults, in several languages and orders."""

import pytest

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import ClueKind

EVENT = """Faulting application name: serve.exe, version: 1.2.3, time stamp: 0x5b8e9a15
Faulting module name: pool.dll, version: 1.2.3, time stamp: 0x59891ce1
Exception code: 0xc0000005
Fault offset: 0x000c3397
Faulting process id: 0x1092
"""
DIALOG = """Problem Event Name:  BEX64
  Application Name:  serve.exe
  Application Version:  1.2.3
  Fault Module Name:  StackHash_1dc2
  Exception Offset:  0000000000000000
  Exception Code:  c0000005
"""
SIGNATURE = """Event Name: APPCRASH
P1: serve.exe
P2: 0.0.0.0
P4: pool.dll
P7: c0000005
P8: 000c3397
"""
ITALIAN = """Nome evento problema:	APPCRASH
  Nome applicazione:	serve.exe
  Versione applicazione:	1.2.3.4
  Timestamp applicazione:	60ddcfb4
  Nome modulo con errori:	pool.dll
  Versione modulo con errori:	6.1.7601.18015
  Timestamp modulo con errori:	50b83c8a
  Codice eccezione:	c0000005
  Offset eccezione:	0000dd74
"""
GERMAN = """Name der fehlerhaften Anwendung: serve.exe, Version: 1.2.3
Name des fehlerhaften Moduls: pool.dll, Version: 1.2.3
Ausnahmecode: 0xc0000374
ID des fehlerhaften Prozesses: 0x1092
"""


@pytest.mark.parametrize(
    ("record", "module", "pid"),
    [
        (EVENT, "pool.dll", 4242),
        (DIALOG, None, None),
        (SIGNATURE, "pool.dll", None),
        (ITALIAN, "pool.dll", None),
    ],
)
def test_a_record_names_process_library_and_fault(
    record: str, module: str | None, pid: int | None
) -> None:
    (clue,) = parse_incident_log([record.encode()]).clues

    assert (clue.signal, clue.name, clue.pid) == ("SIGSEGV", "serve.exe", pid)
    assert [call.module for call in clue.native] == ([module] if module else [])


def test_a_record_in_another_language_is_read() -> None:
    (clue,) = parse_incident_log([GERMAN.encode()]).clues

    assert (clue.kind, clue.name, clue.pid) == (ClueKind.HEAP, "serve.exe", 4242)


def test_a_record_without_a_code_tells_of_no_death() -> None:
    hang = "Faulting application name: serve.exe, version: 1.2.3\nHang type: Top level window\n"

    assert parse_incident_log([hang.encode()]).clues == ()


def test_an_exception_that_programs_survive_is_only_a_stack() -> None:
    dump = (
        "Windows fatal exception: code 0x8001010d\n\n"
        "Current thread 0x00001234 (most recent call first):\n"
        '  File "C:\\app\\pool.py", line 3 in take\n'
    )

    (clue,) = parse_incident_log([dump.encode()]).clues

    assert (clue.kind, clue.signal) == (ClueKind.STACK, None)
