"""`forensics cases`, and what `forensics core` says of earlier crashes."""

import json
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner, Result
from tests.py.support.core_builder import CoreSpec, build_core

from vllm_forensics.cli.commands.cases import command
from vllm_forensics.cli.commands.core import command as core_command

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def triage(*arguments: str) -> Result:
    return CliRunner().invoke(
        core_command, ["--depth", "stack", *arguments], catch_exceptions=False
    )


def answer(result: Result, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.output)
    schema = json.loads((SCHEMAS / f"forensics.{name}.1.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema)
    return found


@pytest.fixture
def cores(tmp_path: Path) -> list[str]:
    """Two crashes of one bug."""
    paths = []
    for pid in (42, 43):
        path = tmp_path / f"core.{pid}"
        thread = (pid, {"rip": 0x40_1000, "rsp": 0x7000_0100})
        path.write_bytes(build_core(CoreSpec(pid=pid, threads=(thread,))))
        paths.append(str(path))
    return paths


def test_a_crash_is_new_and_then_seen(cores: list[str]) -> None:
    new = triage(cores[0])
    known = triage(cores[1])
    again = triage("--format", "json", *cores)

    assert "Seen    new" in new.output
    assert "Seen    1 time since 20" in known.output
    report = answer(again, "core")
    assert report["groups"][0]["seen"]["count"] == 2
    assert {crash["seen"]["count"] for crash in report["crashes"]} == {2}
    assert report["failures"] == []


def test_many_cores_say_how_many_bugs_are_new(cores: list[str]) -> None:
    assert "2 cores · 1 different crash · 1 new" in triage(*cores).output
    assert "new" not in triage(*cores).output.splitlines()[0]


def test_without_the_store_nothing_is_said_or_kept(cores: list[str]) -> None:
    result = triage("--no-store", "--format", "json", cores[0])

    assert answer(result, "core")["groups"][0]["seen"] is None
    assert "no case is known yet" in run("list").output


def test_cases_are_listed_shown_noted_and_forgotten(cores: list[str]) -> None:
    triage(*cores)
    [case] = answer(run("list", "--format", "json"), "cases")["cases"]
    hashed = case["signature"].rsplit(":", 1)[-1]

    noted = run("note", hashed, "known", "to", "us")
    shown = run("show", case["signature"][:12])
    forgotten = run("forget", case["signature"])

    assert (case["count"], case["note"], case["cores"]) == (2, None, None)
    assert noted.output.endswith(": known to us\n")
    assert "known to us" in shown.output
    assert "×2" in shown.output
    assert "forgotten, with 2 cores" in forgotten.output
    assert "no case is known yet" in run("list").output


def test_an_export_holds_cores_and_an_example(cores: list[str], tmp_path: Path) -> None:
    triage(*cores)
    target = tmp_path / "cases.json"

    result = run("export", "--output", str(target))

    assert result.output == ""
    [case] = json.loads(target.read_text(encoding="utf-8"))["cases"]
    assert {core["path"] for core in case["cores"]} == set(cores)
    assert case["example"]["signature"] == case["signature"]
    assert answer(run("export"), "cases")["cases"] == [case]
    assert answer(run("show", "v1", "--format", "json"), "cases")["cases"] == [case]


def test_a_store_that_cannot_be_used_costs_no_triage(
    cores: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("VLLM_FORENSICS_CASES", str(tmp_path / "file" / "cases.sqlite"))

    text = triage(cores[0])
    report = answer(triage("--format", "json", cores[0]), "core")

    assert text.exit_code == 1
    assert "null" in text.output
    assert "error" in text.output
    assert "--no-store" in text.output
    assert "2 cores" not in text.output
    assert len(report["crashes"]) == 1
    assert [failure["path"].endswith("cases.sqlite") for failure in report["failures"]] == [True]


def test_a_store_that_another_holds_for_a_while_is_waited_for(cores: list[str]) -> None:
    triage(cores[0])
    holder = sqlite3.connect(
        os.environ["VLLM_FORENSICS_CASES"], isolation_level=None, check_same_thread=False
    )
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: holder.execute("COMMIT"))

    release.start()
    result = triage(cores[1])
    release.join()
    holder.close()

    assert "Seen    1 time" in result.output
