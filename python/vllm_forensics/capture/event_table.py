"""Recordings as Parquet: typed columns, written in row groups, so that memory stays bounded.

pyarrow is imported here alone, and only when such a file is written or read. A Parquet file is
readable once it was closed: of a process that is killed meanwhile nothing is left, unlike of lines.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from vllm_forensics.errors import EvidenceError, UsageError

MAGIC: Final = b"PAR1"
_ROWS: Final = 50_000
"""Of one row group: some 20 MB as Python objects."""
_COLUMNS: Final[Mapping[str, str]] = {
    "step": "int64",
    "kind": "string",
    "time_us": "int64",
    "pool": "string",
    "block": "int64",
    "generation": "int64",
    "request": "string",
    "source": "int64",
    "function": "string",
    "file": "string",
    "line": "int32",
    "json": "string",
}
"""`time_us`: since the recording began. `json`: the whole line, of lines that are no event."""
_NOT_OF_A_LINE: Final = frozenset({"time_us", "json"})


def _parquet(what: str) -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            f"{what} needs pyarrow",
            remedy="pip install 'vllm-forensics[sandbox]'; or name a file .jsonl",
        ) from error


class _Table:
    """Rows that are written a row group at a time."""

    def __init__(self, path: str) -> None:
        """Create the file.

        Raises:
            UsageError: pyarrow is missing, or the file cannot be written.

        """
        self._arrow, parquet = _parquet("a Parquet file")
        self._schema = self._arrow.schema(
            [(name, getattr(self._arrow, kind)()) for name, kind in _COLUMNS.items()]
        )
        self._rows: list[Sequence[Any]] = []
        try:
            self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")
        except OSError as error:
            raise _unwritable(path, error) from error

    def append(self, row: Sequence[Any]) -> None:
        """Add one row."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self._write()

    def _write(self) -> None:
        columns = [
            self._arrow.array(values, type=field.type)
            for values, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._rows.clear()
        self._writer.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Write what is left, and what makes it a file."""
        if self._rows:
            self._write()
        self._writer.close()


@contextmanager
def event_table(path: str) -> Iterator[Callable[[Sequence[Any]], None]]:
    """A function that appends a row to a new Parquet file: the values of all columns, in order.

    Raises:
        UsageError: pyarrow is missing, or the file cannot be written.

    """
    table = _Table(path)
    try:
        yield table.append
        table.close()
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: str, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}",
        remedy="give another --events FILE",
    )


def table_lines(path: str) -> Iterator[bytes]:
    """The lines of a recording that was written as Parquet, a row group at a time.

    Raises:
        UsageError: pyarrow is missing.
        EvidenceError: it is damaged, or was never closed, or has other columns.

    """
    arrow, parquet = _parquet(f"{path} is Parquet, and reading it")
    try:
        with parquet.ParquetFile(Path(path)) as file:
            if set(_COLUMNS) - set(file.schema_arrow.names):
                raise EvidenceError(
                    "has other columns than a recording",
                    remedy="write one with forensics sandbox run --events FILE.parquet",
                )
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(_COLUMNS)):
                for row in batch.to_pylist():
                    yield _line(row)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise EvidenceError(
            f"cannot be read as Parquet: {str(error).splitlines()[0]}",
            remedy="was the run ended before it closed the file? name it .jsonl to keep what was",
        ) from error


def _line(row: dict[str, Any]) -> bytes:
    if row["json"] is not None:
        return str(row["json"]).encode() + b"\n"
    known = {k: v for k, v in row.items() if v is not None and k not in _NOT_OF_A_LINE}
    return msgspec.json.encode(known) + b"\n"
