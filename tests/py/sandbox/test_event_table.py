"""A recording as Parquet holds what its lines hold, and is read by the same function."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet
from tests.py.cli.test_main import forensics

from vllm_forensics.capture.event_table import event_table
from vllm_forensics.capture.sandbox_files import event_lines
from vllm_forensics.errors import EvidenceError

RUN = ("sandbox", "run", "--gpu-blocks", "40", "--snapshot", "end", "--events")
WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
from vllm_forensics.cli.main import main
main()
"""
IMPORTED = """
import sys
from vllm_forensics.cli.main import cli
cli.main(sys.argv[1:], standalone_mode=False)
print("pyarrow" in sys.modules)
"""


def python(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same run, as lines and as a table."""
    folder = tmp_path_factory.mktemp("recorded")
    lines, table = folder / "run.jsonl", folder / "run.parquet"
    for file in (lines, table):
        assert forensics(*RUN, str(file)).status == 0
    return lines, table


def test_a_table_gives_back_the_same_lines(recorded: tuple[Path, Path]) -> None:
    lines, table = recorded

    assert list(event_lines(str(table))) == list(event_lines(str(lines)))
    assert table.stat().st_size < lines.stat().st_size / 3


def test_the_columns_of_events_have_types_and_times(recorded: tuple[Path, Path]) -> None:
    found = parquet.read_table(recorded[1])

    types = {field.name: str(field.type) for field in found.schema}
    times = found["time_us"].to_pylist()
    assert types["block"] == types["generation"] == types["step"] == "int64"
    assert types["request"] == types["function"] == "string"
    assert times == sorted(times)
    assert times[-1] < 60_000_000
    events = [row for row in found.to_pylist() if row["json"] is None]
    assert {"allocate", "free"} <= {row["kind"] for row in events}
    assert all(row["block"] is not None for row in events)


def test_a_command_that_takes_a_recording_takes_a_table(recorded: tuple[Path, Path]) -> None:
    ended = forensics("sandbox", "diff", *map(str, recorded))

    assert ended.status == 0
    assert ended.out.startswith("alike")


def test_many_rows_are_written_group_by_group(tmp_path: Path) -> None:
    file = tmp_path / "many.parquet"

    with event_table(str(file)) as append:
        for number in range(120_000):
            append((number, "use", 0, "gpu", number % 7, 1, "r", None, None, None, None, None))

    written = parquet.ParquetFile(file)
    assert written.num_row_groups == 3
    assert sum(1 for _ in event_lines(str(file))) == 120_000


def test_without_pyarrow_it_is_said_what_to_install(
    recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    written = python(WITHOUT_PYARROW, *RUN, str(tmp_path / "x.parquet"))
    read = python(WITHOUT_PYARROW, "sandbox", "diff", *map(str, recorded))

    for ended in (written, read):
        assert ended.returncode == 2
        assert "needs pyarrow" in ended.stderr
        assert "vllm-forensics[sandbox]" in ended.stderr


def test_pyarrow_is_not_imported_for_lines(tmp_path: Path) -> None:
    ended = python(IMPORTED, *RUN, str(tmp_path / "x.jsonl"))

    assert ended.stdout.endswith("False\n"), ended.stderr


@pytest.mark.parametrize("kept", [4, 200, -20])
def test_a_table_that_is_damaged_is_said_to_be(
    kept: int, recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "damaged.parquet"
    file.write_bytes(recorded[1].read_bytes()[:kept])

    with pytest.raises(EvidenceError, match="cannot be read as Parquet"):
        list(event_lines(str(file)))


def test_a_table_of_something_else_is_no_recording(tmp_path: Path) -> None:
    import pyarrow

    file = tmp_path / "other.parquet"
    parquet.write_table(pyarrow.table({"a": [1]}), file)

    with pytest.raises(EvidenceError, match="other columns than a recording"):
        list(event_lines(str(file)))


def test_a_table_that_cannot_be_written_says_so() -> None:
    ended = forensics(*RUN, "/nowhere/x.parquet")

    assert ended.status == 2
    assert "give another --events FILE" in ended.err
