"""The store of cases, with real files and real processes."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vllm_forensics.errors import StoreError
from vllm_forensics.model.cases import ModuleBuild, Seen, Sighting
from vllm_forensics.model.signature import SignaturePart
from vllm_forensics.store.cases import opened_cases
from vllm_forensics.store.layout import APPLICATION_ID, MIGRATIONS

BUG = "v1:memory-access:vllm::copy:0123456789ab"
OTHER = "v1:abort:vllm::check:ba9876543210"
DEEP, SHALLOW = 2, 1


def sighting(core: str = "c1", signature: str = BUG, seen_s: float = 1000.0) -> Sighting:
    return Sighting(
        core=core,
        signature=signature,
        parts=(SignaturePart(name="signal", value="memory-access"),),
        path=f"/cores/{core}",
        host="gpu-1",
        seen_s=seen_s,
        depth=DEEP,
        builds=(ModuleBuild(module="_C.so", build_id="aa"),),
        example='{"core": "c1"}',
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "cases.sqlite"


def record(path: Path, *found: Sighting) -> dict[str, Seen]:
    with opened_cases(path) as store:
        return store.record(found)


def counts(path: Path) -> dict[str, int]:
    with opened_cases(path) as store:
        return {case.signature: case.count for case in store.cases()}


def test_a_bug_is_new_once_and_then_known(path: Path) -> None:
    assert record(path, sighting()) == {BUG: Seen(count=0)}

    seen = record(path, sighting("c2", seen_s=2000.0))

    assert seen == {BUG: Seen(count=1, first_s=1000.0, last_s=1000.0)}
    assert counts(path) == {BUG: 2}


def test_the_same_core_counts_once(path: Path) -> None:
    record(path, sighting("c1"), sighting("c2"))

    again = record(path, sighting("c1"), sighting("c2"))

    assert again == {BUG: Seen(count=2, first_s=1000.0, last_s=1000.0)}
    assert counts(path) == {BUG: 2}


def test_all_that_is_kept_comes_back(path: Path) -> None:
    found = replace(sighting("c2", seen_s=2.0), host="gpu-2", example='{"core": "c2"}')
    record(path, sighting(seen_s=1.0), found)

    with opened_cases(path) as store:
        store.note(BUG, "fixed in 0.6.3")
        [case] = store.cases(whole=True)

    assert (case.count, case.first_s, case.last_s) == (2, 1.0, 2.0)
    assert case.hosts == ("gpu-1", "gpu-2")
    assert case.builds == (ModuleBuild(module="_C.so", build_id="aa"),)
    assert case.parts == sighting().parts
    assert [core.path for core in case.cores] == ["/cores/c2", "/cores/c1"]
    assert (case.note, case.example) == ("fixed in 0.6.3", '{"core": "c1"}')


def test_a_note_is_said_with_the_next_core(path: Path) -> None:
    record(path, sighting())
    with opened_cases(path) as store:
        store.note(BUG, "known")

    assert record(path, sighting("c2"))[BUG].note == "known"


@pytest.mark.parametrize("prefix", ["v1:mem", BUG, "0123", BUG.replace("vllm::copy", "********")])
def test_a_case_is_found_by_the_beginning_of_its_signature_or_hash(path: Path, prefix: str) -> None:
    record(path, sighting(), sighting("c2", OTHER))

    with opened_cases(path) as store:
        assert [case.signature for case in store.cases(prefix)] == [BUG]


def test_what_is_forgotten_is_new_again(path: Path) -> None:
    record(path, sighting(), sighting("c2", OTHER))
    with opened_cases(path) as store:
        store.forget([BUG])

    assert counts(path) == {OTHER: 1}
    assert record(path, sighting()) == {BUG: Seen(count=0)}
    with opened_cases(path) as store:
        assert len(store.cases(BUG, whole=True)[0].cores) == 1


def test_a_deeper_look_moves_a_core_to_its_case_and_a_shallower_one_does_not(path: Path) -> None:
    shallow = replace(sighting(signature=OTHER), depth=SHALLOW)
    record(path, shallow)

    record(path, sighting())
    record(path, shallow)

    assert counts(path) == {BUG: 1}


def test_the_example_is_of_the_deepest_look(path: Path) -> None:
    record(path, replace(sighting(), depth=SHALLOW, example='{"depth": "stack"}'))
    record(path, replace(sighting("c2"), example='{"depth": "full"}'))
    record(path, replace(sighting("c3"), depth=SHALLOW, example='{"depth": "again"}'))

    with opened_cases(path) as store:
        assert store.cases(whole=True)[0].example == '{"depth": "full"}'


def test_a_thousand_cores_are_one_transaction(path: Path) -> None:
    statements: list[str] = []
    with opened_cases(path) as store:
        store._connection.set_trace_callback(statements.append)
        store.record([sighting(f"c{number}") for number in range(1000)])

    assert counts(path) == {BUG: 1000}
    assert [line for line in statements if line.startswith(("BEGIN", "COMMIT"))] == [
        "BEGIN IMMEDIATE",
        "COMMIT",
    ]


def test_it_is_for_its_user_alone_and_lies_in_a_write_ahead_log(path: Path) -> None:
    record(path, sighting())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert raw.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    raw.close()


def test_on_a_network_file_system_a_rollback_journal_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(path, sighting())  # made on a local disk, and moved since
    monkeypatch.setattr("vllm_forensics.store.cases.is_on_network", lambda path: True)

    record(path, sighting("c2"))

    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    raw.close()
    assert counts(path) == {BUG: 2}


def a_database(path: Path, *statements: str) -> None:
    path.parent.mkdir()
    raw = sqlite3.connect(path)
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


def test_another_programs_database_is_left_alone(path: Path) -> None:
    a_database(path, "CREATE TABLE theirs (a)")
    before = path.read_bytes()

    with pytest.raises(StoreError, match="another program"):
        record(path, sighting())

    assert path.read_bytes() == before


def test_a_newer_versions_store_is_left_alone(path: Path) -> None:
    a_database(path, f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 99")

    with pytest.raises(StoreError, match="newer version"):
        record(path, sighting())


def test_an_older_versions_store_is_brought_up_to_date(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(path, sighting())
    later = (*MIGRATIONS, ("ALTER TABLE cases ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",))
    monkeypatch.setattr("vllm_forensics.store.layout.MIGRATIONS", later)

    record(path, sighting("c2"))

    raw = sqlite3.connect(path)
    assert raw.execute("SELECT colour FROM cases").fetchall() == [("red",)]
    assert raw.execute("PRAGMA user_version").fetchone() == (len(later),)
    raw.close()
    assert counts(path) == {BUG: 2}


def test_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(path, sighting())
    broken = (*MIGRATIONS, ("ALTER TABLE cases ADD COLUMN colour TEXT", "no statement"))
    monkeypatch.setattr("vllm_forensics.store.layout.MIGRATIONS", broken)
    with pytest.raises(StoreError, match="syntax error"):
        record(path, sighting("c2"))
    monkeypatch.undo()

    assert counts(path) == {BUG: 1}


@pytest.mark.parametrize(
    "damage", [b"not a database at all " * 400, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_a_damaged_store_is_an_error_with_a_remedy(path: Path, damage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(damage)

    with pytest.raises(StoreError) as caught:
        record(path, sighting())

    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_a_folder_in_its_place_is_an_error_with_a_remedy(path: Path) -> None:
    path.mkdir(parents=True)

    with pytest.raises(StoreError, match="cannot be opened: Is a directory"):
        record(path, sighting())


def test_a_lock_that_is_never_let_go_is_an_error(path: Path) -> None:
    record(path, sighting())
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    with (
        pytest.raises(StoreError, match="locked by another process"),
        opened_cases(path, wait_s=0.05) as store,
    ):
        store.record([sighting("c2")])

    holder.close()


ROOT = str(Path(__file__).resolve().parents[3])
RECORDER = """\
import sys
from pathlib import Path
from tests.py.store.test_cases import sighting
from vllm_forensics.store.cases import opened_cases
for number in range(40):
    with opened_cases(Path(sys.argv[1]), wait_s=120) as store:
        store.record([sighting(f"{sys.argv[2]}.{number}"), sighting("shared")])
