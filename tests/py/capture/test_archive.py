"""Archives from strangers are opened within bounds, or refused with a reason."""

import os
import struct
import zipfile
from pathlib import Path

import pytest

from vllm_forensics.capture import archive
from vllm_forensics.capture.archive import escapes, is_archive, is_symlink, opened_archive
from vllm_forensics.errors import EvidenceError


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as output:
        output.writestr("lib.so", b"\x7fELF" + os.urandom(4096))
    return path


def refusal(path: Path) -> EvidenceError:
    """Why nothing is read out of it."""
    with (  # noqa: PT012
        pytest.raises(EvidenceError) as caught,
        opened_archive(str(path)) as opened,
        Path(os.devnull).open("wb") as nowhere,
    ):
        for entry in opened.entries:
            opened.copy(entry, nowhere)
    assert caught.value.remedy
    return caught.value


def test_every_way_to_cut_an_archive_off_is_refused(packed: Path) -> None:
    whole = packed.read_bytes()

    for size in range(1, len(whole), 37):
        packed.write_bytes(whole[:size])
        refusal(packed)


def test_no_flipped_byte_raises_anything_but_a_refusal(packed: Path) -> None:
    whole = bytearray(packed.read_bytes())

    for position in [*range(60), *range(len(whole) - 120, len(whole))]:
        damaged = whole.copy()
        damaged[position] ^= 0xFF
        packed.write_bytes(damaged)
        try:
            with opened_archive(str(packed)) as opened:
                for entry in opened.entries:
                    opened.head(entry, 1 << 20)
        except EvidenceError as error:
            assert error.remedy  # noqa: PT017


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.whl"
    path.write_bytes(content)

    refusal(path)


def test_a_fifo_and_a_folder_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.whl")

    refusal(tmp_path / "pipe.whl")
    refusal(tmp_path)
    assert not is_archive(str(tmp_path / "pipe.whl"))


def test_a_directory_that_claims_gigabytes_is_not_read(packed: Path) -> None:
    data = bytearray(packed.read_bytes())
    struct.pack_into("<I", data, len(data) - 22 + 12, 1 << 30)
    packed.write_bytes(data)

    assert "entries" in refusal(packed).message


def test_more_entries_than_bounded_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_MAX_ENTRIES", 3)
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as output:
        for number in range(4):
            output.writestr(str(number), b"")

    assert "more than 3 entries" in refusal(path).message


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as output:
        output.writestr("zeros", bytes(300 << 20))

    with opened_archive(str(path)) as opened, pytest.raises(EvidenceError, match="bomb"):
        opened.require_room(list(opened.entries), tmp_path)


def test_more_than_the_disk_has_free_is_refused(packed: Path, tmp_path: Path) -> None:
    with opened_archive(str(packed)) as opened:
        [entry] = opened.entries
        free = os.statvfs(tmp_path)
        entry.file_size = free.f_bavail * free.f_frsize + (1 << 40)
        with pytest.raises(EvidenceError):
            opened.require_room([entry], tmp_path)


def test_an_encrypted_entry_is_refused(packed: Path) -> None:
    data = bytearray(packed.read_bytes())
    data[6] |= 1
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    packed.write_bytes(data)

    assert "lib.so" in refusal(packed).message


def test_a_link_is_told_from_a_file(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16

    assert is_symlink(link)
    assert not is_symlink(zipfile.ZipInfo("file"))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "\\\\host\\x", "c:\\x"])
def test_names_that_lead_outside_are_known(name: str) -> None:
    assert escapes(name)


@pytest.mark.parametrize("name", ["a/b.so", "..a/b", "x-1.dist-info/RECORD", "a b/c"])
def test_honest_names_are_not_suspected(name: str) -> None:
    assert not escapes(name)
