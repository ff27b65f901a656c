"""`forensics asan`: exit statuses, formats, inputs of every kind."""

import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner, Result
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES

from vllm_forensics.cli.commands.asan import command

RAW = SAMPLES / "raw"
UAF = RAW / "asan_gcc_heap_uaf_threads.txt"
ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/forensics.asan.1.json").read_text(encoding="utf-8"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def run_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = run("--format", "json", *arguments)
    return result.exit_code, json.loads(result.output)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_sample_fits_the_published_schema(name: str) -> None:
    status, answer = run_json(str(RAW / name))

    jsonschema.validate(answer, SCHEMA)
    assert answer["schema"] == "forensics.asan/1"
    assert status == (1 if answer["reports"] else 0)
    assert bool(answer["failures"]) == (not answer["reports"])


def test_the_chain_is_in_order_of_time() -> None:
    _, answer = run_json(str(UAF))

    (report,) = answer["reports"]
    stacks = [(event["role"], event["thread"]) for event in report["chain"]]
    assert stacks[:3] == [("allocate", "T1"), ("free", "T2"), ("use", "T3")]
    assert report["culprit"]["function"] == "t_use(void*)"
    assert report["cwe"] == "CWE-416"
    assert report["severity"]["level"] == "high"
    assert report["lines"][0] == 2


def test_a_log_without_a_report_says_what_was_seen_instead(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("LLVM ERROR: AddressSanitizer pass failed\nall done\n", encoding="utf-8")

    status, answer = run_json(str(log))

    assert status == 0
    assert answer["reports"] == []
    assert "AddressSanitizer pass failed" in answer["failures"][0]["error"]


def test_an_unreadable_log_stops_no_other(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.log")

    assert run(missing).exit_code == 2
    status, answer = run_json(missing, str(UAF))

    assert status == 1
    assert len(answer["reports"]) == 1
    assert [failure["path"] for failure in answer["failures"]] == [missing]


def test_folders_families_and_compressed_logs(tmp_path: Path) -> None:
    (tmp_path / "asan.1030").write_bytes(UAF.read_bytes())
    (tmp_path / "asan.1031").write_bytes((RAW / "asan_gcc_double_free.txt").read_bytes())
    packed = tmp_path / "packed" / "log.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(UAF.read_bytes()))

    assert len(run_json(str(tmp_path / "asan"))[1]["reports"]) == 2
    assert len(run_json(str(packed.parent))[1]["reports"]) == 1
    assert len(run_json(str(tmp_path / "*.103*"))[1]["reports"]) == 2


def test_a_damaged_archive_gives_what_it_can(tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    whole = gzip.compress(UAF.read_bytes() + os.urandom(400_000))
    packed.write_bytes(whole[: len(whole) // 2])

    status, answer = run_json(str(packed))

    assert status == 1
    assert answer["reports"][0]["kind"] == "heap-use-after-free"
    assert "could not be read to its end" in answer["failures"][0]["error"]


def test_standard_input_is_a_pipe() -> None:
    program = (
        "import sys; from vllm_forensics.cli.main import main; sys.argv[1:] = ['asan', '-']; main()"
    )

    result = subprocess.run(
        [sys.executable, "-c", program],
        input=UAF.read_bytes(),
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 1, result.stderr
    assert "heap-use-after-free" in result.stdout.decode()


def test_a_pipe_under_a_name_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"cat {shlex.quote(str(UAF))} > {pipe}"]):
        status, answer = run_json(str(pipe))

    assert status == 1
    assert len(answer["reports"]) == 1


def test_own_code_is_what_was_named() -> None:
    log = str(RAW / "asan_gcc_double_free.txt")

    _, answer = run_json("--own", "src", log)

    assert answer["reports"][0]["culprit"]["function"] == "release_buf(char*)"


def test_equal_reports_are_one_group() -> None:
    _, answer = run_json(str(RAW / "asan_gcc_heap_uaf_read.txt"), str(RAW / "asan_clang_scary.txt"))

    assert len(answer["reports"]) == 2
    assert [group["count"] for group in answer["groups"]] == [2]


def test_secrets_are_masked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = UAF.read_text(encoding="utf-8").replace("thread T3\n", "thread T3 token=hunter2222\n", 1)
    log.write_text(text, encoding="utf-8")

    assert "hunter2222" not in run("--format", "json", str(log)).output
    assert "hunter2222" in run("--format", "json", "--include-secrets", str(log)).output


def test_output_quiet_and_usage(tmp_path: Path) -> None:
    target = tmp_path / "answer.txt"

    assert run("--output", str(target), str(UAF)).output == ""
    assert "✖" in target.read_text(encoding="utf-8")
    assert len(run("-q", str(UAF)).output.splitlines()) < 14
    assert run().exception is not None


@pytest.mark.parametrize(
    ("output_format", "head"),
    [
        ("markdown", "## 1 bug in"),
        ("sarif", '{\n  "$schema"'),
        ("github", "::error file="),
        ("gitlab", "[\n  {"),
        ("junit", "<?xml"),
    ],
)
def test_forges_and_ci_servers_have_their_formats(
    output_format: str, head: str, tmp_path: Path
) -> None:
    target = tmp_path / "answer"

    status = run("--format", output_format, "--output", str(target), str(UAF)).exit_code
    clean = run("--format", output_format, str(RAW / "negative_app_log.txt"))

    assert status == 1
    assert target.read_text(encoding="utf-8").startswith(head)
    assert clean.exit_code == 0
    assert clean.output
