"""Bundles: what is written comes back, and a hostile one gets nowhere."""

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.py.support.core_builder import build_core

from vllm_forensics.capture import bundle
from vllm_forensics.capture.bundle import (
    debug_name,
    is_bundle,
    module_name,
    unpack_bundle,
    write_bundle,
)
from vllm_forensics.capture.core_sources import find_cores, is_core, opened_core
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.model.bundle import Member, MemberKind

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BUILD = "ab" * 20
CORE = build_core() + bytes(1 << 20)
MODULE = b"\x7fELF of a module"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    sources = tmp_path / "sources"
    sources.mkdir()
    members = []
    for number, (kind, name, held) in enumerate(
        (
            (MemberKind.CORE, "core", CORE),
            (MemberKind.MODULE, module_name(BUILD, "/opt/a b/libm\udcff.so"), MODULE),
            (MemberKind.DEBUG, debug_name(BUILD), b""),
        )
    ):
        source = sources / str(number)
        source.write_bytes(held)
        members.append(Member(kind=kind, name=name, source=str(source), size_bytes=len(held)))
    target = tmp_path / "made.tar.zst"
    assert write_bundle(target, b"{}", members) == target.stat().st_size
    return target


def archive(*entries: tuple[str, bytes] | tarfile.TarInfo, manifest: bytes = b"{}") -> bytes:
    """A tar as a stranger may make it."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as made:
        for entry in (("manifest.json", manifest), *entries):
            if isinstance(entry, tarfile.TarInfo):
                made.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                made.addfile(info, io.BytesIO(entry[1]))
    return raw.getvalue()


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1000] for at in range(0, len(data), 1000))


def unpack(data: bytes, folder: Path) -> bundle.Unpacked:
    folder.mkdir()
    return unpack_bundle(pieces(data), folder)


def linked(kind: bytes, name: str = "core", target: str = "/etc/passwd") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_what_is_written_comes_back(written: Path) -> None:
    with opened_core(str(written)) as kept:
        assert Path(kept.file).read_bytes() == CORE
        assert [(file.name, Path(file.path).read_bytes()) for file in kept.modules] == [
            (f"modules/{BUILD}/libm_.so", MODULE),
            (f"debug/{BUILD}.debug", b""),
        ]
        assert kept.gap is None
        folder = Path(kept.file).parent

    assert not folder.exists()


def test_holes_of_the_core_stay_holes(written: Path) -> None:
    with opened_core(str(written)) as kept:
        assert Path(kept.file).stat().st_blocks * 512 < len(CORE) // 2


def test_it_is_found_among_cores_and_is_for_its_user_alone(written: Path) -> None:
    assert is_core(str(written))
    assert find_cores([str(written.parent)]) == [str(written)]
    assert written.stat().st_mode & 0o777 == 0o600


def test_tar_opens_it_and_what_it_gives_is_still_a_bundle(written: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.tar"
    plain.write_bytes(zstd.decompress(written.read_bytes()))

    with tarfile.open(plain) as opened:
        assert opened.getnames()[:2] == ["manifest.json", "core"]
    with opened_core(str(plain)) as kept:
        assert Path(kept.file).read_bytes() == CORE


def test_the_same_contents_give_the_same_bytes(written: Path, tmp_path: Path) -> None:
    source = tmp_path / "core"
    source.write_bytes(CORE)
    member = Member(kind=MemberKind.CORE, name="core", source=str(source), size_bytes=len(CORE))

    write_bundle(tmp_path / "a", b"{}", [member])
    source.touch()
    write_bundle(tmp_path / "b", b"{}", [member])

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "core"
    source.write_bytes(b"short")
    member = Member(kind=MemberKind.CORE, name="core", source=str(source), size_bytes=99)

    with pytest.raises(UsageError, match="cannot be written"):
        write_bundle(tmp_path / "out", b"{}", [member])
    with pytest.raises(UsageError, match="cannot be written"):
        write_bundle(tmp_path / "no" / "out", b"{}", [])

    assert [path.name for path in tmp_path.iterdir()] == ["core"]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param((("../../evil", b"x"),), id="a path upwards"),
        pytest.param((("/etc/evil", b"x"),), id="an absolute path"),
        pytest.param((("modules/abababab/../../evil", b"x"),), id="a path upwards in a module"),
        pytest.param((("modules/abababab/a/b", b"x"),), id="a folder in a module"),
        pytest.param((("modules/abababab/..", b"x"),), id="the folder above as a module"),
        pytest.param((("modules/abababab/.x", b"x"),), id="a hidden file as a module"),
        pytest.param((("x" * 300, b"x"),), id="a long name"),
        pytest.param((linked(tarfile.SYMTYPE),), id="a symbolic link"),
        pytest.param((linked(tarfile.LNKTYPE),), id="a hard link"),
        pytest.param((linked(tarfile.CHRTYPE),), id="a device"),
        pytest.param((linked(tarfile.DIRTYPE, "modules"),), id="a folder"),
        pytest.param((("core", CORE), ("core", CORE)), id="two cores"),
        pytest.param((("manifest.json", b"{}"),), id="two manifests"),
        pytest.param((), id="no core"),
    ],
)
def test_what_we_never_write_is_refused(
    entries: tuple[tuple[str, bytes] | tarfile.TarInfo, ...], tmp_path: Path
) -> None:
    with pytest.raises(EvidenceError) as caught:
        unpack(archive(*entries), tmp_path / "in")

    assert caught.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert {path.suffix for path in (tmp_path / "in").iterdir()} <= {".file"}


def test_extended_headers_are_refused_however_large_they_claim_to_be(tmp_path: Path) -> None:
    info = tarfile.TarInfo("core")
    info.type, info.size = tarfile.XHDTYPE, 7 << 30

    with pytest.raises(EvidenceError, match="no plain tar"):
        unpack(archive(info), tmp_path / "in")


def test_counts_and_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(f"modules/{number:08x}/m", b"") for number in range(20)]
    data = archive(("core", CORE), *many)
    monkeypatch.setattr(bundle, "_MAX_MEMBERS", 10)
    with pytest.raises(EvidenceError, match="more than any bundle"):
        unpack(data, tmp_path / "many")
    monkeypatch.undo()

    monkeypatch.setattr(bundle, "LARGEST_BUNDLE", len(CORE))
    with pytest.raises(EvidenceError, match="more than any bundle"):
        unpack(data, tmp_path / "large")
    monkeypatch.undo()

    monkeypatch.setattr(bundle, "_MAX_MANIFEST", 10)
    with pytest.raises(EvidenceError, match="no manifest"):
        unpack(archive(("core", CORE), manifest=b"{}" * 10), tmp_path / "manifest")


def test_a_cut_off_module_costs_itself_and_a_cut_off_core_is_used_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    data = archive(
        ("core", CORE), ("modules/abababab/a", b"whole"), ("modules/cdcdcdcd/b", MODULE * 999)
    )
    at = data.index(MODULE) + 3000

    less = unpack(data[:at], tmp_path / "less")
    least = unpack(data[:5000], tmp_path / "least")

    assert [file.name for file in less.files] == ["modules/abababab/a"]
    assert less.gap is not None
    assert "1 modules were unpacked" in less.gap.what
    assert CORE.startswith(Path(least.core).read_bytes())
    assert Path(least.core).stat().st_size > 3000


@pytest.mark.parametrize("end", [0, 100, 512, 1024, 1400])
def test_without_any_of_the_core_it_is_an_error(tmp_path: Path, end: int) -> None:
    with pytest.raises(EvidenceError):
        unpack(archive(("core", CORE))[:end], tmp_path / "in")


@pytest.mark.parametrize("at", [0, 124, 148, 156, 257, 345, 1024 + 124, 1024 + 150, 1024 + 156])
def test_a_changed_header_is_refused(tmp_path: Path, at: int) -> None:
    data = bytearray(archive(("core", CORE)))
    data[at] ^= 0x7F

    with pytest.raises(EvidenceError):
        unpack(bytes(data), tmp_path / "in")


@pytest.mark.parametrize(
    ("path", "leaf"),
    [
        ("/usr/lib/_ctypes.cpython-311.so", "_ctypes.cpython-311.so"),
        ("/opt/..", "_.."),
        ("/opt/", "_"),
        ("/opt/" + "é" * 200, "_" * 79),
    ],
)
def test_a_modules_name_is_made_harmless(path: str, leaf: str) -> None:
    assert module_name(BUILD, path) == f"modules/{BUILD}/{leaf}"


def test_other_archives_are_no_bundles() -> None:
    assert is_bundle(archive()[:64])
    assert not is_bundle(archive()[1:])
    assert not is_bundle(b"")
