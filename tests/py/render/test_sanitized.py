"""What a person and a script read after a run under a sanitizer."""

import json

from tests.py.support.sanitized import PLAN, a_report, found, python_stack

from vllm_forensics.model.run import RunReport
from vllm_forensics.model.sanitized import PythonThread, SanitizedReport, SanitizedRun
from vllm_forensics.render.run import render_run_json
from vllm_forensics.render.sanitized import render_sanitized
from vllm_forensics.render.terminal import TerminalStyle

PLAIN = TerminalStyle(width=100, color=False)


def run_of(*reports: SanitizedReport) -> SanitizedRun:
    return SanitizedRun(
        plan=PLAN, reports=reports, verdict="AddressSanitizer: as many as there are"
    )


def lines_of(*reports: SanitizedReport) -> list[str]:
    return [line.rstrip() for line in render_sanitized(run_of(*reports), PLAIN).splitlines()]


def test_python_the_core_and_the_conclusion_stand_below_the_chain() -> None:
    lines = lines_of(found())

    at = lines.index("Python   step   /srv/serve.py:5")
    assert lines[at + 1 : at + 4] == [
        "           ◂ <module>   /srv/serve.py:8",
        "Core     /run/core.7",
        "So       So it is.",
    ]
    assert any("✖" in line for line in lines[:at])
    assert lines[-2:] == [
        "AddressSanitizer: as many as there are (linked into Python)",
        "a note",
    ]


def test_the_same_fault_in_many_processes_is_told_once_with_its_processes() -> None:
    lines = lines_of(*(found(pid, core=None) for pid in (5, 6, 7, 8, 9)), found(10))

    assert sum("So it is." in line for line in lines) == 1
    assert "Core     /run/core.10" in lines  # the one of which most is known stands for all
    assert "Also     in processes 5, 6, 7, 8, …" in lines


def test_a_stack_of_the_main_thread_is_said_to_be_that() -> None:
    lines = lines_of(found(python=python_stack(thread=PythonThread.MAIN)))

    assert "Python   of the main thread; the thread of the report runs no Python" in lines


def test_a_deep_python_stack_is_cut() -> None:
    lines = lines_of(found(python=python_stack(depth=50)))

    assert "           44 more calls (--format json)" in lines


def test_without_python_and_core_nothing_stands_for_them() -> None:
    lines = lines_of(found(python=None, core=None))

    assert not any(line.startswith(("Python", "Core")) for line in lines)


def test_many_kinds_are_cut_and_counted() -> None:
    many = (found(report=a_report(signature=str(number))) for number in range(13))

    assert "3 more kinds are in --format json" in lines_of(*many)


def test_the_json_holds_every_report_with_what_joins_it() -> None:
    report = RunReport(
        command="python serve.py",
        status=134,
        processes=(),
        crashes=(),
        failures=(),
        endings=(),
        sanitized=run_of(found(), found(8, python=None, core=None)),
    )

    value = json.loads(render_run_json(report))

    first, second = value["reports"]
    assert first["python"][0] == {
        "index": 0,
        "function": "step",
        "file": "/srv/serve.py",
        "line": 5,
        "kind": "python",
    }
    assert (first["python_thread"], first["core"]) == ("current", "/run/core.7")
    assert (second["python"], second["python_thread"], second["core"]) == ([], None, None)
    assert value["sanitized"] == {
        "name": "AddressSanitizer",
        "method": "launcher",
        "verdict": "AddressSanitizer: as many as there are",
        "notes": ["a note"],
    }


def test_a_run_that_nothing_watched_has_no_reports() -> None:
    report = RunReport(command="true", status=0, processes=(), crashes=(), failures=(), endings=())

    value = json.loads(render_run_json(report))

    assert (value["reports"], value["sanitized"]) == ([], None)
