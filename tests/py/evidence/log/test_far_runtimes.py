"""Who died, in the words of Java, Erlang, .NET, Xcode, gunicorn and of titles that repeat them."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import CauseClass, Death, ProcessRole


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


def test_a_title_of_another_process_than_the_record_below_gives_no_number() -> None:
    heading = "A fatal error has been detected by the Java Runtime Environment:"
    first = death(
        f"# {heading} SIGSEGV (0xb) at pc=0x00007f1be0001234, pid=77, tid=78\n\nSeen again:\n"
        f"{heading}\n\n  SIGSEGV (0xb) at pc=0x00007f1be0005678, pid=4242, tid=4300\n\n"
        " Problematic frame:\n v  ~StubRoutines::take_pool\n"
    )

    assert (first.pid, first.function) == (4242, "StubRoutines::take_pool")


@pytest.mark.parametrize(
    "line",
    [
        "traps: serve[4242] general protection fault ip:7f40 sp:7ffc error:0 in libpool.so",
        "serve[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in libpool.so",
    ],
)
def test_a_library_without_its_address_is_the_place(line: str) -> None:
    first = death(f"# The server dies : {line}\n\nAny idea?\n")

    assert (first.name, first.module) == ("serve", "libpool.so")


def test_who_tries_to_mend_it_reports_no_death() -> None:
    text = "# Exit code 137\n\nTrying to fix the error with exit code 137 in the build.\n"

    assert parse_incident_log([text.encode()]).clues == ()


def test_a_process_that_exited_with_an_error_names_its_value() -> None:
    first = death("It will always fail: Process exited with an error: 139 (Exit value: 139)\n")

    assert (first.exit, first.signal) == (139, "SIGSEGV")


def test_a_thread_is_made_for_somebody() -> None:
    first = death(
        "Program terminated with signal SIGSEGV, Segmentation fault.\n"
        "#0  __pthread_create_2_1 (newthread=0x7ffc) at pthread_create.c:698\n"
        "#1  0x0000557fba29b5c3 in take (pool=0x0) at src/pool.c:51\n"
    )

    assert first.function == "take"


@pytest.mark.parametrize(
    "line",
    [
        'Slogan: eheap_alloc: Cannot allocate 147852528 bytes of memory (of type "heap").',
        'c: Cannot reallocate 336624 bytes of memory (of type "code").',
        "Slogan: Kernel pid terminated (application_controller) (shutdown)",
    ],
)
def test_erlangs_machine_says_why_it_gave_up(line: str) -> None:
    assert death(f"The node crashed:\n\n{line}\n").cause.kind is CauseClass.ABORT_EXCEPTION


def test_dotnets_exception_without_its_message() -> None:
    first = death("System.AccessViolationException\n  HResult=0x80004003\n")

    assert (first.signal, first.cause.kind) == ("SIGSEGV", CauseClass.NATIVE_FAULT)


@pytest.mark.parametrize(
    ("line", "name", "signal"),
    [
        ("take.sh: line 11:     7 Illegal instruction     (core dumped) poold   ",
         "poold", "SIGILL"),
        ("ERROR: apport (pid 7) Mon Jan 15 08:12:45 2026: called for pid 4242, signal 6",
         None, "SIGABRT"),
        ("Thread 1: EXC_BAD_ACCESS (code=1, address=0x0)", None, "SIGSEGV"),
    ],
)  # fmt: skip
def test_a_process_of_a_container_an_older_apport_and_xcode(
    line: str, name: str | None, signal: str
) -> None:
    first = death(f"{line}\n")

    assert (first.name, first.signal) == (name, signal)


def test_a_worker_that_took_too_long_in_somebodys_words() -> None:
    first = death("I get `CRITICAL WORKER TIMEOUT` with five workers\n")

    assert (first.cause.kind, first.role) == (CauseClass.HANG, ProcessRole.WORKER)
