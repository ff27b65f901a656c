"""The core of a real vLLM's worker: the kernel, its line, and the Python code that called it.

Run by ./dev test-vllm: 3 GB are installed and one request is served. The user of this vLLM sees
EngineDeadError, and nothing of what follows.
"""

import re
from pathlib import Path

import pytest
from tests.py.integration.tool import Json, forensics_core
from tests.py.vllm.worker import worker_core

pytestmark = [pytest.mark.vllm, pytest.mark.gdb]


@pytest.fixture(scope="module")
def core() -> Path:
    return worker_core()


def functions(thread: Json, kind: str) -> list[str]:
    return [str(frame["function"]) for frame in thread["frames"] if frame["kind"] == kind]


def test_the_worker_died_in_the_kernel_that_its_python_called(core: Path) -> None:
    crash = forensics_core("--no-store", core).crash

    assert crash["signal"]["name"] == "SIGSEGV"
    assert crash["reraised_by"] is not None  # vLLM turns faulthandler on
    assert crash["fault"]["access"] == "write"
    assert crash["fault"]["kind"] in {"non-canonical-address", "wild-pointer"}
    assert "reshape_and_cache" in crash["culprit"]["function"]
    assert "/csrc/cpu/cpu_attn_" in crash["culprit"]["file"]
    assert crash["culprit"]["line"] > 0
    assert re.search(
        r"below cpu_attn_reshape_and_cache \(.*/vllm/_custom_ops.py:", crash["explanation"]
    )
    # OpenMP gives each thread a part of the loop, and any of them may die first.
    name = "cpu_attn_reshape_and_cache"
    caller = next(thread for thread in crash["threads"] if name in functions(thread, "python"))
    native = functions(caller, "native")
    assert "GOMP_parallel" in native  # of a library whose build-id patchelf moved
    assert "c10::Dispatcher::callBoxed" in native
    python = functions(caller, "python")
    assert python.index(name) < python.index("execute_model")


def test_values_that_take_gdb_long_are_there_when_they_are_asked_for(core: Path) -> None:
    usual = forensics_core("--no-store", core).crash
    asked = forensics_core("--no-store", "--depth", "full", core, timeout_s=300).crash

    assert any("were left out" in gap["what"] for gap in usual["gaps"])
    assert not any("were left out" in gap["what"] for gap in asked["gaps"])
    values = {variable["name"]: variable["value"] for variable in asked["objects"]}
    assert int(values["block_idx"]) == pytest.approx((1 << 34) // 32, abs=32)
