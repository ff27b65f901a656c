"""`forensics log`: exit statuses, formats, inputs, and what stands on the screen."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner, Result

from vllm_forensics.cli.commands.log import command

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "py" / "data" / "log"
ENGINE = SAMPLES / "written" / "engine_worker_sigsegv.log"
SCHEMA = json.loads((ROOT / "docs/schemas/forensics.incident.1.json").read_text(encoding="utf-8"))


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=stdin)


def run_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = run("--format", "json", *arguments)
    answer: dict[str, Any] = json.loads(result.output)
    jsonschema.validate(answer, SCHEMA)
    return result.exit_code, answer


def test_a_death_is_told_with_status_one() -> None:
    result = run(str(ENGINE))

    assert result.exit_code == 1
    assert "VllmWorker-0 4210 died first · native fault · SIGSEGV · _C.abi3.so" in result.output
    assert "Only echoes   the visible error is one of them" in result.output
    assert "forensics run -- COMMAND" in result.output


def test_the_json_holds_what_is_promised() -> None:
    status, answer = run_json(str(ENGINE))

    (incident,) = answer["incidents"]
    death = incident["first_death"]
    assert status == 1
    assert answer["schema"] == "forensics.incident/1"
    assert (death["pid"], death["role"], death["signal"]) == (4210, "worker", "SIGSEGV")
    assert death["cause"]["class"] == "native-fault"
    assert death["python_function"] == "cpu_attn_reshape_and_cache"
    assert incident["visible_error_is_echo"] is True
    assert {echo["of"] for echo in incident["echoes"]} == {4210}


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*/*.log")), ids=lambda path: path.name)
def test_every_answer_fits_the_schema(path: Path) -> None:
    status, answer = run_json(str(path))

    assert status == (1 if answer["incidents"] else 0)
    assert run(str(path)).exit_code == status


def test_no_death_is_status_zero_and_says_what_was_seen(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("I fear that it may crash with a Segmentation fault\n", encoding="utf-8")

    status, answer = run_json(str(log))

    assert status == 0
    assert answer["incidents"] == []
    assert "tells of no death in 1 line" in answer["failures"][0]["error"]
    assert "Segmentation fault" in answer["failures"][0]["error"]


def test_an_unreadable_log_stops_no_other(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.log")

    status, answer = run_json(missing, str(ENGINE))
    alone, _ = run_json(missing)

    assert status == 1
    assert answer["failures"][0]["path"] == missing
    assert alone == 2


def test_a_core_beside_a_log_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "serve.log").write_bytes(ENGINE.read_bytes())
    messages = b"Fatal Python error: Aborted\n free(): invalid pointer\n" * 20
    (tmp_path / "core").write_bytes(b"\x7fELF" + bytes(12) + b"\x04\x00" + bytes(400) + messages)

    status, answer = run_json(str(tmp_path))

    assert status == 1
    assert [Path(one["log"]).name for one in answer["incidents"]] == ["serve.log"]
    assert "is a core or a program, not a log" in answer["failures"][0]["error"]
    assert "forensics report" in answer["failures"][0]["remedy"]


def test_the_answer_may_go_to_a_file(tmp_path: Path) -> None:
    output = tmp_path / "answer.json"

    result = run("--format", "json", "--output", str(output), str(ENGINE))

    assert result.exit_code == 1
    assert result.output == ""
    assert json.loads(output.read_text(encoding="utf-8"))["incidents"]


def test_secrets_are_masked_and_controls_escaped(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(
        b"terminate called after throwing an instance of 'std::runtime_error'\n"
        b"  what():  login with password=hunter2hunter2 failed \x9b31m\n"
    )

    masked, open_ = run(str(log)).output, run("--include-secrets", str(log)).output

    assert "hunter2" not in masked
    assert "hunter2" in open_
    assert "\x9b" not in masked + open_


def test_no_log_is_a_usage_error() -> None:
    assert run().exit_code != 0


def test_a_death_that_repeats_is_shown_once_and_promised_whole_in_json() -> None:
    log = str(SAMPLES / "died" / "supervisord_restarts.log")

    text = run(log).output
    _, answer = run_json(log)

    assert text.count("died first") == 2  # its headline and its sentence
    assert "It was started again and died alike 4 times more: line 8, line 11, line 14" in text
    assert [one["first_death"]["pid"] for one in answer["incidents"]] == [
        29124, 29167, 29180, 29190, 29198
    ]  # fmt: skip
