"""The command line: what it lists, how it refuses, with which status it ends."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.py.support.core_builder import CoreSpec, build_core

from vllm_forensics import __version__
from vllm_forensics.errors import ForensicsError

KEPT = ("PATH", "HOME", "VLLM_FORENSICS_CASES")
START = "import sys; from vllm_forensics.cli.main import main; sys.argv[0] = 'forensics'; main()"


@dataclass(frozen=True, kw_only=True)
class Ended:
    status: int
    out: str
    err: str


def forensics(
    *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None, before: str = ""
) -> Ended:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    finished = subprocess.run(
        [sys.executable, "-c", before + START, *arguments],
        cwd=cwd, env=environment | (env or {}), capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    return Ended(
        status=finished.returncode,
        out=finished.stdout.decode("utf-8", "replace"),
        err=finished.stderr.decode("utf-8", "replace"),
    )


def squeezed(text: str) -> str:
    """Without the places where a long path was wrapped."""
    return "".join(text.split())


@pytest.fixture
def core(tmp_path: Path) -> Path:
    path = tmp_path / "core.42"
    path.write_bytes(build_core())
    return path


def test_help_lists_every_command_that_there_is() -> None:
    from vllm_forensics.cli import commands

    there = {
        path.stem
        for path in Path(commands.__path__[0]).glob("*.py")
        if not path.stem.startswith("_")
    }

    ended = forensics("--help")

    assert ended.status == 0
    assert {name for name in there if f"\n  {name} " in ended.out} == there


def test_the_version_is_the_packages() -> None:
    assert __version__ in forensics("--version").out


@pytest.mark.parametrize("arguments", [(), ("--help",), ("core", "--help"), ("demo", "-h")])
def test_help_is_no_failure(arguments: Sequence[str]) -> None:
    ended = forensics(*arguments)

    assert "Usage: forensics" in ended.out + ended.err
    assert ended.status == 0 or not arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("--no-such-option",),
        ("core", "--format", "yaml"),
        ("core", "--timeout", "soon"),
        ("core", "--timeout", "-1"),
        ("core", "--no-such-option"),
        ("core", "--gdb", "a", "b"),
    ],
)
def test_bad_usage_ends_with_2_and_no_traceback(arguments: Sequence[str]) -> None:
    ended = forensics(*arguments)

    assert ended.status == 2
    assert ended.err.strip()
    assert "Traceback" not in ended.err


def test_importing_the_command_line_does_not_import_the_commands() -> None:
    script = (
        "import sys, vllm_forensics.cli.main\n"
        "heavy = {'capstone', 'lief', 'msgspec', 'pygdbmi', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_error_has_a_remedy() -> None:
    assert all(issubclass(error, ForensicsError) for error in ForensicsError.__subclasses__())
    with pytest.raises(TypeError):
        ForensicsError("what happened")  # type: ignore[call-arg]


# forensics core


def test_a_crash_ends_with_1(core: Path) -> None:
    ended = forensics("core", "--no-gdb", str(core))

    assert ended.status == 1
    assert "SIGSEGV" in ended.out
    assert "null dereference" in ended.out or "address 0x48" in ended.out


def test_an_input_that_tells_nothing_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no core", encoding="utf-8")

    ended = forensics("core", "--no-gdb", str(tmp_path / "notes.txt"))

    assert ended.status == 2
    assert "is a text file, not a core dump" in ended.out
    assert "Traceback" not in ended.err


def test_one_good_and_one_bad_are_both_told(core: Path) -> None:
    ended = forensics("core", "--no-gdb", str(core), str(core.parent / "missing"))

    assert ended.status == 1
    assert "2 cores" in ended.out
    assert "missing:cannotbeopened" in squeezed(ended.out)
    assert "SIGSEGV" in ended.out


def test_a_report_goes_to_a_file(core: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"

    ended = forensics("core", "--no-gdb", "--format", "json", "--output", str(target), str(core))

    assert (ended.status, ended.out) == (1, "")
    assert '"schema": "forensics.core/1"' in target.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_an_error_with_a_remedy(core: Path) -> None:
    ended = forensics("core", "--no-gdb", "--output", "/no/such/folder/r", str(core))

    assert ended.status == 2
    assert "cannot be written" in ended.err
    assert "--output FILE" in ended.err
    assert "Traceback" not in ended.err


def test_one_sentence_is_enough_where_quiet_is_asked_for(core: Path) -> None:
    assert len(forensics("core", "--no-gdb", "--quiet", str(core)).out.splitlines()) <= 4


def test_secrets_of_the_command_are_masked(tmp_path: Path) -> None:
    from tests.py.support.core_builder import CoreSpec

    path = tmp_path / "core"
    path.write_bytes(build_core(CoreSpec(arguments=b"engine --api-key c4n4ry-s3cret")))

    hidden = forensics("core", "--no-gdb", str(path)).out
    shown = forensics("core", "--no-gdb", "--include-secrets", str(path)).out

    assert "c4n4ry" not in hidden
    assert "--api-key c4n4ry-s3cret" in shown


def test_a_path_that_is_no_utf_8_is_shown_escaped(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/core.caf\xe9")
    Path(path).write_bytes(build_core())

    ended = forensics("core", "--no-gdb", path)

    assert ended.status == 1
    assert r"core.caf\xe9" in squeezed(ended.out)


def test_a_narrow_encoding_does_not_stop_it(core: Path) -> None:
    ended = forensics("core", "--no-gdb", str(core), env={"PYTHONIOENCODING": "ascii"})

    assert ended.status == 1
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("variable", "colored"), [(None, True), ("NO_COLOR", False), ("CI", False)]
)
def test_colour_is_for_terminals_that_want_it(
    core: Path, variable: str | None, colored: bool
) -> None:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment["TERM"] = "xterm"
    if variable:
        environment[variable] = "1"
    main, other = os.openpty()

    with subprocess.Popen(
        [sys.executable, "-c", START, "core", "--no-gdb", str(core)],
        stdout=other, stderr=subprocess.DEVNULL, env=environment,
    ) as child:  # fmt: skip
        os.close(other)
        seen = _read_all(main)

    assert child.returncode == 1
    assert (b"\x1b[" in seen) is colored


def test_no_color_is_an_option_too(core: Path) -> None:
    main, other = os.openpty()

    with subprocess.Popen(
        [sys.executable, "-c", START, "core", "--no-gdb", "--no-color", str(core)],
        stdout=other, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "TERM": "xterm"},
    ):  # fmt: skip
        os.close(other)
        seen = _read_all(main)

    assert b"\x1b[" not in seen


def test_a_reader_that_goes_away_is_no_traceback(core: Path) -> None:
    cores = [str(core)]

    with subprocess.Popen(
        [sys.executable, "-c", START, "core", "--no-gdb", *cores],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read()

    assert b"Traceback" not in said
    assert b"BrokenPipeError" not in said
    assert child.returncode == 141


def _read_all(descriptor: int) -> bytes:
    seen = bytearray()
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # the other end of a pseudo-terminal is closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(descriptor)
    return bytes(seen)


BROKEN = """import sys
from vllm_forensics.diagnosis import explain
judge = explain.find_fault
def failing(image, context):
    if image.process.pid == 7:
        raise KeyError("no such register")
    return judge(image, context)
