"""Kernels of other head dimensions are left out of the copy, and nothing else of it changes."""

import sys
from pathlib import Path

import pytest
from tests.py.capture.foreign_build.vllm_trees import (
    ATTENTION,
    CURRENT,
    EARLY_ATTENTION,
    make_vllm,
)

from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.toolchain import find_compiler
from vllm_forensics.capture.foreign_build.vllm_head_dims import limit_head_dims
from vllm_forensics.capture.foreign_build.workspace import BuildRequest, prepare
from vllm_forensics.cli.commands.build import Silence
from vllm_forensics.errors import UsageError
from vllm_forensics.model.build import Flavour

PYTHON = Path(sys.executable)


def limit(tmp_path: Path, files: dict[str, str], *wanted: int) -> Path:
    """The folder csrc/cpu of the copy, limited to these dimensions."""
    tree = make_vllm(tmp_path / "vllm", files)
    request = BuildRequest(
        source=tree.path,
        folder=tmp_path / "build",
        flavour=Flavour(),
        compiler=find_compiler(None, Flavour()),
        python=PYTHON,
    )
    workspace = prepare(request, tree)
    with workspace.lock:
        cpu = workspace.source / "csrc" / "cpu"
        limit_head_dims(Steps(workspace, Silence()), PYTHON, cpu, wanted)
    return cpu


def test_the_trees_own_generator_gets_shorter_lists(tmp_path: Path) -> None:
    cpu = limit(tmp_path, CURRENT, 64, 80)

    header = cpu / "cpu_attn_dispatch_generated.h"
    assert header.read_text() == "// [64] [80]"
    assert header.stat().st_mtime_ns == (cpu / "generate_cpu_attn_dispatch.py").stat().st_mtime_ns
    assert not (tmp_path / "vllm" / "csrc" / "cpu" / header.name).exists()


def test_cases_in_the_file_are_blanked_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    cpu = limit(tmp_path, EARLY_ATTENTION, 128)

    changed, original = cpu / "cpu_attn.cpp", tmp_path / "vllm" / "csrc" / "cpu" / "cpu_attn.cpp"
    before, after = ATTENTION.splitlines(), changed.read_text().splitlines()
    assert [at for at, line in enumerate(after) if line != before[at]] == [1]
    assert after[1].strip() == "\\"
    assert len(after) == len(before)
    assert changed.stat().st_mtime_ns == original.stat().st_mtime_ns
    assert original.read_text() == ATTENTION


@pytest.mark.parametrize(
    ("files", "known"), [(CURRENT, "32, 64, 80, 128"), (EARLY_ATTENTION, "64, 128")]
)
def test_a_dimension_without_a_kernel_is_refused(
    tmp_path: Path, files: dict[str, str], known: str
) -> None:
    with pytest.raises(UsageError, match="no head dimension 65") as raised:
        limit(tmp_path, files, 64, 65)

    assert raised.value.remedy == f"--head-dim: one of {known}"
