"""A folder of cores within a budget of disk."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vllm_forensics.capture.prune import prune

CORE_HEAD = b"\x7fELF" + bytes(12) + b"\x04\x00"


def core(folder: Path, name: str, *, age_s: int, size: int = 4096, holes: int = 0) -> Path:
    """A file that starts like a core, `size` bytes on disk and `holes` more that are not there."""
    path = folder / name
    path.write_bytes(CORE_HEAD + b"\1" * (size - len(CORE_HEAD)))
    if holes:
        os.truncate(path, size + holes)
    os.utime(path, (1_000_000 - age_s, 1_000_000 - age_s))
    return path


@pytest.fixture
def left(tmp_path: Path) -> Callable[[], list[str]]:
    return lambda: sorted(path.name for path in tmp_path.iterdir())


def test_prune_keeps_the_newest(tmp_path: Path, left: Callable[[], list[str]]) -> None:
    for age in range(5):
        core(tmp_path, f"core.{age}", age_s=age)

    removed = prune(tmp_path, keep=2, max_bytes=None)

    assert left() == ["core.0", "core.1"]
    assert [path.name for path in removed] == ["core.2", "core.3", "core.4"]


def test_prune_removes_only_cores(tmp_path: Path, left: Callable[[], list[str]]) -> None:
    core(tmp_path, "core.1", age_s=1)
    (tmp_path / "core.notes.txt").write_text("keep me")
    (tmp_path / "core.program").write_bytes(b"\x7fELF" + bytes(12) + b"\x02\x00")
    (tmp_path / "core.folder").mkdir()
    (tmp_path / "core.link").symlink_to("core.1")

    prune(tmp_path, keep=0, max_bytes=None)

    assert left() == ["core.folder", "core.link", "core.notes.txt", "core.program"]


def test_prune_counts_what_is_on_disk(tmp_path: Path, left: Callable[[], list[str]]) -> None:
    core(tmp_path, "core.new", age_s=0, size=8192, holes=1 << 30)
    core(tmp_path, "core.old", age_s=1, size=8192)
    core(tmp_path, "core.older", age_s=2, size=8192)

    prune(tmp_path, keep=None, max_bytes=16384)

    assert left() == ["core.new", "core.old"]


def test_a_core_larger_than_the_room_goes_and_smaller_ones_stay(
    tmp_path: Path, left: Callable[[], list[str]]
) -> None:
    core(tmp_path, "core.huge", age_s=0, size=1 << 20)
    core(tmp_path, "core.old", age_s=1)

    prune(tmp_path, keep=None, max_bytes=1 << 19)

    assert left() == ["core.old"]


def test_prune_of_a_folder_that_is_not_there_removes_nothing(tmp_path: Path) -> None:
    assert prune(tmp_path / "none", keep=0, max_bytes=0) == ()
