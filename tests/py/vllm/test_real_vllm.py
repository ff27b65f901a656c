"""Real vLLMs, unedited: built under AddressSanitizer, and given a block out of range.

Run by ./dev test-vllm: minutes of compiling. A torch is installed into the build's environment.
"""

import hashlib
import json
import signal
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.py.integration.tool import Answer, forensics
from tests.py.vllm.released import FOLDER, Release, sources

pytestmark = pytest.mark.vllm
WHOLE = Release(
    version="0.4.2",
    sha256="0b857f3084b507cbdd3bfcbaae19d171c55df9955eb3ac41c9c711768e852772",
)
CURRENT = Release(
    version="0.33.0",
    sha256="f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112",
)
HOURS_S = 3 * 3600.0


def require_avx512() -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    if "avx512dq" not in flags:
        pytest.skip("no AVX-512 on this processor, and vLLM 0.4 has kernels for nothing else")


def build(source: Path, folder: Path, *arguments: str) -> Answer:
    command = ("build", "--asan", "--source", str(source), "--folder", str(folder))
    return forensics(*command, *arguments, cwd=FOLDER, timeout_s=HOURS_S)


def contents(tree: Path) -> dict[str, str]:
    """Every file and its digest."""
    return {
        str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in tree.rglob("*")
        if path.is_file()
    }


def run_example(manifest: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """The only report of the example, run as the build says."""
    output = tmp_path / "run.json"
    ran = forensics(
        *("run", "--asan", "--build", manifest["folder"], "--folder", str(tmp_path / "run")),
        *("--format", "json", "--output", str(output), "--", "python", manifest["example"]),
        timeout_s=600,
    )
    assert ran.status == 128 + signal.SIGABRT, ran.stderr
    assert "nothing was noticed" not in ran.stderr
    [report] = json.loads(output.read_text(encoding="utf-8"))["reports"]
    assert isinstance(report, dict)
    return report


def source_line(culprit: dict[str, Any]) -> str:
    lines = Path(culprit["file"]).read_text(encoding="utf-8").splitlines()
    return lines[int(culprit["line"]) - 1].strip()


def test_the_whole_extension_of_0_4_2_explains_a_copy_to_a_block_out_of_range(
    tmp_path: Path,
) -> None:
    require_avx512()
    tree = sources(WHOLE)
    archive = tmp_path / "vllm-0.4.2.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, arcname="vllm-0.4.2")

    answer = build(archive, FOLDER / "whole", "--format", "json")

    assert answer.status == 0, answer.stderr
    manifest = answer.report
    [built] = manifest["files"]
    assert (manifest["system"], manifest["modules"]) == ("vllm-extension", ["vllm._C"])
    assert built["proof"]["verdict"] == "proved"
    assert built["proof"]["units"] == 6
    assert contents(Path(manifest["source"])) == contents(tree)
    report = run_example(manifest, tmp_path)
    assert (report["kind"], report["access"]) == (
        "heap-buffer-overflow",
        {"type": "WRITE", "size": 64},
    )
    assert "copy_blocks_cpu_impl" in report["culprit"]["function"]
    assert report["culprit"]["file"].endswith("csrc/cpu/cache.cpp")
    assert source_line(report["culprit"]) == "std::memcpy(target_ptr, source_ptr, block_bytes);"
    assert any(frame["function"] == "copy" for frame in report["python"])


def test_the_attention_kernels_of_0_33_0_report_a_token_for_a_block_out_of_range(
    tmp_path: Path,
) -> None:
    tree = sources(CURRENT)
    before = contents(tree)

    answer = build(tree, FOLDER / "current", "--head-dim", "64", "--format", "json", "--try")

    assert answer.status == 0, answer.stderr
    assert "heap-buffer-overflow" in answer.stderr
    assert "cpu_attn_vec.hpp:305" in answer.stderr
    assert contents(tree) == before
    manifest = answer.report
    assert manifest["system"] == "vllm-kernels"
    assert [file["proof"]["verdict"] for file in manifest["files"]] == ["proved"]
    report = run_example(manifest, tmp_path)
    assert report["culprit"]["line"] == 305
    assert source_line(report["culprit"]) == "key_cache_start_ptr[j] = key_start_ptr[i];"
