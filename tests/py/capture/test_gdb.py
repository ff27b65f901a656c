"""The transport to gdb: a gdb that hangs, dies or floods, and the real one."""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_forensics.capture.gdb import GdbSession, gdb_for, interactive_arguments
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.gdb_mi import parse_records
from vllm_forensics.model.process import Architecture

ANSWER = """
while read -r line; do
  token=${line%%[!0-9]*}
  case "$line" in
    *hang*) sleep 600 ;;
    *die*) exit 3 ;;
    *flood*) head -c 200000 /dev/zero >&2 ;;
    *endless*) yes '~"more"' ;;
  esac
  echo "$token^done,said=\\"$token\\""
done
"""


@pytest.fixture
def fake_gdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called gdb, first on PATH; it writes down its own process id."""
    path = tmp_path / "bin" / "gdb"
    path.parent.mkdir()
    path.write_text(f"#!/bin/bash\necho $$ > {tmp_path}/pid\n{ANSWER}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return path


@pytest.fixture
def session(fake_gdb: Path) -> Iterator[GdbSession]:
    assert fake_gdb.exists()
    with GdbSession(timeout_s=10) as running:
        yield running


def test_every_command_has_its_own_answer(session: GdbSession) -> None:
    first, second = session.command("-one"), session.command("-two")

    said = [str(parse_records(lines).payload["said"]) for lines in (first, second)]
    assert int(said[1]) == int(said[0]) + 1


def test_a_flood_on_standard_error_does_not_stop_it(session: GdbSession) -> None:
    assert parse_records(session.command("-flood")).ok


def test_a_gdb_that_hangs_is_ended_at_the_deadline(session: GdbSession, tmp_path: Path) -> None:
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    started = time.monotonic()

    with pytest.raises(ToolError, match="did not answer -hang in time"):
        session.command("-hang", timeout_s=0.3)

    assert time.monotonic() - started < 8
    assert not Path(f"/proc/{pid}").exists()


def test_a_gdb_that_dies_is_an_error_and_stays_one(session: GdbSession) -> None:
    with pytest.raises(ToolError, match="gdb ended while it worked on -die"):
        session.command("-die")

    with pytest.raises(ToolError, match="not running any more"):
        session.command("-next")


def test_output_without_end_is_bounded(
    session: GdbSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm_forensics.capture import gdb
    from vllm_forensics.capture.process import Limits

    monkeypatch.setattr(gdb, "Limits", lambda: Limits(output_bytes=1 << 20))

    with pytest.raises(ToolError, match="printed more than 1 MiB"):
        session.command("-endless")


def test_its_folder_is_removed_also_after_an_error(fake_gdb: Path, tmp_path: Path) -> None:
    assert fake_gdb.exists()
    link = ""

    with contextlib.suppress(ToolError), GdbSession(timeout_s=10) as running:
        link = running.link(str(tmp_path / "a file\nwith a newline"))
        assert Path(link).is_symlink()
        running.command("-die")

    assert link
    assert not Path(link).parent.exists()


def test_a_gdb_that_does_not_come_up_is_an_error(fake_gdb: Path) -> None:
    fake_gdb.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")

    with pytest.raises(ToolError, match="gdb"), GdbSession(timeout_s=5):
        pass


def test_a_missing_gdb_says_how_to_get_it() -> None:
    with (
        pytest.raises(ToolError, match="no-such-gdb is not installed") as caught,
        GdbSession(program="no-such-gdb"),
    ):
        pass

    assert "apt-get install no-such-gdb" in caught.value.remedy


def test_a_link_needs_a_running_gdb() -> None:
    with pytest.raises(ToolError, match="not running"):
        GdbSession().link("/bin/sh")


def test_a_person_gets_the_same_care() -> None:
    arguments = interactive_arguments("/c", "/p", [('/a "b".so', 0x1000)])

    assert arguments[:3] == ["gdb", "-nx", "-q"]
    assert "set auto-load off" in arguments
    assert 'add-symbol-file "/a \\"b\\".so" -o 0x1000' in arguments
    assert arguments[-2:] == ["-ex", "bt"]


@pytest.mark.gdb
def test_the_real_one_starts_and_tells_its_version() -> None:
    with GdbSession(timeout_s=30) as running:
        version = parse_records(running.command("-gdb-version"))
        setting = parse_records(running.command("-gdb-show auto-load safe-path"))
        console = parse_records(running.console('echo "quoted \\\\"'))

    assert version.ok
    assert "GNU gdb" in version.console
    assert setting.ok
    assert "quoted" in console.console


@pytest.mark.gdb
def test_the_real_one_names_its_mistakes() -> None:
    with GdbSession(timeout_s=30) as running:
        found = parse_records(running.command("-data-evaluate-expression nothing"))

    assert not found.ok
    assert found.error is not None
    assert "No symbol" in found.error


def test_cores_of_another_architecture_need_the_gdb_of_all() -> None:
    foreign = {Architecture.S390X: "gdb-multiarch", Architecture.RISCV64: "gdb-multiarch"}

    assert {machine: gdb_for(machine) for machine in foreign} == foreign
    assert interactive_arguments("c", None, [], gdb="gdb-multiarch")[0] == "gdb-multiarch"
