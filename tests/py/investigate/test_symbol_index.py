"""Debug files are found by what is in them, never by what they are called."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.py.support.wheels import compile_library

from vllm_forensics.capture import symbol_files
from vllm_forensics.errors import EvidenceError, ForensicsError, UsageError
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.symbol_index import SymbolIndex, list_places, open_symbols
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.process import Module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A library in all forms: whole, stripped, only its debug information."""
    whole = compile_library(tmp_path / "whole.so")
    subprocess.run(["strip", "-o", str(tmp_path / "bare.so"), str(whole)], check=True)
    (tmp_path / "debug").mkdir()
    debug = tmp_path / "debug" / "some name.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(whole), str(debug)], check=True)
    whole.unlink()
    return tmp_path


def test_a_folder_gives_the_debug_file_and_the_code(folder: Path) -> None:
    with open_symbols([str(folder)]) as index:
        assert index.debug_file("abcdef01") == str(folder / "debug" / "some name.debug")
        assert index.module_file("abcdef01") == str(folder / "bare.so")


def test_another_build_is_never_handed_out(folder: Path) -> None:
    layout = folder / "debug" / ".build-id" / "00"
    layout.mkdir(parents=True)
    (folder / "debug" / "some name.debug").rename(layout / "112233.debug")

    with open_symbols([str(folder)]) as index:
        assert index.debug_file("00112233") is None
        assert index.debug_file(None) is None
        assert index.debug_file("abcdef01") is not None


def test_a_single_file_is_a_place_too(folder: Path) -> None:
    with open_symbols([str(folder / "debug" / "some name.debug")]) as index:
        assert index.debug_file("abcdef01")
        assert index.module_file("abcdef01") is None


def test_an_archive_is_unpacked_under_names_of_our_own_and_removed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    archive = tmp_path / "symbols.zip"
    debug = (folder / "debug" / "some name.debug").read_bytes()
    link = zipfile.ZipInfo("link.so")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(archive, "w") as output:
        output.writestr("../../escaped.so", debug)
        output.writestr("/absolute.so", debug)
        output.writestr(link, "/etc/passwd")
        output.writestr("text.so", "no ELF")

    with open_symbols([str(archive)]) as index:
        found = index.debug_file("abcdef01")
        assert found is not None
        assert Path(found).is_relative_to(temporary)
        assert len([path for path in temporary.rglob("*") if path.is_file()]) == 2

    assert list(temporary.iterdir()) == []
    assert not (tmp_path.parent / "escaped.so").exists()


def test_pipes_and_circles_in_a_folder_are_passed_over(folder: Path) -> None:
    os.mkfifo(folder / "pipe.so")
    (folder / "circle").symlink_to(folder)

    assert len(list_places([str(folder)]).files) == 2


def test_a_folder_without_end_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol_files, "_MAX_FILES", 2)

    with pytest.raises(EvidenceError, match="more than 2 files"):
        list_places([str(folder)])


def test_a_place_without_use_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    for place in (tmp_path, tmp_path / "notes.txt", tmp_path / "missing"):
        with pytest.raises(ForensicsError) as caught, open_symbols([str(place)]):
            pass
        assert caught.value.remedy


def test_a_library_without_a_build_id_is_listed_as_of_no_use(tmp_path: Path) -> None:
    compile_library(tmp_path / "a.so", build_id="none")

    listing = list_places([str(tmp_path)])

    assert listing.files == ()
    [unused] = listing.unused
    assert unused.module == "a.so"
    assert "--build-id" in (unused.remedy or "")
    with pytest.raises(UsageError), open_symbols([str(tmp_path)]):
        pass


def test_damaged_elf_files_stop_nothing(folder: Path) -> None:
    whole = (folder / "bare.so").read_bytes()
    for size in (5, 40, 64, 100, 500, 2000):
        (folder / f"cut{size}.so").write_bytes(whole[:size])

    listing = list_places([str(folder)])

    assert {file.module for file in listing.files} >= {"bare.so", "debug/some name.debug"}
    assert all(unused.why for unused in listing.unused)


def mapped(path: Path, build_id: str = "abcdef01") -> Module:
    return Module(path=str(path), start=0, end=1, bias=0, build_id=build_id, deleted=False)


def test_a_stripped_module_gets_the_debug_information_that_was_given(folder: Path) -> None:
    with open_symbols([str(folder / "debug")]) as index:
        answer = ModuleStore(symbols=index)(mapped(folder / "bare.so"))

    assert isinstance(answer, Known)
    assert answer.value.has_debug_info
    assert answer.value.debug is not None


def test_the_very_module_stands_in_for_one_that_is_missing_or_rebuilt(folder: Path) -> None:
    rebuilt = compile_library(folder / "rebuilt.so", build_id="0x99999999")
    with open_symbols([str(folder / "bare.so")]) as index:
        store = ModuleStore(symbols=index)
        for path in (folder / "elsewhere.so", rebuilt):
            module = mapped(path)
            assert isinstance(store(module), Known)
            assert store.path_of(module) == str(folder / "bare.so")


def test_debug_information_alone_does_not_stand_in_for_code(folder: Path) -> None:
    with open_symbols([str(folder / "debug")]) as index:
        answer = ModuleStore(symbols=index)(mapped(folder / "elsewhere.so"))

    assert isinstance(answer, Gap)


def test_an_empty_index_knows_nothing() -> None:
    assert not SymbolIndex()
    with open_symbols([]) as index:
        assert not index
