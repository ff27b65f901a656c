"""A vLLM of the user's own: a checkout without git, an unpacked wheel, one with changes in it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.py.cli.test_main import Ended, forensics
from tests.py.support.vllm_trees import CURRENT, OLD, a_tree

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEDULER = "v1/core/sched/scheduler.py"
STEP = "        self.current_step += 1\n"


def run(path: Path | str, *options: str) -> Ended:
    return forensics("sandbox", "run", "--vllm", str(path), *options)


def linked(source: str, target: str) -> None:
    """Thousands of files of which one is changed: a link where the disk allows it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def replaced(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As a source archive unpacks: more than the package, no git, no version that was computed."""
    folder = tmp_path / "my vllm"
    shutil.copytree(
        a_tree(CURRENT).root,
        folder,
        copy_function=linked,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "vllm" / "_version.py").unlink(missing_ok=True)
    (folder / "pyproject.toml").write_text("[project]\nname = 'vllm'\n", encoding="utf-8")
    (folder / "tests").mkdir()
    return folder


def changed(checkout: Path, file: str, before: str, after: str) -> int:
    """Replace a line of the checkout; the number of the line."""
    path = checkout / "vllm" / file
    text = path.read_text(encoding="utf-8")
    assert before in text
    replaced(path, text.replace(before, after, 1))
    return text[: text.index(before)].count("\n") + 1


def test_a_checkout_without_git_is_driven_and_its_file_is_named(checkout: Path) -> None:
    ended = run(checkout, "--format", "json")

    found = json.loads(ended.out)
    assert ended.status == 0
    assert found["vllm"] == {"version": None, "file": str(checkout / "vllm" / "__init__.py")}
    assert not list(checkout.rglob("__pycache__"))


def test_the_package_s_own_folder_and_a_relative_path_mean_the_same(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)

    answers = [run(path, "--format", "json") for path in (checkout / "vllm", ".")]

    file = str(checkout / "vllm" / "__init__.py")
    assert [json.loads(ended.out)["vllm"]["file"] for ended in answers] == [file, file]


def test_an_unpacked_wheel_tells_its_version(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    shutil.copytree(a_tree(OLD).root, folder, copy_function=linked)
    (folder / "vllm-0.4.2.dist-info").mkdir()

    ended = run(folder)

    assert ended.status == 0
    assert "vLLM 0.4.2" in ended.out


def test_what_was_changed_in_a_checkout_is_what_is_driven(checkout: Path) -> None:
    changed(checkout, SCHEDULER, STEP, STEP + "        raise RuntimeError('my own change')\n")

    ended = run(checkout)

    assert ended.status == 1
    assert ended.out.startswith("dies at step 0   RuntimeError: my own change")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("self.scheduler_config.brand_new", "SchedulerConfig.brand_new"),
        ("self.vllm_config.model_config.brand_new", "ModelConfig.brand_new"),
        ("getattr(self.cache_config, 'brand_new', 0)", "CacheConfig.brand_new"),
        ("[r.sampling_params.brand_new for r in self.waiting]", "SamplingParams.brand_new"),
    ],
)
def test_a_field_that_is_not_modelled_is_named_with_the_file_and_line_that_asks(
    asked: str, named: str, checkout: Path
) -> None:
    line = changed(checkout, SCHEDULER, STEP, f"{STEP}        {asked}\n") + 1

    ended = run(checkout)

    said = " ".join(ended.err.split())
    assert ended.status == 2
    assert f"asked for {named} (vllm/{SCHEDULER}:{line}), which the sandbox does not model" in said
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("from vllm.brand_new import decide; decide()", "brand_new"),
        ("import torch; torch.zeros(3)", "torch.zeros"),
    ],
)
def test_a_module_that_is_not_loaded_is_named_where_it_is_used(
    line: str, named: str, checkout: Path
) -> None:
    (checkout / "vllm" / "brand_new.py").write_text("def decide(): ...\n", encoding="utf-8")
    at = changed(checkout, SCHEDULER, STEP, f"{STEP}        {line}\n") + 1

    ended = run(checkout)

    assert ended.status == 2
    assert named in ended.err
    assert f"vllm/{SCHEDULER}:{at}" in ended.err


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: replaced(folder / "vllm" / SCHEDULER, "def broken(:\n"),
        lambda folder: (folder / "vllm" / "v1" / "core" / "block_pool.py").unlink(),
    ],
)
def test_a_checkout_that_cannot_be_imported_is_no_traceback(
    spoil: Callable[[Path], object], checkout: Path
) -> None:
    spoil(checkout)

    ended = run(checkout)

    assert ended.status == 2
    assert "the sandbox cannot follow this vLLM" in ended.err
    assert "Traceback" not in ended.err