explain.find_fault = failing
"""
FAILING_TRIAGE = """from vllm_forensics.cli.commands import core
core.triage_each = None
"""


@pytest.mark.parametrize(("pids", "status"), [((42, 7), 1), ((7, 7), 2)])
def test_a_mistake_of_ours_is_a_failure_without_a_traceback(
    tmp_path: Path, pids: tuple[int, ...], status: int
) -> None:
    cores = [tmp_path / f"core.{number}" for number in range(len(pids))]
    for path, pid in zip(cores, pids, strict=True):
        path.write_bytes(build_core(CoreSpec(pid=pid)))

    ended = forensics("core", "--no-store", "--depth", "notes", *map(str, cores), before=BROKEN)

    assert (ended.status, ended.err) == (status, "")
    assert "an error that forensics did not expect: KeyError" in " ".join(ended.out.split())
    assert ("null dereference" in ended.out) == (42 in pids)


@pytest.mark.parametrize("asked", [False, True])
def test_a_mistake_of_ours_anywhere_else_is_told_like_an_error(asked: bool) -> None:
    environment = {"VLLM_FORENSICS_TRACEBACK": "1"} if asked else {}

    ended = forensics("core", before=FAILING_TRIAGE, env=environment)

    assert ended.status == (1 if asked else 2)
    assert ("Traceback (most recent call last)" in ended.err) == asked
    assert asked or ended.err.startswith("error  an error that forensics did not expect: TypeError")
