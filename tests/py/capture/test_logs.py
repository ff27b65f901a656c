"""Logs as they are handed over: compressed, cut off, damaged, in archives, through a pipe."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest

from vllm_forensics.capture.logs import find_logs, open_logs, read_log
from vllm_forensics.errors import EvidenceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(b"line %d of a log that says %d\n" % (at, at * at % 997) for at in range(4_000))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": lambda data: bz2.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zstd": zstd.compress,
    "lz4": lz4.frame.compress,
}


def read(path: Path) -> bytes:
    return b"".join(read_log(str(path)))


def members(path: Path) -> dict[str, bytes]:
    return {log.name.partition("!")[2]: b"".join(log.pieces) for log in open_logs(str(path))}


def as_far_as_possible(path: Path) -> tuple[bytes, EvidenceError | None]:
    pieces = []
    try:
        for log in open_logs(str(path)):
            for piece in log.pieces:
                pieces.append(piece)
    except EvidenceError as error:
        return b"".join(pieces), error
    return b"".join(pieces), None


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_compressed_log_is_expanded_whatever_it_is_called(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_bytes(COMPRESS[kind](TEXT))

    assert read(log) == TEXT


@pytest.mark.parametrize("kind", COMPRESS)
def test_several_members_are_one_log(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_bytes(COMPRESS[kind](TEXT) + COMPRESS[kind](b"the end\n") + b"\0" * 512)

    assert read(log) == TEXT + b"the end\n"


@pytest.mark.parametrize("kind", COMPRESS)
def test_what_came_before_the_data_was_cut_off_is_kept(kind: str, tmp_path: Path) -> None:
    text = os.urandom(300_000).hex().encode()
    packed = COMPRESS[kind](text)
    log = tmp_path / "worker.log"
    log.write_bytes(packed[: len(packed) * 3 // 4])

    kept, error = as_far_as_possible(log)

    assert error is not None
    assert "cut off" in error.message
    assert text.startswith(kept)
    assert len(kept) > len(text) // 2


@pytest.mark.parametrize("kind", ["gzip", "zstd", "lz4"])
def test_what_came_before_the_damage_is_kept(kind: str, tmp_path: Path) -> None:
    packed = bytearray(COMPRESS[kind](os.urandom(400_000) + TEXT))
    packed[350_000:350_064] = b"\xff" * 64
    packed[-60:-40] = b"\xff" * 20
    log = tmp_path / "worker.log"
    log.write_bytes(packed)

    kept, error = as_far_as_possible(log)

    assert error is not None
    assert len(kept) > 200_000


def test_what_follows_compressed_data_is_said_and_not_guessed_at(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_bytes(gzip.compress(b"first\n") + b"plain text\n")

    kept, error = as_far_as_possible(log)

    assert kept == b"first\n"
    assert error is not None
    assert "something else follows" in error.message


def test_a_frame_that_readers_skip_may_come_first(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_bytes(b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd.compress(TEXT))

    assert read(log) == TEXT


def test_a_log_may_be_compressed_twice(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_bytes(gzip.compress(zstd.compress(TEXT)))

    assert read(log) == TEXT


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_bomb_takes_no_memory(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "bomb"
    log.write_bytes(COMPRESS[kind](b"imports its decoder"))
    read(log)
    log.write_bytes(COMPRESS[kind](bytes(32 << 20)))

    tracemalloc.start()
    size = sum(len(piece) for piece in read_log(str(log)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert size == 32 << 20
    assert peak < 16 << 20


def test_a_window_larger_than_zstd_itself_would_take_is_refused(tmp_path: Path) -> None:
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes(((31 - 10) << 3,)) + b"\x01\0\0"
    log = tmp_path / "window"
    log.write_bytes(frame)

    with pytest.raises(EvidenceError, match="damaged"):
        read(log)


@pytest.mark.parametrize("kind", [*COMPRESS, "plain"])
def test_standard_input_may_be_compressed(kind: str) -> None:
    packed = COMPRESS[kind](TEXT) if kind in COMPRESS else TEXT
    program = (
        "import sys; from vllm_forensics.capture.logs import open_logs\n"
        "for log in open_logs('-'):\n"
        "    for piece in log.pieces: sys.stdout.buffer.write(piece)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], input=packed, capture_output=True, check=True, timeout=60
    )

    assert done.stdout == TEXT


def tar(*files: tuple[str, bytes], mode: str = "w", form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


LONG = "logs/" + "very-long-name-" * 20 + "/worker.log"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("kind", ["plain", *COMPRESS])
def test_a_tar_is_its_members(form: int, kind: str, tmp_path: Path) -> None:
    name = LONG if form != tarfile.USTAR_FORMAT else "logs/" + "long" * 12 + "/" + "x" * 90
    packed = tar((name, TEXT), ("empty", b""), ("b.log", b"second\n"), form=form)
    archive = tmp_path / "artifact"
    archive.write_bytes(COMPRESS[kind](packed) if kind in COMPRESS else packed)

    assert members(archive) == {name: TEXT, "empty": b"", "b.log": b"second\n"}


def test_members_that_are_not_read_are_passed_over(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(tar(("one", TEXT), ("two", b"x" * 700), ("three", TEXT)))

    names = [log.name for log in open_logs(str(archive))]

    assert names == [f"{archive}!{name}" for name in ("one", "two", "three")]


def test_links_and_devices_of_a_tar_are_no_logs(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as out:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE):
            entry = tarfile.TarInfo("other")
            entry.type, entry.linkname = kind, "/etc/passwd"
            out.addfile(entry)
        entry = tarfile.TarInfo("log")
        entry.size = 2
        out.addfile(entry, io.BytesIO(b"a\n"))

    assert members(archive) == {"log": b"a\n"}


def test_a_tar_that_is_cut_off_gives_what_it_has(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(tar(("one", b"first\n"), ("two", TEXT))[:20_000])

    kept, error = as_far_as_possible(archive)

    assert kept.startswith(b"first\nline 0")
    assert error is not None
    assert "cut off" in error.message


def test_a_damaged_header_ends_a_tar(tmp_path: Path) -> None:
    packed = bytearray(tar(("one", b"first\n"), ("two", TEXT)))
    packed[1024:1040] = b"\xff" * 16
    archive = tmp_path / "a.tar"
    archive.write_bytes(packed)

    kept, error = as_far_as_possible(archive)

    assert kept == b"first\n"
    assert error is not None
    assert "after 1 members is damaged" in error.message


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_zip_is_its_members(method: int, tmp_path: Path) -> None:
    path = tmp_path / "logs_17.zip"
    with zipfile.ZipFile(path, "w", method) as out:
        out.writestr("0_build.txt", TEXT)
        out.writestr("build/", b"")
        out.writestr("build/2_Run tests.txt.gz", gzip.compress(b"inner\n"))

    assert members(path) == {"0_build.txt": TEXT, "build/2_Run tests.txt.gz": b"inner\n"}


def test_a_damaged_member_of_a_zip_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        out.writestr("one", b"first\n" * 50)
        out.writestr("two", b"second\n")
    path.write_bytes(path.read_bytes().replace(b"first\nfirst\n", b"XXXXX\nfirst\n", 1))

    found: dict[str, object] = {}
    for log in open_logs(str(path)):
        try:
            found[log.name] = b"".join(log.pieces)
        except EvidenceError as error:
            found[log.name] = error

    assert isinstance(found[f"{path}!one"], EvidenceError)
    assert found[f"{path}!two"] == b"second\n"


def test_a_zip_that_claims_a_huge_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("one", b"x")
    packed = bytearray(path.read_bytes())
    at = packed.rfind(b"PK\x05\x06")
    packed[at + 12 : at + 16] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(packed)

    with pytest.raises(EvidenceError, match="list of members"):
        members(path)


@pytest.mark.parametrize("lost", [40, 200, 3_000])
def test_a_zip_that_lost_its_end_gives_what_it_has(lost: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("one", b"first\n")
        out.writestr("two", TEXT)
    path.write_bytes(path.read_bytes()[:-lost])

    kept, error = as_far_as_possible(path)

    assert (b"first\n" + TEXT).startswith(kept)
    assert kept.startswith(b"first\nline 0")
    assert (error is not None) == (lost > 40)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_may_come_through_a_pipe_or_be_compressed(method: int, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("folder/", b"")
        archive.writestr("one", TEXT)
        archive.writestr("two.zst", zstd.compress(b"second\n"))
    path = tmp_path / "a.zip.gz"
    path.write_bytes(gzip.compress(out.getvalue()))

    assert members(path) == {"one": TEXT, "two.zst": b"second\n"}


class Pipe(io.RawIOBase):
    """What zipfile takes for a pipe: it writes sizes behind the data then."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return len(data)  # type: ignore[arg-type]


