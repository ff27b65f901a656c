"""A scheduler's decisions move real memory, and a wrong one is an error that names the block."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.py.cli.test_main import forensics
from tests.py.support.vllm_trees import CURRENT, OLD, opener

from vllm_forensics.model.event import Event, EventKind
from vllm_forensics.model.sandbox import (
    Outcome,
    Parameters,
    Plant,
    SandboxRun,
    ViolationKind,
)
from vllm_forensics.sandbox.load import drawn, uniform
from vllm_forensics.sandbox.native_memory import NativeMemory
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.run import run

pytestmark = pytest.mark.xdist_group("vllm-trees")
LOAD = drawn(uniform(8, 90, 60), seed=3)
SMALL = Parameters(gpu_blocks=40)
WITHOUT_NATIVE = """
import sys
sys.modules["vllm_forensics._native"] = None
from vllm_forensics.cli.main import main
main()
"""


def over_memory(version: str, parameters: Parameters) -> tuple[SandboxRun, NativeMemory]:
    recorder, memory = Recorder(), NativeMemory(parameters)
    memory.attach(recorder)
    return run(opener(version), parameters, LOAD, recorder=recorder), memory


@pytest.mark.parametrize(
    ("version", "parameters"),
    [
        ("reference", SMALL),
        ("reference", replace(SMALL, cpu_blocks=30)),
        (OLD, SMALL),
        (OLD, replace(SMALL, gpu_blocks=60, cpu_blocks=120, best_of=2)),
        (OLD, replace(SMALL, sliding_window=48)),
        (OLD, replace(SMALL, block_manager=2)),
        (CURRENT, SMALL),
        (CURRENT, replace(SMALL, prefix_caching=True)),
        (CURRENT, replace(SMALL, sliding_window=48, hybrid=True, gpu_blocks=80)),
        (CURRENT, replace(SMALL, async_scheduling=True)),
        (CURRENT, replace(SMALL, spec_tokens=3)),
    ],
)
def test_a_healthy_scheduler_touches_only_memory_that_is_there(
    version: str, parameters: Parameters
) -> None:
    result, memory = over_memory(version, parameters)

    used = memory.used()
    assert result.outcome is Outcome.FINISHED, result.why
    assert used.written >= sum(spec.prompt_len for spec in LOAD)
    assert used.read > used.written
    assert not used.sanitized


def test_swaps_and_copies_are_done() -> None:
    _, memory = over_memory(OLD, replace(SMALL, gpu_blocks=60, cpu_blocks=120, best_of=2))

    assert memory.used().moved > 8


@pytest.mark.parametrize("version", ["reference", CURRENT])
def test_memory_changes_no_decision(version: str) -> None:
    def seen(*, native: bool) -> list[Event]:
        events: list[Event] = []

        class Keep:
            def write(self, event: Event) -> None:
                events.append(event)

        recorder = Recorder(Keep())
        if native:
            NativeMemory(SMALL).attach(recorder)
        run(opener(version), SMALL, LOAD, recorder=recorder)
        return events

    assert seen(native=True) == seen(native=False)


def test_a_block_that_is_given_back_too_early_is_memory_that_is_gone() -> None:
    parameters = Parameters(gpu_blocks=200, plant=Plant.EARLY_FREE)

    result, _ = over_memory("reference", parameters)

    [violation] = [v for v in result.violations if v.kind is ViolationKind.USE_AFTER_FREE]
    assert result.outcome is Outcome.RAISED
    assert result.error is not None
    assert f"block {violation.block} is not allocated" in result.error
    assert violation.step == len(result.steps)
    assert violation.chain is not None
    assert violation.chain.events[-1].kind is EventKind.FREE


def test_without_the_plant_the_same_run_is_healthy() -> None:
    result, _ = over_memory("reference", Parameters(gpu_blocks=200))

    assert result.outcome is Outcome.FINISHED


def test_the_command_says_what_was_done_with_the_memory() -> None:
    alone = forensics("sandbox", "run", "--engine", "native")
    driven = forensics("sandbox", "run", "--drive-native", "--cpu-blocks", "40")

    for ended in (alone, driven):
        assert ended.status == 0
        assert "memory  real, every access checked:" in ended.out
        assert "the reference engine" in ended.out


def test_the_json_says_what_was_done_with_the_memory() -> None:
    native, plain = (
        json.loads(forensics("sandbox", "run", "--format", "json", *options).out)
        for options in (("--drive-native", "--gpu-blocks", "23", "--cpu-blocks", "40"), ())
    )

    used = native["memory"]
    assert used["written"] > 1000
    assert used["read"] > used["written"]
    assert used["moved"] > 0
    assert used["sanitized"] is False
    assert plain["memory"] is None


def test_without_the_compiled_module_all_else_runs() -> None:
    def without_native(*options: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", WITHOUT_NATIVE, "sandbox", "run", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    plain, native = without_native(), without_native("--engine", "native")

    assert plain.returncode == 0
    assert native.returncode == 2
    assert "the compiled worker cannot be imported" in native.stderr
    assert "Traceback" not in native.stderr
