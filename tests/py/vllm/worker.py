"""A real vLLM that serves a tiny model, and whose worker is given blocks far out of range."""

import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.py.integration.victim_cases import core_pattern_for_cwd
from tests.py.vllm.engine_run import run_engine
from tests.py.vllm.released import FOLDER

WORKER = FOLDER / "worker"
"""benchmarks/bench_core_single.py measures the core and the program that are left here."""
REQUIREMENTS = Path(__file__).with_name("worker_requirements.txt")
MODEL = """{
  "architectures": ["OPTForCausalLM"], "model_type": "opt", "vocab_size": 50272,
  "hidden_size": 64, "word_embed_proj_dim": 64, "ffn_dim": 128, "num_hidden_layers": 1,
  "num_attention_heads": 1, "max_position_embeddings": 8192, "torch_dtype": "float16",
  "do_layer_norm_before": true, "activation_function": "relu",
  "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1
}
"""
SERVE = """\
import sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    engine = LLM(
        model=sys.argv[1], load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16",
        enforce_eager=True, max_model_len=512, block_size=32,
    )
    prompts = [{"prompt_token_ids": list(range(5, 50))} for _ in range(4)]
    engine.generate(prompts, SamplingParams(detokenize=False, max_tokens=64))
"""
# Every process of vLLM's imports it. From the 21st call on, the slots lie 2**34 too far.
SHIFTED = """\
import importlib.abc, importlib.machinery, sys

class Shifted(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "vllm._custom_ops":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            right, calls = module.cpu_attn_reshape_and_cache, iter(range(20))

            def shifted(key, value, key_cache, value_cache, slots, *rest, **named):
                slots = slots if next(calls, None) is not None else slots + (1 << 34)
                return right(key, value, key_cache, value_cache, slots, *rest, **named)

            module.cpu_attn_reshape_and_cache = shifted

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Shifted())
"""
SETTINGS: Mapping[str, str] = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def worker_core() -> Path:
    """The core of a worker that died of it, made anew; about a minute, and 2 GB."""
    python = _installed()
    run = WORKER / "run"
    run.mkdir(parents=True, exist_ok=True)
    for name, text in (("sitecustomize.py", SHIFTED), ("serve.py", SERVE), ("config.json", MODEL)):
        (run / name).write_text(text, encoding="utf-8")
    for old in run.glob("core*"):
        old.unlink()
    with core_pattern_for_cwd():
        done = run_engine(
            ("prlimit", "--core=unlimited:", python, "serve.py", "."),
            folder=run,
            environment={**SETTINGS, "PYTHONPATH": str(run)},
        )
    cores = sorted(run.glob("core*"))
    assert len(cores) == 1, f"{done.returncode} {cores}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    assert "EngineDeadError" in done.stderr
    program = WORKER / "program"
    program.unlink(missing_ok=True)
    program.symlink_to(python.resolve())
    return cores[0].replace(WORKER / "core")


def _installed() -> Path:
    """The Python of an environment with vLLM. The test is skipped without the package index."""
    python = WORKER / "venv" / "bin" / "python"
    finished = WORKER / "installed"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if finished.exists() and finished.read_text(encoding="utf-8") == wanted:
        return python
    venv.create(WORKER / "venv", with_pip=True, clear=True)
    done = subprocess.run(
        (python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", REQUIREMENTS),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"vLLM cannot be installed into {sys.base_prefix}'s Python: {said}")
    finished.write_text(wanted, encoding="utf-8")
    return python
