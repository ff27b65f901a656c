"""Every phrase reads its own example, and the log's byte search lets it through."""

import pytest

from vllm_forensics.evidence.log.book import FAMILIES
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import Family, Phrase, PhraseBook, ended_by, signal_in
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import ClueKind

ALL = [(family, phrase) for family in FAMILIES for phrase in family.phrases]


@pytest.mark.parametrize(
    ("family", "phrase"), ALL, ids=[f"{one.source}-{two.needle}" for one, two in ALL]
)
def test_a_phrase_reads_its_example(family: Family, phrase: Phrase) -> None:
    reading = parse_incident_log([b"noise\n" * 50, phrase.example.encode() + b"\n", b"noise\n"])

    found = [clue for clue in reading.clues if clue.source == family.source]
    assert phrase.needle in phrase.example
    assert [(clue.kind, clue.line) for clue in found] == [(phrase.kind, 51)]


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("11", "SIGSEGV"),
        ("-6", "SIGABRT"),
        ("SIGBUS", "SIGBUS"),
        ("SEGV", "SIGSEGV"),
        ("Segmentation fault", "SIGSEGV"),
        ("invalid opcode", None),
        ("99", None),
        ("", None),
    ],
)
def test_signals_by_number_name_and_words(text: str, signal: str | None) -> None:
    assert signal_in(text) == signal


@pytest.mark.parametrize(
    ("status", "expected"),
    [(-11, ("SIGSEGV", -11)), (139, ("SIGSEGV", 139)), (137, ("SIGKILL", 137)), (1, (None, 1))],
)
def test_an_exit_status_names_its_signal(status: int, expected: tuple[str | None, int]) -> None:
    assert ended_by(status) == expected


def test_the_first_phrase_that_fits_decides() -> None:
    first = Phrase(ClueKind.ABORT, "went wrong", "went wrong: (?P<detail>.*)", "went wrong: x")
    second = Phrase(ClueKind.ECHO, "wrong", "wrong", "wrong")
    book = PhraseBook([Family(source="test", phrases=(first, second))])

    clue = book.read(LogLine(3, "", "it went wrong: no block"))

    assert clue is not None
    assert (clue.kind, clue.detail, clue.line) == (ClueKind.ABORT, "no block", 3)


def test_words_that_were_cut_say_so() -> None:
    text = f"terminate called after throwing an instance of 'Bad'\n  what():  {'word ' * 90}\n"
    raised = (
        f'Traceback (most recent call last):\n  File "a.py", line 1, in f\nBad: {"word " * 90}\n'
    )

    for log in (text, raised):
        (clue,) = parse_incident_log([log.encode()]).clues
        assert clue.detail is not None
        assert clue.detail.startswith("Bad: word")
        assert clue.detail.endswith("word…")
        assert len(clue.detail) <= 300