def test_sizes_may_stand_behind_the_data_of_a_streamed_zip(tmp_path: Path) -> None:
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one", TEXT)
        archive.writestr("two", b"second\n")
    path = tmp_path / "a.zip.gz"
    path.write_bytes(gzip.compress(pipe.data))

    assert members(path) == {"one": TEXT, "two": b"second\n"}


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="No such file"):
        list(read_log(str(tmp_path / "none")))


def test_a_family_of_logs_is_found_by_its_path(tmp_path: Path) -> None:
    for pid in ("12", "7", "x"):
        (tmp_path / f"asan.{pid}").write_bytes(b"")

    assert find_logs([str(tmp_path / "asan")]) == [str(tmp_path / f"asan.{pid}") for pid in (12, 7)]


def test_zlib_is_not_gzip(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(zlib.compress(b"text"))

    assert read(log) == zlib.compress(b"text")


@pytest.mark.parametrize("hole", [1, 5_000, 3_000_000])
def test_a_hole_before_a_text_is_passed_over(hole: int, tmp_path: Path) -> None:
    path = tmp_path / "rotated.log"
    with path.open("wb") as file:
        file.truncate(hole)
        file.seek(hole)
        file.write(TEXT)

    assert b"".join(read_log(str(path))) == TEXT
    ((name, pieces, _),) = open_logs(str(path))
    assert name == str(path)
    del pieces


def test_nothing_but_zeros_stays_zeros(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(bytes(300_000))

    assert set(b"".join(read_log(str(path)))) == {0}


def test_a_device_without_end_is_read_no_further_than_a_hole_may_be() -> None:
    pieces = read_log("/dev/zero")

    assert set(next(pieces)) == {0}
