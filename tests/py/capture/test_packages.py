"""Who owns a file, and where its debug information would come from."""

from pathlib import Path

import pytest

from vllm_forensics.capture import packages
from vllm_forensics.capture.packages import debug_file, debug_package, wheel_of


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """dpkg's lists with two packages."""
    (tmp_path / "libc6:amd64.list").write_text("/.\n/lib/x86_64-linux-gnu/libc.so.6\n", "utf-8")
    (tmp_path / "libfoo1.list").write_text("/.\n/usr/lib/libfoo.so.1\n", encoding="utf-8")
    monkeypatch.setattr(packages, "_DPKG_LISTS", tmp_path)
    return tmp_path


def test_the_c_library_has_its_own_debug_package(lists: Path) -> None:
    assert lists.is_dir()
    assert debug_package("/lib/x86_64-linux-gnu/libc.so.6") == "apt-get install libc6-dbg"


def test_a_merged_usr_is_looked_through(lists: Path) -> None:
    assert lists.is_dir()
    assert debug_package("/usr/lib/x86_64-linux-gnu/libc.so.6") == "apt-get install libc6-dbg"


def test_another_package_needs_the_debug_archive(lists: Path) -> None:
    found = debug_package("/usr/lib/libfoo.so.1")

    assert lists.is_dir()
    assert found is not None
    assert found.startswith("apt-get install libfoo1-dbgsym")


def test_part_of_a_path_is_no_match(lists: Path) -> None:
    found = debug_package("/usr/lib/libfoo.so")

    assert lists.is_dir()
    assert found is not None
    assert "DEBUGINFOD_URLS" in found


def test_a_users_own_file_has_no_package() -> None:
    assert debug_package("/opt/app/engine") is None


def test_a_module_of_a_wheel_is_known_by_its_record(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "torch-2.4.0.dist-info").mkdir(parents=True)
    (site / "torch-2.4.0.dist-info" / "RECORD").write_text("torch/lib/libtorch.so,sha256=x,1\n")

    assert wheel_of(f"{site}/torch/lib/libtorch.so") == "torch-2.4.0"
    assert wheel_of(f"{site}/other/lib.so") is None
    assert wheel_of("/opt/app/engine") is None


def test_separate_debug_information_lies_under_its_build_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "DEBUG_FOLDER", tmp_path)
    path = tmp_path / ".build-id" / "ab" / "cdef.debug"
    path.parent.mkdir(parents=True)
    path.touch()

    assert debug_file("abcdef") == path
    assert [debug_file(name) for name in ("abcd00", "ab", "", None)] == [None] * 4
