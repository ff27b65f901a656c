"""`forensics build --source` on trees with vLLM's files: what it says before anything compiles."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.py.capture.foreign_build.vllm_trees import CURRENT, MIDDLE, make_vllm
from tests.py.integration.tool import Answer, forensics

pytestmark = pytest.mark.asan


def bare_python(folder: Path) -> Path:
    """A Python without any package."""
    command = (sys.executable, "-I", "-m", "venv", "--without-pip", str(folder))
    subprocess.run(command, check=True, timeout=120)
    return folder / "bin" / "python"


def build_offline(source: Path, *arguments: str | Path, tmp_path: Path) -> Answer:
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}
    return forensics(
        "build", "--asan", "--source", source, *arguments, environment=offline, cwd=tmp_path
    )


def test_without_torch_and_network_it_says_what_to_do(tmp_path: Path) -> None:
    source = make_vllm(tmp_path / "vllm-0.0", CURRENT).path
    archive = tmp_path / "vllm-0.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(source, arcname=source.name)
    python = bare_python(tmp_path / "bare")

    answer = build_offline(archive, "--python", python, tmp_path=tmp_path)

    unpacked = tmp_path / ".forensics" / "sources" / "vllm-0.0" / "vllm-0.0"
    assert answer.status == 2
    assert f"{python} has no torch, and fetching torch failed" in answer.stderr
    assert "needed: --no-deps, torch==" in answer.stderr
    assert "--python PY, where PY can import it" in answer.stderr
    assert (unpacked / "csrc" / "cpu" / "cpu_attn.cpp").is_file()
    assert (tmp_path / ".forensics" / "asan" / "source" / "vllm").is_dir()


def test_a_torch_that_cannot_be_imported_is_not_built_against(tmp_path: Path) -> None:
    source = make_vllm(tmp_path / "vllm", CURRENT).path
    python = bare_python(tmp_path / "bare")
    [packages] = (tmp_path / "bare").glob("lib/python3*/site-packages")
    (packages / "torch.py").write_text("raise ImportError('libcudart.so.13: no such file')\n")

    answer = build_offline(source, "--python", python, tmp_path=tmp_path)

    assert answer.status == 2
    assert "has a torch that cannot be imported: ImportError: libcudart.so.13" in answer.stderr


def test_a_vllm_without_kernels_for_a_processor_is_refused(tmp_path: Path) -> None:
    source = make_vllm(tmp_path / "vllm", None).path

    answer = build_offline(source, tmp_path=tmp_path)

    assert answer.status == 2
    assert "is a vLLM without csrc/cpu" in answer.stderr
    assert not (source / ".forensics").exists()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--head-dim", "64"), "head dimensions cannot be chosen for"),
        (("--try",), "nothing to try: a project of setuptools brings no example"),
    ],
)
def test_options_for_vllm_are_refused_elsewhere(
    tmp_path: Path, option: tuple[str, ...], says: str
) -> None:
    source = tmp_path / "own"
    source.mkdir()
    (source / "setup.py").touch()

    answer = build_offline(source, *option, tmp_path=tmp_path)

    assert answer.status == 2
    assert says in answer.stderr
    assert not (source / ".forensics").exists()


def test_kernels_of_all_head_dimensions_at_once_leave_no_choice(tmp_path: Path) -> None:
    source = make_vllm(tmp_path / "vllm", MIDDLE).path

    answer = build_offline(source, "--head-dim", "64", tmp_path=tmp_path)

    assert answer.status == 2
    assert "compiled for every head dimension at once" in answer.stderr
