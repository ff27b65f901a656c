"""What a source tree says about its build, and what of it is copied."""

import os
import subprocess
from pathlib import Path

import pytest

from vllm_forensics.capture.foreign_build.recipes import detect
from vllm_forensics.capture.foreign_build.tree import (
    copy_tree,
    files_below,
    read_tree,
    root_to_copy,
)
from vllm_forensics.errors import UsageError


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def backend(name: str) -> str:
    return f'[build-system]\nrequires = []\nbuild-backend = "{name}"\n'


@pytest.mark.parametrize(
    ("files", "recipe"),
    [
        ({"pyproject_dot_toml": backend("scikit_build_core.build")}, "scikit-build-core"),
        ({"pyproject_dot_toml": backend("mesonpy")}, "meson-python"),
        ({"pyproject_dot_toml": backend("setuptools.build_meta")}, "setuptools"),
        ({"pyproject_dot_toml": backend("hatchling.build")}, "other backend"),
        ({"pyproject_dot_toml": "[project]\nname = 'it'\n"}, "setuptools"),
        ({"pyproject_dot_toml": "[build-system]\nrequires = ['setuptools']\n"}, "setuptools"),
        ({"setup_dot_py": "", "CMakeLists_dot_txt": ""}, "setuptools"),
        ({"CMakeLists_dot_txt": ""}, "cmake"),
        # pyproject.toml may hold nothing but a linter's settings.
        ({"CMakeLists_dot_txt": "", "pyproject_dot_toml": "[tool.ruff]\n"}, "cmake"),
        (
            {
                "pyproject_dot_toml": backend("own_backend") + "backend-path = ['.']\n",
                "setup_dot_py": "",
            },
            "setuptools",
        ),
    ],
)
def test_the_build_system_is_found(tmp_path: Path, files: dict[str, str], recipe: str) -> None:
    assert detect(read_tree(write(tmp_path, **files))).name == recipe


@pytest.mark.parametrize("contents", [b"[build-system\n", b"\xff\xfe"])
def test_a_damaged_pyproject_is_refused(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(contents)

    with pytest.raises(UsageError, match=r"pyproject\.toml cannot be read"):
        read_tree(tmp_path)


@pytest.mark.parametrize("name", [b"b\xffd", b"line\nbreak", b"\x1b[2J"])
def test_a_path_that_no_text_can_hold_is_refused(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()

    with pytest.raises(UsageError, match="no readable path"):
        read_tree(folder)


def test_fields_of_another_type_are_passed_over(tmp_path: Path) -> None:
    text = "[build-system]\nrequires = 3\nbuild-backend = []\nbackend-path = 1\n"

    tree = read_tree(write(tmp_path, pyproject_dot_toml=text))

    assert detect(tree).name == "setuptools"
    assert tree.requirements
    assert tree.backend_path == ()


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(
        ["git", *own, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in files_below(folder))


def test_a_copy_holds_what_a_fresh_clone_with_the_changes_would(tmp_path: Path) -> None:
    source = write(
        tmp_path / "it",
        _dot_gitignore="*.so\nbuild/\n",
        kept_dot_c="one",
        gone_dot_c="",
        stale_dot_so="",
        build__old_dot_o="",
        _dot_forensics__asan__source__kept_dot_c="",
    )
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "all")
    git(source, "tag", "v1.5")
    (source / "gone.c").unlink()
    (source / "new file.c").write_text("")
    (source / "kept.c").write_text("two")
    (source / "link.c").symlink_to("kept.c")

    copy_tree(source, tmp_path / "copy")

    copied = [name for name in names(tmp_path / "copy") if not name.startswith(".git")]
    assert copied == ["kept.c", "new file.c"]
    assert (tmp_path / "copy" / "kept.c").read_text() == "two"
    assert (tmp_path / "copy" / "link.c").readlink() == Path("kept.c")
    assert git(tmp_path / "copy", "describe", "--tags") == "v1.5\n"


def test_a_tree_without_git_is_copied_without_what_builds_left(tmp_path: Path) -> None:
    source = write(
        tmp_path / "it",
        own_dot_c="",
        build__helper_dot_cmake="",
        **{
            "build/temp.linux-x86_64-cpython-311/own.o": "",
            "build/lib.linux-x86_64-cpython-311/own.so": "",
            "env/pyvenv.cfg": "",
            "env/lib/big": "",
            "__pycache__/a.pyc": "",
        },
    )
    (source / "__pycache__").mkdir(exist_ok=True)

    copy_tree(source, tmp_path / "copy")

    assert names(tmp_path / "copy") == ["build/helper.cmake", "own.c"]


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ('cmake.source-dir = "../"', True),
        ("add_subdirectory(../core core)", True),
        ("root = Path(__file__).parent.parent", True),
        ("print('...')", False),
        ("version = '1..2'", False),
    ],
)
def test_a_project_that_looks_outside_is_copied_with_its_repository(
    tmp_path: Path, text: str, outside: bool
) -> None:
    project = write(tmp_path / "repository" / "python", setup_dot_py=text)
    git(tmp_path / "repository", "init", "-q")

    root = root_to_copy(read_tree(project))

    assert root == (tmp_path / "repository" if outside else project)


def test_a_repository_that_ignores_the_project_is_not_its_own(tmp_path: Path) -> None:
    project = write(tmp_path / "repository" / "unpacked" / "own-1.0", setup_dot_py="open('../a')")
    (tmp_path / "repository" / ".gitignore").write_text("unpacked/\n")
    git(tmp_path / "repository", "init", "-q")

    root = root_to_copy(read_tree(project))

    assert root == project
