"""A whole vLLM with torch that serves offline, recorded; and the sandbox that is given its trace.

Run by ./dev test-vllm: the environment takes 2.9 GB and some minutes, once.
"""

import json
import signal
from pathlib import Path

import pytest
from tests.py.integration.tool import forensics
from tests.py.vllm.serving import VERSION, log_lines, model_folder, run_python, whole_vllm

from vllm_forensics.investigate.sandbox_recording import read_recording
from vllm_forensics.investigate.sandbox_trace import show_trace
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Outcome

pytestmark = pytest.mark.vllm
SERVE = """
import json, sys
from vllm import LLM, SamplingParams

def main():
    llm = LLM(
        model=sys.argv[1], load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16",
        enforce_eager=True, max_model_len=512, block_size=32, **json.loads(sys.argv[2]),
    )
    shared = list(range(100, 200))
    prompts = [shared + [500 + i] * (10 + 7 * i) for i in range(8)]
    greedy = SamplingParams(detokenize=False, max_tokens=70, ignore_eos=True, temperature=0)
    outs = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], greedy)
    # A second turn: what was put out is in the prompt.
    longer = [p + list(o.outputs[0].token_ids) + [900] for p, o in zip(prompts, outs)]
    outs += llm.generate([{"prompt_token_ids": prompt} for prompt in longer], greedy)
    print("TOKENS", sum(len(out.outputs[0].token_ids) for out in outs))

if __name__ == "__main__":
    main()
"""
FORENSICS = "from vllm_forensics.cli.main import main; main()"
DIE_IN_STEP = """
import ctypes
from vllm.v1.executor.abstract import Executor
from vllm.v1.executor.uniproc_executor import UniProcExecutor

def execute(self, *arguments, _original=UniProcExecutor.execute_model, _calls=[], **options):
    _calls.append(1)
    if len(_calls) == 12:
        ctypes.string_at(0)
    return _original(self, *arguments, **options)

UniProcExecutor.execute_model = execute
"""


def without_file(line: str) -> dict[str, object]:
    fields = json.loads(line)
    return {name: value for name, value in fields.items() if name != "file"}


@pytest.fixture(scope="module")
def python() -> Path:
    return whole_vllm()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        ({"async_scheduling": False}, "1"),
        ({"async_scheduling": False, "num_gpu_blocks_override": 30}, "1"),
        ({"async_scheduling": False}, "0"),
    ],
    ids=["processes", "preempting", "in-process"],
)
def test_a_real_engine_s_trace_gives_the_same_events_in_the_sandbox(
    options: dict[str, object], processes: str, python: Path, model: Path, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"

    served = run_python(
        *(python, SERVE, str(model), json.dumps(options)),
        VLLM_FORENSICS_TRACE=str(traces),
        VLLM_ENABLE_V1_MULTIPROCESSING=processes,
    )

    assert "TOKENS 1120" in served.stdout, served.stdout[-3000:] + served.stderr[-3000:]
    [trace] = traces.iterdir()
    run, live = show_trace(str(trace)), read_recording(str(trace))
    kinds = {event.kind for step in live.steps for event in step.events}
    assert run.outcome is Outcome.FINISHED, run.why
    assert run.violations == ()
    assert len(run.finished) == 16
    assert {EventKind.ALLOCATE, EventKind.TOUCH, EventKind.CACHE, EventKind.FREE} <= kinds
    assert live.version == VERSION
    same = forensics("sandbox", "diff", str(trace), f"vllm={VERSION}", timeout_s=300)
    assert same.status == 0, same.stdout
    assert same.stdout.startswith("alike   the same decisions, and the same block numbers")
    assert bool(run.preemptions) == ("num_gpu_blocks_override" in options)


@pytest.mark.parametrize(
    "options",
    [
        "--gpu-blocks 40 --prompt-len 100 --max-tokens 80",
        "--sliding-window 64 --hybrid --prefix-caching",
        "--policy priority --seed 3 --gpu-blocks 60",
        "--async-scheduling --gpu-blocks 50",
        "--spec-tokens 3",
    ],
)
def test_the_scheduler_s_modules_alone_do_what_the_whole_vllm_does(
    options: str, python: Path, tmp_path: Path
) -> None:
    run = ("sandbox", "run", *options.split(), "--events")
    whole, alone = tmp_path / "whole.jsonl", tmp_path / "alone.jsonl"

    driven = run_python(python, FORENSICS, *run, str(whole), "--full")
    again = forensics(*run, str(alone), "--vllm", VERSION)

    assert driven.returncode == again.status == 0, driven.stderr
    assert "".join(str(python.parent.parent).split()) in "".join(driven.stdout.split())
    (head, *events), (other, *same) = (
        file.read_text(encoding="utf-8").splitlines() for file in (whole, alone)
    )
    assert events == same
    assert len(events) > 100
    # Only where the files lie is told otherwise.
    assert without_file(head) == without_file(other)


def test_without_the_variable_nothing_is_written_and_nothing_is_said(
    python: Path, model: Path, tmp_path: Path
) -> None:
    served = run_python(
        *(python, SERVE, str(model), "{}"),
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_FORENSICS_TRACE="",
        TMPDIR=str(tmp_path),
    )

    assert "TOKENS 1120" in served.stdout
    assert log_lines(served.stdout + served.stderr, "forensics: ") == []


def test_an_engine_that_dies_of_a_signal_leaves_the_step_that_its_worker_had(
    python: Path, model: Path, tmp_path: Path
) -> None:
    served = run_python(
        *(python, DIE_IN_STEP + SERVE, str(model), '{"async_scheduling": false}'),
        VLLM_FORENSICS_TRACE=str(tmp_path / "traces"),
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
    )

    [trace] = (tmp_path / "traces").iterdir()
    shown = forensics("sandbox", "show", str(trace))
    assert served.returncode == -signal.SIGSEGV
    assert shown.status == 1
    assert "the worker had step" in " ".join(shown.stdout.split())
    assert trace.stat().st_mode & 0o077 == 0
