"""`forensics report`: exit statuses, formats, and folders that mean harm."""

import json
import os
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner, Result

from vllm_forensics.cli.commands.report import command

ROOT = Path(__file__).parents[3]
ENGINE = ROOT / "tests" / "py" / "data" / "log" / "written" / "engine_worker_sigsegv.log"
SCHEMA = json.loads((ROOT / "docs/schemas/forensics.report.1.json").read_text(encoding="utf-8"))


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments])


def run_json(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    result = run("--format", "json", *arguments)
    assert result.stdout, result.exception
    answer: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(answer, SCHEMA)
    return result.exit_code, answer


def errors_of(answer: dict[str, Any]) -> dict[str, str]:
    return {Path(one["path"]).name: one["error"] for one in answer["failures"]}


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        yield path


def test_a_log_alone_gives_what_forensics_log_gives() -> None:
    status, answer = run_json(ENGINE)

    death = answer["first_death"]
    assert status == 1
    assert (death["pid"], death["role"], death["signal"]) == (4210, "worker", "SIGSEGV")
    assert answer["visible_error_is_echo"] is True
    assert {echo["of"] for echo in answer["echoes"]} == {4210}
    assert all(echo["source"] == str(ENGINE) and echo["line"] for echo in answer["echoes"])


def test_the_kernels_log_beside_it_tells_of_the_same_process(tmp_path: Path) -> None:
    (tmp_path / "serve.log").write_bytes(ENGINE.read_bytes())
    (tmp_path / "dmesg").write_text(
        "[ 8421.1] VllmWorker[4210]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
        "_C.abi3.so[7f1be0000000+21000]\n"
    )

    _, answer = run_json(tmp_path)

    first = answer["processes"][0]
    assert {Path(fact["source"]).name for fact in first["facts"]} == {"serve.log", "dmesg"}
    assert "signal SIGSEGV" in {f"{one['what']} {one['value']}" for one in first["agrees"]}


def test_two_logs_of_one_clock_are_put_in_order(tmp_path: Path) -> None:
    (tmp_path / "a_engine.log").write_text(
        "2026-01-15 08:12:47 (EngineCore pid=7) Fatal Python error: Aborted\n"
    )
    (tmp_path / "b_worker.log").write_text(
        "2026-01-15 08:12:45 (Worker_TP0 pid=8) Fatal Python error: Segmentation fault\n"
    )

    _, answer = run_json(tmp_path)

    assert answer["first_death"]["pid"] == 8
    assert "no common clock" not in answer["explanation"]


def test_without_a_clock_no_order_is_claimed(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("(Worker_TP1 pid=7) Fatal Python error: Aborted\n")
    (tmp_path / "b.log").write_text("(Worker_TP0 pid=8) Fatal Python error: Segmentation fault\n")

    _, answer = run_json(tmp_path)

    assert "no common clock says which came first" in answer["explanation"]
    assert answer["echoes"] == []
    assert answer["visible_error_is_echo"] is False


def test_clocks_that_write_otherwise_are_one_where_the_minutes_are_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.log").write_text(
        "ERROR 01-15 08:12:47 [core.py:1] (EngineCore pid=7) Fatal Python error: Aborted\n"
    )
    (tmp_path / "b.log").write_text(
        "Jan 15 08:12:45 node1 serve[8]: Fatal Python error: Segmentation fault\n"
    )

    _, answer = run_json(tmp_path)

    assert answer["first_death"]["pid"] == 8
    assert "no common clock" not in answer["explanation"]


def test_a_folder_that_means_harm_is_read_within_bounds(tmp_path: Path, listening: Path) -> None:
    folder = tmp_path
    (folder / "serve.log").write_bytes(ENGINE.read_bytes())
    os.mkfifo(folder / "pipe")
    (folder / "circle").symlink_to("circle")
    (folder / "itself").symlink_to(".")
    (folder / "endless").symlink_to("/dev/zero")
    (folder / "nothing").symlink_to("nowhere")
    (folder / "empty").touch()
    (folder / "noise").write_bytes(bytes(range(256)) * 64)
    (folder / "broken core").write_bytes(b"\x7fELF" + bytes(12) + b"\x04\x00" + bytes(40))
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 40)

    status, answer = run_json(folder)

    errors = errors_of(answer)
    assert status == 1
    assert answer["first_death"]["pid"] == 4210
    assert "is a FIFO, not a file: not read" in errors["pipe"]
    assert "is a socket, not a file: not read" in errors[listening.name]
    assert "is a character device, not a file: not read" in errors["endless"]
    assert "is a link in a circle" in errors["circle"]
    assert "No such file" in errors["nothing"]
    assert "is neither a core nor text" in errors["noise"]
    assert "is neither a core nor text" in errors["sparse"]
    assert "broken core" in errors
    assert "itself" not in errors


def test_kinds_are_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "core.1").write_bytes(ENGINE.read_bytes())
    (tmp_path / "image.png").write_text(
        '7 1768464765.1 openat(AT_FDCWD, "/x", O_RDONLY) = 3\n7 1768464765.2 exit_group(0) = ?\n'
        "7 1768464765.3 +++ exited with 0 +++\n"
    )
    (tmp_path / "a.log").write_text('{"step":1,"kind":"allocate","pool":"gpu","block":3}\n')

    _, answer = run_json(tmp_path)

    kinds = {Path(one["path"]).name: one["kind"] for one in answer["sources"]}
    assert kinds == {"core.1": "log", "image.png": "strace", "a.log": "sandbox"}
    assert [Path(one["source"]).name for one in answer["unattached"]] == ["a.log"]


def test_an_archive_of_logs_is_opened_and_a_core_in_it_is_said(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("serve.log", ENGINE.read_bytes())
        archive.writestr("core", b"\x7fELF" + bytes(12) + b"\x04\x00" + bytes(400))

    status, answer = run_json(tmp_path)

    assert status == 1
    assert [Path(one["path"]).name for one in answer["sources"]] == ["logs.zip!serve.log"]
    assert "is no text" in errors_of(answer)["logs.zip!core"]


def test_no_death_is_status_zero_and_an_unreadable_file_status_two(tmp_path: Path) -> None:
    (tmp_path / "serve.log").write_text("INFO all is well\n")

    healthy, answer = run_json(tmp_path)
    missing, _ = run_json(tmp_path / "missing")

    assert (healthy, missing) == (0, 2)
    assert answer["first_death"] is None
    assert "No source tells of a death" in answer["explanation"]


def test_an_answer_of_this_tool_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "core.json").write_text('{\n  "schema": "forensics.core/1",\n  "crashes": []\n}\n')

    _, answer = run_json(tmp_path)

    assert "is an answer (forensics.core/1)" in errors_of(answer)["core.json"]


def test_markdown_is_fit_for_an_issue(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(
        b"(Worker pid=7) terminate called after throwing an instance of 'std::runtime_error'\n"
        b"(Worker pid=7)   what():  | @everyone <b> password=hunter2hunter2\n"
    )

    text = run("--format", "markdown", tmp_path).output

    assert text.startswith("## Worker 7 died first")
    assert "hunter2" not in text
    assert "&lt;b&gt;" in text
    assert "| `serve.log:1` |" in text


def test_controls_are_escaped_and_no_evidence_is_a_usage_error(tmp_path: Path) -> None:
    log = tmp_path / "se\x1b[31mrve.log"
    log.write_bytes(b"(Worker pid=7) Fatal Python error: \x9b31m \xe2\x80\xae Aborted\n")

    text = run(tmp_path).output

    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert run().exit_code != 0
