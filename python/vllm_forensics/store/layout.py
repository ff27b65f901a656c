"""The tables of the store, by version; an older store is brought up to date when it is opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from vllm_forensics.errors import StoreError

APPLICATION_ID: Final = 0x76_66_63_73
"""In the file's header: the letters vfcs."""
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """
        CREATE TABLE cases (
            key TEXT PRIMARY KEY,          -- version and hash of the signature
            signature TEXT NOT NULL,
            note TEXT NOT NULL DEFAULT '',
            parts TEXT NOT NULL,           -- a JSON array of [name, value]
            example TEXT NOT NULL,         -- a crash as JSON
            example_depth INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE sightings (
            core TEXT PRIMARY KEY,         -- a key of the crash itself: each core counts once
            key TEXT NOT NULL REFERENCES cases (key) ON DELETE CASCADE,
            seen_s REAL NOT NULL,
            host TEXT NOT NULL,
            path TEXT NOT NULL,
            depth INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
        "CREATE INDEX sightings_by_case ON sightings (key, seen_s)",
        """
        CREATE TABLE builds (
            key TEXT NOT NULL REFERENCES cases (key) ON DELETE CASCADE,
            module TEXT NOT NULL,
            build_id TEXT NOT NULL,
            PRIMARY KEY (key, module, build_id)
        ) WITHOUT ROWID
        """,
    ),
)
"""Statements from each version to the next; what was released is never changed again."""


def bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables, or change those of an older version, in one transaction.

    Raises:
        StoreError: the file is another program's, or a newer version's.

    """
    if _version(connection, path) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Again: another process may have done it while this one waited.
        for script in MIGRATIONS[_version(connection, path) :]:
            for statement in script:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (tables or application or version):
        raise StoreError(
            f"{path} is another program's database",
            remedy="VLLM_FORENSICS_CASES=/another/cases.sqlite, or --no-store",
        )
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer version of this tool",
            remedy="update it, or VLLM_FORENSICS_CASES=/another/cases.sqlite, or --no-store",
        )
    return int(version)
