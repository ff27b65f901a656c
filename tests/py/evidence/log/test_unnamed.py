"""Deaths in the words of runtimes that no table knows, and what only looks like one."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.log.unnamed import read_unnamed
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import UNNAMED, ClueKind

OWN = {
    "poold: fatal signal 11 in thread 4300": "SIGSEGV",
    "Received SIGBUS at 0x7f1be0001234": "SIGBUS",
    "*** Signal 8 (SIGFPE) ***": "SIGFPE",
    "[12:00:01] pool: unhandled exception: Access violation at 0x48": "SIGSEGV",
    "Crashed: Thread: SIGABRT  0x0000000000000000": "SIGABRT",
    "Unhandled memory fault at #x4F8.": "SIGSEGV",
    "Process crashed with SIGILL": "SIGILL",
    "ERROR: SIGSEGV": "SIGSEGV",
    "Signal 7 raised": "SIGBUS",
}
OF_ANOTHER = {
    "[warn] pool 4100: worker 4242 dumped core: signal 6": ("SIGABRT", 4242),
    "poolmaster: job process 4242 dead after signal 11": ("SIGSEGV", 4242),
    "[12:00:01] child exited because of SIGBUS": ("SIGBUS", None),
}
NO_DEATHS = (
    # prose, titles and changes
    "I got signal 11 when I ran it",
    "The process received SIGSEGV because the pool had been closed by then.",
    "If the worker was killed by signal 11, restart it.",
    "143062  pool crashes on exit with signal 8 SIGFPE",
    "Fixed: worker died with SIGSEGV",
    "- crash with SIGSEGV when the pool is empty",
    "pool crashed with segmentation fault on my machine",
    "A process may be dumped with signal 11.",
    "| 139 | received SIGSEGV |",
    "see [12:00:01] | 139 | process 3 died on SIGSEGV |",
    "test_received_signal_11 passed: child exited on SIGSEGV",
    # code and tables
    'signal="SIGSEGV",',
    "SIGSEGV",
    " * SIGSEGV si_codes",
    " 9) SIGKILL 10) SIGUSR1 11) SIGSEGV 12) SIGUSR2",
    'fprintf(stderr, "Caught fatal signal 11\\n");',
    "sigaction(SIGSEGV, &action, NULL);",
    "assert status == 11  # died with signal 11",
    "case SIGSEGV: return crashed(SIGSEGV);",
    # healthy logs
    "wlan0: signal 61 dBm, received signal 6.5 of 10",
    "[12:00:01] installed a handler: caught SIGSEGV is forwarded",
    "Signal 4/5 received from sensor",
)


@pytest.mark.parametrize(("text", "signal"), OWN.items())
def test_a_dying_programs_line_is_read_by_its_form(text: str, signal: str) -> None:
    clue = read_unnamed(LogLine(1, "", text))

    assert clue is not None
    assert (clue.source, clue.kind, clue.signal) == (UNNAMED, ClueKind.SIGNAL, signal)
    assert not clue.of_another


@pytest.mark.parametrize(("text", "expected"), OF_ANOTHER.items())
def test_a_parents_line_is_read_by_its_form(text: str, expected: tuple[str, int | None]) -> None:
    clue = read_unnamed(LogLine(1, "", text))

    assert clue is not None
    assert clue.of_another
    assert (clue.signal, clue.pid) == expected


@pytest.mark.parametrize("text", NO_DEATHS)
def test_what_only_looks_like_a_death_is_none(text: str) -> None:
    clues = parse_incident_log([f"{text}\n".encode()]).clues

    assert [clue for clue in clues if clue.source == UNNAMED] == []


@pytest.mark.parametrize("text", [*OWN, *OF_ANOTHER])
def test_the_search_lets_such_lines_through(text: str) -> None:
    log = b"noise\n" * 20 + text.encode() + b"\nnoise\n"

    assert [clue.line for clue in parse_incident_log([log]).clues] == [21]


@pytest.mark.parametrize("text", OWN)
def test_a_form_alone_proves_nothing(text: str) -> None:
    incident = explain_incident(parse_incident_log([f"{text}\n".encode()]), "log")

    assert incident is not None
    assert incident.first_death.cause.certainty is not Certainty.PROVED


def test_a_known_word_for_the_same_death_proves_it() -> None:
    log = b"poold: fatal signal 11 in thread 4300\nSegmentation fault (core dumped)\n"

    incident = explain_incident(parse_incident_log([log]), "log")

    assert incident is not None
    assert incident.first_death.cause.certainty is Certainty.PROVED
    assert len(incident.first_death.evidence) == 2


def test_frames_below_it_say_where() -> None:
    log = (
        b"poold: fatal signal 11 in thread 4300\n"
        b"  (01) 0x5581c0de1234 pool_signal_handler (poold)\n"
        b"  (02) 0x5581c0de1300 ns::Pool::take(int) (poold)\n"
    )

    incident = explain_incident(parse_incident_log([log]), "log")

    assert incident is not None
    assert incident.first_death.function == "ns::Pool::take"


def test_what_a_crash_handler_asks_of_its_reader_is_not_counted_as_prose() -> None:
    line = b"Catching SIGSEGV, please report a bug at http://example.org\n"

    (clue,) = parse_incident_log([line]).clues

    assert (clue.signal, clue.of_another) == ("SIGSEGV", False)


@pytest.mark.parametrize("mark", ["<ABRT>", "&lt;ABRT>"])
def test_who_signs_its_line_without_a_date_is_named(mark: str) -> None:
    line = f"> systemd[1]: Caught {mark}, dumped core as pid 4242.\n"

    (clue,) = parse_incident_log([line.encode()]).clues

    assert (clue.signal, clue.name, clue.pid) == ("SIGABRT", "systemd", 1)


def test_who_a_sentence_of_a_machine_begins_with_is_who_died() -> None:
    text = "uWSGI process got Segmentation Fault"

    (clue,) = parse_incident_log([text.encode()]).clues

    assert clue.name == "uWSGI"
