"""A tar of sources is unpacked once, inside of its folder, and within bounds."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from vllm_forensics.capture.foreign_build import source_archive
from vllm_forensics.capture.foreign_build.source_archive import unpack_sources
from vllm_forensics.errors import UsageError


def pack(path: Path, *names: str, size: int = 0) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime = size, 1_600_000_000
            tar.addfile(member, io.BytesIO(bytes(size)))
    return path


def test_the_only_folder_in_it_is_the_tree(tmp_path: Path) -> None:
    archive = pack(tmp_path / "own-1.0.tar.gz", "own-1.0/setup.py", "own-1.0/src/own.c")

    tree = unpack_sources(archive, tmp_path / "to")

    assert tree == tmp_path / "to" / "own-1.0" / "own-1.0"
    assert (tree / "src" / "own.c").stat().st_mtime == 1_600_000_000


def test_files_without_a_folder_around_them_are_the_tree(tmp_path: Path) -> None:
    archive = pack(tmp_path / "own.tar", "setup.py", "own.c")

    tree = unpack_sources(archive, tmp_path / "to")

    assert tree == tmp_path / "to" / "own"
    assert (tree / "setup.py").is_file()


def test_it_is_unpacked_again_only_when_it_changed(tmp_path: Path) -> None:
    archive = pack(tmp_path / "own.tgz", "own/a.c")
    kept = unpack_sources(archive, tmp_path / "to") / "kept"
    kept.touch()
    unpack_sources(archive, tmp_path / "to")
    was_kept = kept.exists()
    pack(archive, "own/a.c", "own/b.c")
    os.utime(archive, (1, 1))

    tree = unpack_sources(archive, tmp_path / "to")

    assert was_kept
    assert not kept.exists()
    assert (tree / "b.c").exists()


@pytest.mark.parametrize("name", ["../outside.c", "own/../../outside.c"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    archive = pack(tmp_path / "own.tar", name)

    with pytest.raises(UsageError, match="cannot be unpacked"):
        unpack_sources(archive, tmp_path / "to")

    assert not list(tmp_path.rglob("outside.c"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no tar", b"\x1f\x8b\x08 broken"])
def test_what_is_no_tar_is_refused(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "own.tar.gz"
    archive.write_bytes(content)

    with pytest.raises(UsageError, match="cannot be unpacked"):
        unpack_sources(archive, tmp_path / "to")


def test_more_than_sources_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_archive, "_MAX_BYTES", 1 << 20)
    archive = pack(tmp_path / "own.tar.gz", "own/a", "own/b", size=600_000)

    with pytest.raises(UsageError, match="more than sources do"):
        unpack_sources(archive, tmp_path / "to")
