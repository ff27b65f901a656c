"""The cases in SQLite: each core counts once, whatever is triaged again, and by how many at once.

Every write is one transaction that takes the write lock at its beginning and waits for it: a
transaction that reads first and writes then fails at once where another wrote meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.errors import StoreError
from vllm_forensics.model.cases import Case, CaseCore, ModuleBuild, Seen, Sighting
from vllm_forensics.model.sanitizer_sieve import signature_key
from vllm_forensics.model.signature import SignaturePart
from vllm_forensics.store.layout import bring_up_to_date
from vllm_forensics.store.location import is_on_network

_WAIT_S: Final = 10.0
_PAUSE_S: Final = 0.02
_ELSEWHERE: Final = "VLLM_FORENSICS_CASES=/another/cases.sqlite, or --no-store"


@contextlib.contextmanager
def opened_cases(path: Path, wait_s: float = _WAIT_S) -> Iterator[CaseStore]:
    """The store at `path`, made where there is none, with its folder.

    `wait_s` is how long each step waits for other processes.

    Raises:
        StoreError: it cannot be opened, read or written, or is no store; also out of the block.

    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Paths and command lines are nobody else's business; SQLite's own files follow this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
    except (OSError, sqlite3.Error, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{path} cannot be opened: {reason}", remedy=_ELSEWHERE) from error
    try:
        _prepare(connection, path, wait_s)
        yield CaseStore(connection)
    except sqlite3.Error as error:
        raise _store_error(error, path) from error
    finally:
        connection.close()


def is_there(path: Path) -> bool:
    """Is there a store already?

    Raises:
        StoreError: that cannot be asked.

    """
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{path} cannot be opened: {reason}", remedy=_ELSEWHERE) from error
    return True


class CaseStore:
    """An opened store. Its methods raise sqlite3.Error, which `opened_cases` translates."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """The connection stays the caller's to close."""
        self._connection = connection

    def record(self, sightings: Sequence[Sighting]) -> dict[str, Seen]:
        """Count cores that were not counted before; by signature, what was known until now."""
        with self._transaction("BEGIN IMMEDIATE"):
            signatures = dict.fromkeys(sighting.signature for sighting in sightings)
            seen = {signature: self._seen(signature_key(signature)) for signature in signatures}
            for sighting in sightings:
                self._add(sighting)
        return seen

    def seen(self, signature: str) -> Seen:
        """What is known of a signature until now."""
        with self._transaction("BEGIN"):
            return self._seen(signature_key(signature))

    def cases(self, prefix: str = "", *, whole: bool = False) -> tuple[Case, ...]:
        """Cases whose signature, or its hash, begins with `prefix`, the latest first.

        `whole`: with cores and example.
        """
        with self._transaction("BEGIN"):
            rows = self._connection.execute(
                "SELECT key, signature, note, parts, example, count(core), min(seen_s), max(seen_s)"
                " FROM cases LEFT JOIN sightings USING (key) GROUP BY key"
                " ORDER BY max(seen_s) DESC, key"
            ).fetchall()
            return tuple(self._case(row, whole=whole) for row in rows if _matches(row[1], prefix))

    def note(self, signature: str, text: str) -> None:
        """Keep a note with a case; an empty one takes it away."""
        with self._transaction("BEGIN IMMEDIATE"):
            self._connection.execute(
                "UPDATE cases SET note = ? WHERE key = ?", (text, signature_key(signature))
            )

    def forget(self, signatures: Iterable[str]) -> None:
        """Remove cases with all that is kept of them."""
        with self._transaction("BEGIN IMMEDIATE"):
            self._connection.executemany(
                "DELETE FROM cases WHERE key = ?",
                [(signature_key(signature),) for signature in signatures],
            )

    # Within a transaction.

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _add(self, sighting: Sighting) -> None:
        run = self._connection.execute
        key = signature_key(sighting.signature)
        known = run("SELECT key, depth FROM sightings WHERE core = ?", (sighting.core,)).fetchone()
        if known is not None and (known[1] > sighting.depth or known == (key, sighting.depth)):
            return
        run(
            "INSERT INTO cases (key, signature, parts, example, example_depth)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
            " example = excluded.example, example_depth = excluded.example_depth"
            " WHERE excluded.example_depth > example_depth",
            (
                key,
                sighting.signature,
                json.dumps([(part.name, part.value) for part in sighting.parts]),
                sighting.example,
                sighting.depth,
            ),
        )
        run(
            "INSERT INTO sightings VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (core) DO UPDATE"
            " SET key = excluded.key, depth = excluded.depth",
            (
                sighting.core,
                key,
                sighting.seen_s,
                sighting.host,
                sighting.path,
                sighting.depth,
            ),
        )
        self._connection.executemany(
            "INSERT OR IGNORE INTO builds VALUES (?, ?, ?)",
            [(key, build.module, build.build_id) for build in sighting.builds],
        )
        if known is not None and known[0] != key:
            # A deeper look found more: the case that it was taken for may have no core left.
            run(
                "DELETE FROM cases WHERE key = ? AND note = ''"
                " AND NOT EXISTS (SELECT 1 FROM sightings WHERE key = ?)",
                (known[0], known[0]),
            )

    def _seen(self, key: str) -> Seen:
        count, first, last = self._connection.execute(
            "SELECT count(*), min(seen_s), max(seen_s) FROM sightings WHERE key = ?", (key,)
        ).fetchone()
        row = self._connection.execute("SELECT note FROM cases WHERE key = ?", (key,)).fetchone()
        return Seen(count=count, first_s=first, last_s=last, note=row[0] if row else "")

    def _case(self, row: tuple[str, str, str, str, str, int, float, float], *, whole: bool) -> Case:
        key, signature, note, parts, example, count, first, last = row
        hosts = self._connection.execute(
            "SELECT DISTINCT host FROM sightings WHERE key = ? ORDER BY host", (key,)
        )
        builds = self._connection.execute(
            "SELECT module, build_id FROM builds WHERE key = ? ORDER BY module, build_id", (key,)
        )
        cores = self._connection.execute(
            "SELECT path, host, seen_s FROM sightings WHERE key = ? ORDER BY seen_s DESC, path",
            (key if whole else "",),
        )
        return Case(
            signature=signature,
            count=count,
            first_s=first,
            last_s=last,
            note=note,
            parts=tuple(SignaturePart(name=name, value=value) for name, value in _pairs(parts)),
            hosts=tuple(host for (host,) in hosts),
            builds=tuple(ModuleBuild(module=module, build_id=build) for module, build in builds),
            cores=tuple(CaseCore(path=path, host=host, seen_s=at) for path, host, at in cores),
            example=example if whole else "",
        )


def _matches(signature: str, prefix: str) -> bool:
    """By how the signature begins, or its hash; NAME is not compared where a whole one is given."""
    return (
        signature.startswith(prefix)
        or signature.rpartition(":")[2].startswith(prefix)
        or signature_key(signature) == signature_key(prefix)
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return [(str(name), str(value)) for name, value in json.loads(text)]
    except (ValueError, TypeError):
        return []


def _prepare(connection: sqlite3.Connection, path: Path, wait_s: float) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    # Before anything is changed in what may be another program's file.
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    bring_up_to_date(connection, path)
    wanted = "delete" if is_on_network(path) else "wal"
    deadline = time.monotonic() + wait_s
    while mode != wanted:
        # Waiting for other processes does not include this change.
        try:
            (mode,) = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more exactly where
    said = f"{path}: {error}"
    if code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
        return StoreError(
            f"{said}: it is damaged",
            remedy=f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.damaged')}    # then again",
        )
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreError(
            f"{path} was locked by another process all the while", remedy="once more, or --no-store"
        )
    return StoreError(said, remedy=_ELSEWHERE)
