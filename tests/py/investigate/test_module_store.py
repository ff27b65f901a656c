"""A file on this machine stands for a module only where it is the very one that was mapped."""

import shutil
import subprocess
from pathlib import Path

import pytest

from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.process import Module


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    (folder / "a.c").write_text("int one(void) { return 1; }\n", encoding="utf-8")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,--build-id=0xabcdef01", "-o", "liba.so", "a.c"],
        cwd=folder, check=True,
    )  # fmt: skip
    return folder / "liba.so"


def module(path: str, build_id: str | None = "abcdef01", *, deleted: bool = False) -> Module:
    return Module(path=path, start=0, end=1, bias=0, build_id=build_id, deleted=deleted)


def gap_of(store: ModuleStore, wanted: Module) -> Gap:
    answer = store(wanted)
    assert isinstance(answer, Gap)
    return answer


def test_the_same_build_is_handed_over_once(library: Path) -> None:
    store = ModuleStore()

    first, second = store(module(str(library))), store(module(str(library)))

    assert isinstance(first, Known)
    assert first is second


def test_a_file_that_was_rebuilt_is_refused(library: Path) -> None:
    gap = gap_of(ModuleStore(), module(str(library), "00" * 4))

    assert "was rebuilt or replaced since the crash" in gap.what
    assert gap.remedy


def test_a_core_without_the_build_id_cannot_be_checked(library: Path) -> None:
    gap = gap_of(ModuleStore(), module(str(library), None))

    assert "coredump_filter" in gap.remedy


def test_a_deleted_file_is_gone_or_the_same_build_in_its_place(
    library: Path, tmp_path: Path
) -> None:
    gone = gap_of(ModuleStore(), module(str(tmp_path / "gone.so"), deleted=True))
    back = ModuleStore()(module(str(library), deleted=True))

    assert "was deleted while it was in use" in gone.what
    assert isinstance(back, Known)


def test_a_missing_or_foreign_file_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no ELF", encoding="utf-8")

    for name in ("missing.so", "text.so"):
        assert gap_of(ModuleStore(), module(str(tmp_path / name))).remedy


def test_the_kernels_own_page_is_no_file() -> None:
    assert "kernel's" in gap_of(ModuleStore(), module("[vdso]")).what


def test_a_program_elsewhere_stands_in_for_its_path(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "engine"
    shutil.copy(library, copy)
    store = ModuleStore(str(copy))
    store.program = "/opt/app/engine"

    assert isinstance(store(module("/opt/app/engine")), Known)
    assert store.path_of(module("/opt/other.so")) == "/opt/other.so"


def test_a_file_below_the_sysroot_goes_before_the_one_at_its_path(
    library: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    below = root / str(library).lstrip("/")
    below.parent.mkdir(parents=True)
    shutil.copy(library, below)
    store = ModuleStore(sysroot=f"{root}/")

    assert store.path_of(module(str(library))) == str(below)
    assert store.path_of(module("/nowhere/else.so")) == "/nowhere/else.so"
    assert isinstance(store(module(str(library))), Known)
