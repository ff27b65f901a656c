"""Runtimes on this machine, and paths that LD_PRELOAD cannot hold."""

from pathlib import Path

import pytest

from vllm_forensics.capture.sanitizer_runtime import (
    find_modules,
    find_runtime,
    preload_list,
    runtimes_of,
    standard_library,
)
from vllm_forensics.errors import ToolError


@pytest.mark.parametrize("family", ["gcc", "clang"])
@pytest.mark.parametrize("flavour", ["asan", "asan-ubsan", "ubsan", "tsan"])
def test_every_runtime_of_both_compilers_is_found(family: str, flavour: str) -> None:
    paths = runtimes_of(family, flavour)

    assert paths
    assert all(Path(path).is_file() and path == str(Path(path).resolve()) for path in paths)


def test_a_soname_is_found_too() -> None:
    [shared] = runtimes_of("gcc", "asan")
    soname = ".".join(Path(shared).name.split(".")[:3])

    assert find_runtime(soname) == shared


def test_what_is_not_there_is_said_with_its_package() -> None:
    with pytest.raises(ToolError) as gcc:
        find_runtime("libasan.so.99")
    with pytest.raises(ToolError) as clang:
        find_runtime("libclang_rt.nosuch-x86_64.so")

    assert "apt-get install g++" in gcc.value.remedy
    assert "libclang-rt-" in clang.value.remedy


def test_conda_has_a_standard_library_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    own = tmp_path / "lib" / "libstdc++.so.6"
    own.touch()

    assert standard_library(str(tmp_path)) == str(own)
    assert standard_library("/nowhere") not in {None, str(own)}


def test_a_path_with_a_space_or_a_colon_is_given_through_a_link(tmp_path: Path) -> None:
    odd = tmp_path / "a b:c" / "lib d.so"
    odd.parent.mkdir()
    odd.write_text("library")

    with preload_list(["/usr/lib/plain.so", str(odd)]) as value:
        plain, link = value.split(" ")
        seen = Path(link).read_text()

    assert (plain, seen) == ("/usr/lib/plain.so", "library")
    assert ":" not in value
    assert not Path(link).parent.exists()


def test_modules_are_looked_for_below_and_not_in_hidden_folders(tmp_path: Path) -> None:
    for name in ("a/x.so", "a/b/y.cpython-311.so", ".venv/z.so", "a/text.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    found = {Path(path).name for path in find_modules([tmp_path])}

    assert found == {"x.so", "y.cpython-311.so"}
