"""`forensics asan --baseline` and `--suppressions`: what is left out, and that it is said."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner, Result
from tests.py.evidence.sanitizer.exam import SAMPLES

from vllm_forensics.cli.commands.asan import command
from vllm_forensics.errors import UsageError

RAW = SAMPLES / "raw"
ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/forensics.asan.1.json").read_text(encoding="utf-8"))
UAF, LEAKS, RACE = (
    str(RAW / name)
    for name in ("asan_gcc_heap_uaf_read.txt", "lsan_gcc_leaks.txt", "tsan_clang_data_race.txt")
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def run_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = run("--format", "json", *arguments)
    answer = json.loads(result.output)
    jsonschema.validate(answer, SCHEMA)
    return result.exit_code, answer


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def answer(tmp_path: Path) -> str:
    """An earlier answer about the use after free and the leaks."""
    return written(tmp_path / "base.json", run("--format", "json", UAF, LEAKS).output)


def test_what_an_earlier_answer_knows_is_left_out(answer: str) -> None:
    status, now = run_json("--baseline", answer, UAF, LEAKS, RACE)

    assert status == 1
    assert [report["kind"] for report in now["reports"]] == ["data-race"]
    assert (now["baseline"]["known"], now["baseline"]["new"]) == (2, 1)
    assert now["baseline"]["known_leaks"] == 8
    assert now["baseline"]["gone"] == []


def test_nothing_new_is_no_fault(answer: str) -> None:
    result = run("--baseline", answer, UAF)

    told = " ".join(result.output.split())  # paths are long or short, and lines fold
    assert result.exit_code == 0
    assert "no new report in" in told
    assert "1 known report left out · 2 of the baseline not seen" in told
    assert "note" not in told


def test_what_of_the_baseline_is_gone_is_listed(answer: str) -> None:
    _, now = run_json("--baseline", answer, UAF)

    assert {name.split(":")[1] for name in now["baseline"]["gone"]} == {"memory-leak"}
    assert now["baseline"]["gone"][0] in run("-v", "--baseline", answer, UAF).output.replace(
        "\n       ", ""
    )


def test_a_log_and_a_list_are_baselines_too(tmp_path: Path, answer: str) -> None:
    names = [group["signature"] for group in json.loads(Path(answer).read_text())["groups"]]
    listed = written(tmp_path / "known.txt", "# ours\n" + "\n".join(names) + "\n")

    assert run("--baseline", UAF, UAF).exit_code == 0
    assert run("--baseline", listed, UAF, LEAKS).exit_code == 0
    assert run("--baseline", listed, RACE).exit_code == 1


def test_of_a_leak_report_only_new_leaks_are_left(tmp_path: Path) -> None:
    _, first = run_json(LEAKS)
    known = next(leak for leak in first["reports"][0]["leaks"] if "lose_buf" in leak["signature"])
    listed = written(tmp_path / "known.txt", known["signature"])

    status, now = run_json("--baseline", listed, LEAKS)

    assert status == 1
    (report,) = now["reports"]
    assert len(report["leaks"]) == 7
    assert len([event for event in report["chain"] if event["role"] == "leak"]) == 7
    assert now["baseline"] == {
        "path": listed,
        "known": 0,
        "known_leaks": 1,
        "new": 1,
        "gone": [],
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v2:segv:f:0123456789ab\n", "version 2"),
        ("v1:segv:f:0123456789ab\nwhat is this\n", "line 2"),
        ('{"schema": "forensics.core/1", "crashes": []}', "another kind: forensics.core/1"),
        ('{"schema": "forensics.asan/1", "reports": [{"signature": "x"}]}', "not well formed"),
        ("all tests passed\n", "no list of signatures"),
    ],
)
def test_a_baseline_that_cannot_be_used_says_why(tmp_path: Path, text: str, said: str) -> None:
    result = run("--baseline", written(tmp_path / "base", text), UAF)

    assert isinstance(result.exception, UsageError)
    assert said in result.exception.message
    assert result.exception.remedy


def test_a_missing_baseline_or_suppressions_file_is_an_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")

    for option in ("--baseline", "--suppressions"):
        result = run(option, missing, UAF)

        assert isinstance(result.exception, UsageError)
        assert missing in result.exception.message


def test_suppressed_reports_are_counted_under_their_rule(tmp_path: Path) -> None:
    rules = written(tmp_path / "rules", "race:bump\nleak:make_tree\nkind:segv\n")

    status, now = run_json("--suppressions", rules, UAF, LEAKS, RACE)

    assert status == 1
    assert [report["kind"] for report in now["reports"]] == ["heap-use-after-free", "memory-leak"]
    assert [(count["rule"], count["reports"], count["leaks"]) for count in now["suppressed"]] == [
        ("race:bump", 1, 0),
        ("leak:make_tree", 0, 7),
        ("kind:segv", 0, 0),
    ]


def test_nothing_is_hidden_without_a_word(tmp_path: Path) -> None:
    rules = written(tmp_path / "rules", "race:bump\nkind:segv\n")

    result = run("--suppressions", rules, RACE)

    assert result.exit_code == 0
    assert "no report in" in result.output
    assert "1 report suppressed by race:bump" in result.output
    assert "1 rule matched nothing" in result.output
    assert "matched nothing: kind:segv (line 2)" in run("-v", "--suppressions", rules, RACE).output


def test_a_line_that_is_no_rule_is_a_failure_and_stops_nothing(tmp_path: Path) -> None:
    rules = written(tmp_path / "rules", "raze:bump\nfun:f\nkind:data-race\n")

    status, now = run_json("--suppressions", rules, RACE)

    assert status == 0
    assert [failure["path"] for failure in now["failures"]] == [f"{rules}:1", f"{rules}:2"]
    assert "raze:bump" in now["failures"][0]["error"]


def test_each_leak_is_in_the_answer_with_its_signature_and_its_stack() -> None:
    _, now = run_json(LEAKS)

    (report,) = now["reports"]
    first = report["leaks"][0]
    assert report["chain"][first["stack"]]["role"] == "leak"
    assert first["culprit"]["function"] in {"lose_buf()", "make_tree(int)"}
    leaks = [group for group in now["groups"] if group["of"] == "leaks"]
    assert sum(group["count"] for group in leaks) == 8
    assert {group["signature"] for group in leaks} == {
        leak["signature"] for leak in report["leaks"]
    }
