"""Crashes that systemd's journal tells of, through journal files that systemd itself wrote.

The records are tests/py/data/journal/: real ones, made by its make.sh.
"""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.py.integration.tool import COMMAND, Json, forensics
from tests.py.support.core_builder import CoreSpec, build_core
from tests.py.support.namespaces import need_own_mounts

DATA = Path(__file__).parent.parent / "data" / "journal"
CORE = (
    "/var/lib/systemd/coredump/core.cache.65534.e34598b047a34f9aab756b0ff4808e84.14751."
    "1795986239000000.zst"
)
SIGNATURE_OF_THE_BUG = "v1:memory-access:cache::read_block:"
REMOTE = "/lib/systemd/systemd-journal-remote"


def journal_of(export: bytes, path: Path) -> Path:
    """A journal file of journald's own kind with these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.with_suffix(".export")
    text.write_bytes(export)
    subprocess.run(
        [REMOTE, f"--output={path}", str(text)], check=True, capture_output=True, timeout=60
    )
    return path


def told(*arguments: str | Path, status: int = 1) -> Json:
    answer = forensics("core", "--format", "json", "--no-store", *arguments)
    assert answer.status == status, answer.stdout + answer.stderr
    return answer.report


def gap_of(crash: Json) -> str:
    [gap] = crash["gaps"]
    return f"{gap['what']} → {gap['remedy']}"


@pytest.mark.parametrize("kind", ["export", "json", "info", "journal", "folder", "gz"])
def test_a_crash_without_its_core_is_told_from_its_record(tmp_path: Path, kind: str) -> None:
    place = DATA / f"kept.{kind}"
    export = (DATA / "kept.export").read_bytes()
    if kind in {"journal", "folder"}:
        place = journal_of(export, tmp_path / ("ab" * 16) / "system.journal")
        place = place if kind == "journal" else tmp_path
    elif kind == "gz":
        place = tmp_path / "crashes.gz"
        place.write_bytes(gzip.compress(export))

    [crash] = told(place)["crashes"]

    assert crash["core"] == CORE
    assert crash["kept_by"] == "systemd-coredump"
    assert crash["kept_facts"]["host"] == "crashed"
    assert crash["kept_facts"]["user"] == "65534"
    assert (crash["pid"], crash["signal"]["name"], crash["signal"]["code"]) == (
        14751,
        "SIGSEGV",
        None,
    )
    assert (crash["fault"]["kind"], crash["fault"]["address"]) == ("unknown", None)
    assert crash["culprit"]["function"] == "cache::read_block"
    assert {frame["tier"] for frame in crash["threads"][0]["frames"]} == {"journal"}
    assert crash["signature"].startswith(SIGNATURE_OF_THE_BUG)
    assert crash["architecture"] == "x86-64"
    assert "kept on crashed" in gap_of(crash)
    assert "coredumpctl dump 14751" in gap_of(crash)


def test_of_an_abort_nothing_is_claimed_that_stood_in_memory(tmp_path: Path) -> None:
    record = (DATA / "kept.export").read_bytes()
    record = record.replace(b"COREDUMP_SIGNAL=11", b"COREDUMP_SIGNAL=6")
    (tmp_path / "abort.export").write_bytes(record)

    [crash] = told(tmp_path / "abort.export")["crashes"]

    assert crash["explanation"] == (
        "It was ended by SIGABRT. The nearest call in its own code is cache::read_block."
    )


def test_secrets_of_a_command_line_are_masked() -> None:
    answer = forensics("core", "--no-store", DATA / "kept.export")

    assert "--port 80" in answer.stdout
    assert "sk-notreal" not in answer.stdout


def test_why_a_core_was_not_kept_is_told(tmp_path: Path) -> None:
    by_limit = (DATA / "unkept.export").read_bytes()
    by_limit = by_limit.replace(b"COREDUMP_RLIMIT=18446744073709551615", b"COREDUMP_RLIMIT=0")
    (tmp_path / "limit.export").write_bytes(by_limit)

    [truncated] = told(DATA / "truncated.export")["crashes"]
    [unkept] = told(DATA / "unkept.export")["crashes"]
    [limited] = told(tmp_path / "limit.export")["crashes"]

    assert "larger than ProcessSizeMax=" in gap_of(truncated)
    assert truncated["depth"] == "notes"
    assert truncated["fault"]["kind"] == "unknown"
    assert "Storage=none" in gap_of(unkept)
    assert "LimitCORE=infinity" in gap_of(limited)


def test_a_core_that_its_retention_removed_is_told_so(tmp_path: Path) -> None:
    host = os.uname().nodename.encode()
    record = (DATA / "kept.export").read_bytes().replace(b"=crashed\n", b"=" + host + b"\n")
    (tmp_path / "here.export").write_bytes(record)

    [crash] = told(tmp_path / "here.export")["crashes"]

    assert "is gone: removed since" in gap_of(crash)
    assert "MaxUse=" in gap_of(crash)


def test_a_core_that_is_here_is_read_and_the_record_adds_to_it(tmp_path: Path) -> None:
    core = tmp_path / "core.cache"
    core.write_bytes(build_core())
    record = (DATA / "kept.export").read_bytes().replace(CORE.encode(), str(core).encode())
    record = record.replace(b"COREDUMP_PID=", b"COREDUMP_TRUNCATED=1\nCOREDUMP_PID=")
    record = record.replace(b"COREDUMP_SLICE=-.slice", b"COREDUMP_UNIT=serve.service")
    (tmp_path / "crashes.export").write_bytes(record)

    [crash] = told(tmp_path / "crashes.export")["crashes"]

    assert crash["core"] == str(core)
    assert crash["threads"][0]["registers"]
    assert crash["kept_facts"]["unit"] == "serve.service"
    assert crash["command"].startswith("/opt/cache-demo/cache --port 80")
    assert any("cut off: it was larger" in gap["what"] for gap in crash["gaps"])


def with_core_inside(form: str, core: bytes) -> bytes:
    """The record as Storage=journal would have made it, behind another."""
    whole = (DATA / f"kept.{form}").read_bytes()
    other = whole.replace(b"14751", b"14752")
    if form == "json":
        record = json.loads(whole)
        del record["COREDUMP_FILENAME"]
        return other + json.dumps(record | {"COREDUMP": list(core)}).encode() + b"\n"
    lines = [line for line in whole.split(b"\n") if not line.startswith(b"COREDUMP_FILENAME=")]
    field = b"COREDUMP\n" + len(core).to_bytes(8, "little") + core
    return other + b"\n".join([lines[0], field, *lines[1:]])


@pytest.mark.parametrize("form", ["export", "json", "gz", "journal", "folder"])
def test_a_core_in_the_journal_itself_is_read_out_of_it(tmp_path: Path, form: str) -> None:
    core = build_core(CoreSpec(pid=14751))
    export = with_core_inside("json" if form == "json" else "export", core)
    place = tmp_path / f"crashes.{form}"
    if form in {"journal", "folder"}:
        place = journal_of(export, tmp_path / ("ab" * 16) / "system.journal")
        place = place if form == "journal" else tmp_path
    else:
        place.write_bytes(gzip.compress(export) if form == "gz" else export)

    crashes = {crash["pid"]: crash for crash in told("--depth", "notes", place)["crashes"]}

    assert crashes.keys() == {14751, 14752}
    assert crashes[14751]["core"].startswith(f"{place}!/core.14751")
    assert crashes[14751]["fault"]["kind"] == "null-dereference"
    assert crashes[14751]["kept_facts"]["host"] == "crashed"
    assert crashes[14752]["fault"]["kind"] == "unknown"


def test_a_core_that_a_journal_file_no_longer_has_is_a_failure(tmp_path: Path) -> None:
    export = with_core_inside("export", build_core(CoreSpec(pid=14751)))
    place = journal_of(export, tmp_path / "system.journal")
    gone = f"{place}!/core.14751@s={'ab' * 16};i=99"

    [failure] = told("--depth", "notes", gone, status=2)["failures"]

    assert failure["path"] == gone
    assert "could not be read out of the journal" in failure["error"]


def test_a_core_in_a_journal_that_is_none_is_a_failure(tmp_path: Path) -> None:
    place = tmp_path / "crashes.export"
    place.write_bytes(with_core_inside("export", b"no core at all"))

    report = told(place)

    [failure] = report["failures"]
    assert failure["path"].startswith(f"{place}!/core.14751@")
    assert [crash["pid"] for crash in report["crashes"]] == [14752]


def test_many_records_become_groups_and_since_leaves_out_the_old(tmp_path: Path) -> None:
    records = [(DATA / f"{case}.export").read_bytes() for case in ("kept", "unkept", "truncated")]
    place = tmp_path / "all.export"
    place.write_bytes(b"\n".join(records))

    report = told(place)
    later = told(place, "--since", "2026-11-29T21:04:03")

    assert [crash["pid"] for crash in report["crashes"]] == [14751, 14899, 14772]
    assert report["groups"][0]["count"] == 2
    assert [crash["pid"] for crash in later["crashes"]] == [14899]


def test_a_journal_without_a_crash_is_a_failure_that_says_so(tmp_path: Path) -> None:
    place = tmp_path / "quiet.export"
    place.write_bytes(b"__CURSOR=a\nMESSAGE=all is well\n\n")

    [failure] = told(place, status=2)["failures"]

    assert "no core dump" in failure["error"]
    assert "forensics log" in failure["remedy"]


def test_a_damaged_journal_file_is_a_failure_and_no_traceback(tmp_path: Path) -> None:
    whole = journal_of((DATA / "kept.export").read_bytes(), tmp_path / "a.journal").read_bytes()
    damaged = tmp_path / "damaged.journal"
    damaged.write_bytes(whole[:300])

    report = told(damaged, status=2)

    assert report["failures"][0]["error"]


IN_A_MACHINE_OF_ITS_OWN = """
set -e
mount -t tmpfs tmpfs /var/log
mount -t tmpfs tmpfs /run
mkdir -p /var/log/journal/$(cat /etc/machine-id)
cp "$1" /var/log/journal/$(cat /etc/machine-id)/system.journal
shift
exec "$@"
"""


@pytest.mark.parametrize("arguments", [["--journal"], [CORE], []])
def test_this_machines_own_journal_is_asked(tmp_path: Path, arguments: list[str]) -> None:
    need_own_mounts()
    journal = journal_of((DATA / "kept.export").read_bytes(), tmp_path / "a.journal")
    command = [COMMAND, "core", "--format", "json", "--no-store", "-q", *arguments]

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", IN_A_MACHINE_OF_ITS_OWN, "sh", journal, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )

    assert f'"core": "{CORE}"' in done.stdout, done.stdout + done.stderr
    assert '"function": "cache::read_block"' in done.stdout
