"""What every command says of an input that it cannot use: what, why, what to type."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from vllm_forensics.cli.main import cli
from vllm_forensics.cli.output import error_text
from vllm_forensics.errors import ForensicsError

START = "from vllm_forensics.cli.main import main; main()"
INPUTS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path,
    "empty": lambda path: path.write_bytes(b""),
    "folder": lambda path: path.mkdir(),
    "text": lambda path: path.write_text("nothing happened\n", encoding="utf-8"),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "cut_elf": lambda path: path.write_bytes(b"\x7fELF\x02\x01\x01"),
    "cut_gz": lambda path: path.write_bytes(b"\x1f\x8b\x08\0junkjunk"),
    "link": lambda path: path.symlink_to("nowhere"),
    "circle": lambda path: path.symlink_to(path),
}
ENTRIES = (
    ("core", "--no-gdb"),
    ("core", "--audit"),
    ("core", "--gdb"),
    ("asan",),
    ("log",),
    ("report", "--no-gdb"),
    ("bundle",),
    ("minify",),
    ("symbols", "split"),
    ("sandbox", "replay"),
    ("sandbox", "show"),
    ("sandbox", "run", "--load"),
    ("prune", "--keep", "1"),
    ("asan", "-", "--baseline"),
    ("build", "--asan", "--source"),
    ("sandbox", "run", "--vllm"),
)


def run(folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "VLLM_FORENSICS_CASES": str(folder / "cases.sqlite")}
    return subprocess.run(
        [sys.executable, "-c", START, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=folder,
        env=environment,
        timeout=120,
    )


def run_in_shell(folder: Path, line: str) -> subprocess.CompletedProcess[bytes]:
    """What a shell's redirections leave open or closed."""
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(START)} {line}"
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, check=False, cwd=folder, timeout=120
    )


def run_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> subprocess.CompletedProcess[bytes]:
    """The same in this process, which is faster by far."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("VLLM_FORENSICS_CASES", str(folder / "cases.sqlite"))
    result = CliRunner().invoke(cli, list(arguments))
    status, said = result.exit_code, result.output
    if isinstance(result.exception, ForensicsError):
        status, said = 2, error_text(result.exception.message, result.exception.remedy)
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return subprocess.CompletedProcess(arguments, status, said.encode(), b"")


def told(done: subprocess.CompletedProcess[bytes]) -> str:
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("entry", ENTRIES, ids=" ".join)
def test_an_input_of_no_use_is_told_and_never_a_mistake_of_ours(
    entry: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, make in INPUTS.items():
        make(tmp_path / name)

        done = run_here(tmp_path, monkeypatch, *entry, name)
        said = told(done)

        assert done.returncode in {0, 2}, (name, said)
        if done.returncode == 2:
            assert any(one in said for one in (name, "nowhere", "the load")), (name, said)


@pytest.mark.parametrize("command", ["core", "asan", "log", "report", "bundle"])
def test_what_is_missing_is_said_to_be_and_where_to_look(command: str, tmp_path: Path) -> None:
    done = run(tmp_path, command, "below/core.42")

    assert done.returncode == 2
    assert "core.42" in told(done)
    assert "cannot be opened: No such file or directory" in told(done)
    assert "ls -la below    # what is there instead" in told(done)


@pytest.mark.parametrize("command", ["asan", "log", "sandbox replay"])
def test_a_folder_is_no_log(command: str, tmp_path: Path) -> None:
    (tmp_path / "an empty folder").mkdir()

    said = told(run(tmp_path, *command.split(), "an empty folder"))

    assert "is a folder, not a file" in said
    assert "forensics report 'an empty folder'    # reads all that a folder holds" in said


@pytest.mark.parametrize("command", ["asan", "log"])
def test_a_core_among_logs_is_no_log_without_a_report(command: str, tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF" + bytes(4000))

    done = run(tmp_path, command, "core")

    assert done.returncode == 2
    assert "core is a core or a program, not a log" in told(done)


@pytest.mark.parametrize("command", ["core", "report", "bundle"])
def test_standard_input_is_said_not_to_be_read(command: str, tmp_path: Path) -> None:
    done = run(tmp_path, command, "-")

    assert done.returncode == 2
    assert "would be standard input, which is not read here" in " ".join(told(done).split())


@pytest.mark.parametrize("command", ["log", "asan"])
def test_a_closed_standard_input_is_told(command: str, tmp_path: Path) -> None:
    done = run_in_shell(tmp_path, f"{command} - <&-")

    assert done.returncode == 2
    assert "standard input is closed: there is nothing to read" in told(done)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("log here.log >&-", "standard output is closed"),
        ("log --format json here.log >&-", "standard output is closed"),
        ("log here.log >/dev/full", "standard output cannot be written: No space left on device"),
        ("report here.log >/dev/full", "standard output cannot be written: No space"),
        ("--help >/dev/full", "cannot be written: No space left on device"),
    ],
)
def test_an_answer_that_cannot_be_written_is_no_death_and_no_mistake_of_ours(
    line: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "here.log").write_text("Segmentation fault (core dumped)\n", encoding="utf-8")

    done = run_in_shell(tmp_path, line)

    assert done.returncode == 2
    assert words in told(done)
    assert "did not expect" not in told(done)


@pytest.mark.parametrize("line", ["log 2>/dev/full", "log --no-such-option 2>/dev/full"])
def test_an_error_that_nobody_can_be_told_still_has_its_status(line: str, tmp_path: Path) -> None:
    assert run_in_shell(tmp_path, line).returncode == 2


@pytest.mark.parametrize(("command", "what"), [("log", "nobody died"), ("asan", "no sanitizer")])
def test_nothing_on_standard_input_is_told(command: str, what: str, tmp_path: Path) -> None:
    done = run(tmp_path, command, "-")

    assert done.returncode == 0
    assert f"standard input is empty: {what}" in told(done)


@pytest.mark.parametrize("command", ["core", "bundle", "report"])
def test_a_program_that_is_not_there_is_not_passed_over(command: str, tmp_path: Path) -> None:
    done = run(tmp_path, command, "--executable", "nowhere", "core")

    assert done.returncode == 2
    assert "'nowhere' does not exist" in told(done)


def test_an_audit_goes_on_after_a_core_that_cannot_be_read(tmp_path: Path) -> None:
    done = run(tmp_path, "core", "--audit", "one", "other")

    assert done.returncode == 2
    assert done.stdout == b""
    assert b"error  one cannot be opened" in done.stderr
    assert b"error  other cannot be opened" in done.stderr


def test_what_an_error_quotes_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "load").write_bytes(b"\x1b[31mred\n")

    said = told(run(tmp_path, "sandbox", "run", "--load", "load"))

    assert "\x1b" not in said
    assert r"\x1b[31mred" in said


def test_a_report_of_nothing_says_where_to_look_next(tmp_path: Path) -> None:
    (tmp_path / "serve.log").write_text("started\n", encoding="utf-8")

    said = told(run(tmp_path, "report", "serve.log"))

    assert "No source tells of a death." in said
    assert "Next     dmesg -T" in said


def test_a_report_that_could_read_nothing_could_not_tell(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(range(256)) * 40)

    assert run(tmp_path, "report", "data").returncode == 2


@pytest.mark.parametrize("target", ["nowhere/core.mini"])
def test_a_core_is_not_cut_down_into_no_folder(target: str, tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF" + bytes(4000))

    said = told(run(tmp_path, "minify", "core", target))

    assert f"there is no folder for {target}" in said
