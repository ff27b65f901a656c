"""The screens of `forensics log` and `forensics report`, kept as files, narrow and wide."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.py.support.reports import null_crash
from tests.py.support.snapshots import compare, too_wide, without_escapes

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.diagnosis.joined.explain import join, report_of
from vllm_forensics.diagnosis.joined.statement import of_log
from vllm_forensics.diagnosis.joined.statement_core import of_core
from vllm_forensics.diagnosis.joined.statement_traces import of_trace
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.strace import parse_strace_log
from vllm_forensics.model.incident import IncidentAnswer
from vllm_forensics.model.joined import Fact, JoinedReport, Source, SourceKind
from vllm_forensics.model.report import Failure
from vllm_forensics.render.clean import clean
from vllm_forensics.render.incident import render_incidents
from vllm_forensics.render.joined import render_joined
from vllm_forensics.render.joined_bugs import moment
from vllm_forensics.render.joined_markdown import render_joined_markdown
from vllm_forensics.render.terminal import Detail, TerminalStyle

LOGS = Path(__file__).parents[1] / "data" / "log"
OWN = frozenset([("/inc/core.42", 0), ("/inc/core.42", 1), ("/inc/core.42", 2)])
STYLES = {
    "40": TerminalStyle(width=40),
    "80": TerminalStyle(width=80),
    "160": TerminalStyle(width=160),
    "80_color": TerminalStyle(width=80, color=True),
    "sentence": TerminalStyle(width=80, detail=Detail.SENTENCE),
}
TOLD = """\
(Worker_TP0 pid=42) ERROR 01-15 08:12:45 [worker.py:1] Fatal Python error: Aborted
(EngineCore pid=41) ERROR 01-15 08:12:46 [core.py:1] EngineCore encountered a fatal error.
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.
"""
TRACE = """\
42 1768464765.1 execve("/opt/app/engine", ["engine"], 0x7ff /* 4 vars */) = 0
42 1768464765.2 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x48} ---
42 1768464765.3 +++ killed by SIGABRT (core dumped) +++
"""


def log_answer() -> IncidentAnswer:
    raw = (LOGS / "died" / "vllm_worker_sigsegv.log").read_bytes()
    reading = parse_incident_log([raw])
    return clean(
        IncidentAnswer(
            incidents=explain_incidents(reading, "serve.log"),
            failures=(),
            complete=True,
            size_bytes=reading.size_bytes,
            lines=reading.lines,
        )
    )


def nothing() -> IncidentAnswer:
    failure = Failure(path="serve.log", error="tells of no death in 3 lines", remedy="dmesg -T")
    return IncidentAnswer(incidents=(), failures=(failure,), complete=True, lines=3)


def joined() -> JoinedReport:
    """A core, the log with what a handler made of it, and a trace."""
    crash = null_crash("/inc/core.42")
    reading = parse_incident_log([TOLD.encode()])
    told = [
        of_core(crash, 1768464766.0),
        *of_log("/inc/serve.log", None, reading),
        *of_trace("/inc/trace.txt", parse_strace_log(TRACE), ()),
    ]
    loose = (Fact(source="/inc/blocks.jsonl", line=5, text="5 events of a scheduler's blocks"),)
    kinds = {
        "/inc/core.42": SourceKind.CORE,
        "/inc/serve.log": SourceKind.LOG,
        "/inc/trace.txt": SourceKind.STRACE,
        "/inc/blocks.jsonl": SourceKind.SANDBOX,
    }
    rest = JoinedReport(
        sources=tuple(
            Source(path=path, kind=kind, size_bytes=1, host=None, summary="")
            for path, kind in kinds.items()
        ),
        first_death=None,
        visible_error_is_echo=False,
        explanation="",
        processes=(),
        echoes=(),
        unattached=(),
        crashes=(crash,),
        reports=(),
        syscalls=(),
        next_steps=(),
        failures=(
            Failure(path="/inc/pipe", error="is a FIFO, not a file: not read", remedy="save it"),
        ),
        complete=True,
    )
    return clean(report_of(join(told, {"/inc/serve.log": reading}, loose), rest))


@pytest.mark.parametrize("style", STYLES)
def test_the_screen_of_a_log_is_as_it_was(style: str) -> None:
    compare(f"log_{style}", render_incidents(log_answer(), STYLES[style]))


@pytest.mark.parametrize("style", STYLES)
def test_the_screen_of_a_report_is_as_it_was(style: str) -> None:
    compare(f"report_{style}", render_joined(joined(), STYLES[style], OWN))


def test_the_markdown_of_a_report_is_as_it_was() -> None:
    compare("report_markdown", render_joined_markdown(joined(), OWN))


@pytest.mark.parametrize("style", STYLES)
def test_nothing_is_wider_than_the_terminal(style: str) -> None:
    chosen = STYLES[style]
    texts = (
        render_incidents(log_answer(), chosen),
        render_incidents(nothing(), chosen),
        render_joined(joined(), chosen, OWN),
    )

    for text in texts:
        assert not too_wide(without_escapes(text), chosen.width)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_headline_is_never_cut(width: int) -> None:
    style = TerminalStyle(width=width)

    log = "".join(render_incidents(log_answer(), style).split())
    report = "".join(render_joined(joined(), style, OWN).split())

    assert "::reshape_and_cache·proved━━" in log
    assert "vllm::copy_blocks·proved━━" in report


def test_the_colours_are_only_colours() -> None:
    def both(style: TerminalStyle) -> str:
        return render_incidents(log_answer(), style) + render_joined(joined(), style, OWN)

    plain = both(TerminalStyle(width=80))
    colored = both(TerminalStyle(width=80, color=True))

    assert "\x1b" not in plain
    assert "\x1b[" in colored
    shown = [line.rstrip() for line in without_escapes(colored).splitlines()]
    assert shown == plain.splitlines()


def test_markup_in_evidence_is_not_obeyed() -> None:
    report = joined()
    fact = replace(report.unattached[0], text="[bold red]x[/] :smile: [link=http://a]b[/link]")

    text = render_joined(clean(replace(report, unattached=(fact,))), TerminalStyle(width=160), OWN)

    assert "[bold red]x[/] :smile: [link=http://a]b[/link]" in text


def shown(text: str) -> str:
    reading = parse_incident_log([text.encode()])
    answer = IncidentAnswer(
        incidents=explain_incidents(reading, "serve.log"), failures=(), complete=True
    )
    return render_incidents(clean(answer), TerminalStyle(width=160))


def test_who_has_no_name_is_called_what_it_was() -> None:
    assert "━━ program died first · heap corruption" in shown("free(): invalid pointer\n")
    named = shown("Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n")
    assert "━━ VllmWorker-1 died first" in named


def test_a_name_that_repeats_the_role_is_said_once() -> None:
    text = "RuntimeError: MultiprocExecutor got fatal signal from worker processes, shutting down\n"

    assert "A worker died first" in shown(text)


def test_the_same_words_are_shown_once_with_every_line() -> None:
    waits = "No available shared memory broadcast block found in 60 second.\n"
    dies = "Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n"

    screen = shown(dies + waits + "\n" + waits * 2 + "EngineCore encountered a fatal error.\n")

    assert screen.count("No available shared memory broadcast block") == 1
    assert "; again in lines 4, 5" in " ".join(screen.split())


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-01-15T12:00:05.500+01:00", "2026-01-15 12:00:05+01:00"),
        ("2026-01-15T12:00:05Z", "2026-01-15 12:00:05Z"),
        ("2026-01-15 12:00:05,123", "2026-01-15 12:00:05"),
        ("01-15 12:00:05", "01-15 12:00:05"),
        (None, "no time"),
    ],
)
def test_a_time_is_shown_with_the_zone_that_it_is_told_in(time: str | None, shown: str) -> None:
    incident = replace(joined().incidents[0], time=time)

    assert moment(incident) == shown


def screen_of(*lines: str) -> str:
    reading = parse_incident_log([f"{line}\n".encode() for line in lines])
    answer = IncidentAnswer(
        incidents=explain_incidents(reading, "kern.log"),
        lines=reading.lines,
        failures=(),
        complete=True,
    )
    return " ".join(render_incidents(clean(answer), STYLES["160"]).split())


def test_what_died_alike_in_masses_is_counted_and_folded() -> None:
    faults = [
        f"[{900 + n}.000000] {name}[{n}]: segfault at 8 ip 00007f1200000010 sp 00007ffc00000000 "
        f"error 4 in lib{name}.so[7f1200000000+1000]"
        for n, name in enumerate(["pool", "serve"] * 30, 100)
    ]

    screen = screen_of(*faults)

    assert screen.count("29 more processes of that name died of SIGSEGV") == 2
    assert "Processes" not in screen
    assert screen.count("forensics run -- COMMAND") == 1
    assert "and as above" in screen


def test_more_lives_than_are_told_are_no_number() -> None:
    lives = [
        line
        for n in range(100, 200)
        for line in (
            f"Mar  3 08:{n % 60:02}:01 web systemd[1]: serve.service: Scheduled restart job, "
            f"restart counter is at {n}.",
            f"Mar  3 08:{n % 60:02}:02 web kernel: serve[{n}]: segfault at 8 ip 00007f1200000010 "
            "sp 00007ffc00000000 error 4 in libpool.so[7f1200000000+1000]",
        )
    ]

    screen = screen_of(*lives)

    assert "at least 64 incidents in 200 lines" in screen
    assert "died alike at least 63 times more" in screen