"""


def start(program: str, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


def test_processes_at_once_lose_nothing(path: Path) -> None:
    workers = [start(RECORDER, str(path), f"w{number}") for number in range(4)]

    for worker in workers:
        worker.communicate()

    assert [worker.returncode for worker in workers] == [0] * 4
    assert counts(path) == {BUG: 4 * 40 + 1}


WRITER = """\
import sys
from pathlib import Path
from tests.py.store.test_cases import sighting
from vllm_forensics.store.cases import opened_cases
with opened_cases(Path(sys.argv[1])) as store:
    for number in range(1_000_000):
        store.record([sighting(f"{number}.{part}") for part in range(50)])
        print(number, flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing_that_it_had_recorded(path: Path) -> None:
    """Killed at different points, each time in the middle of what it does."""
    for rounds in (1, 4, 9):
        child = start(WRITER, str(path))
        assert child.stdout is not None
        for _ in range(rounds):
            child.stdout.readline()
        time.sleep(0.003 * rounds)
        child.send_signal(signal.SIGKILL)
        told = rounds + len(child.stdout.read().splitlines())
        child.wait()
        child.stdout.close()

        known = counts(path)[BUG]

        assert known >= told * 50
        assert known % 50 == 0, "a part of a transaction"
        raw = sqlite3.connect(path)
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        raw.close()
