"""`forensics sandbox run` as a person and as a script see it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.cli.test_main import Ended, forensics
from tests.py.support.vllm_trees import CURRENT, OLD, a_tree

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schemas" / "forensics.sandbox.1.json"
SWAP_STORY = (
    *("--gpu-blocks", "24", "--cpu-blocks", "8", "--requests", "4", "--prompt-len", "60"),
    *("--max-tokens", "200"),
)


def sandbox(*arguments: str) -> Ended:
    return forensics("sandbox", "run", *arguments)


def answer(*arguments: str) -> tuple[int, dict[str, Any]]:
    ended = sandbox(*arguments, "--format", "json")
    found: dict[str, Any] = json.loads(ended.out)
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return ended.status, found


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_without_a_vllm_the_reference_runs_and_says_so() -> None:
    ended = sandbox()

    assert ended.status == 0
    assert ended.out.startswith("finishes   10 of 10 requests done in 32 steps")
    assert "the reference engine" in ended.out
    assert ended.err == ""


def test_the_swap_story_names_the_step_the_block_and_the_one_parameter() -> None:
    a_tree(OLD)

    ended = sandbox("--vllm", OLD, *SWAP_STORY, "--best-of", "3")

    text = squeezed(ended.out)
    assert ended.status == 1
    assert text.startswith("dies at step 5 RuntimeError: Aborted due to the lack of CPU swap space")
    assert "request 2, which holds 6 GPU blocks" in text
    assert re.search(r"● allocate step 0 .* │ fork ×2 step 0 .* ✖ dies step 5", text)
    assert "finishes without a violation with one change: --best-of 1" in text
    assert f"vLLM {OLD}" in text
    assert "vllm/__init__.py" in text


def test_the_json_of_the_swap_story_keeps_its_contract() -> None:
    tree = a_tree(OLD)

    status, found = answer("--vllm", OLD, *SWAP_STORY, "--best-of", "3")

    assert status == 1
    assert found["schema"] == "forensics.sandbox/1"
    assert found["engine"] == "v0"
    assert found["vllm"] == {"version": OLD, "file": tree.file}
    assert found["steps"] == 5
    assert found["outcome"] == "raised"
    assert found["error"].startswith("RuntimeError: Aborted due to the lack of CPU swap space")
    assert found["blocks"] == {"total": 24, "usable": 24, "free": 0}
    assert found["cpu_blocks"] == {"total": 8, "usable": 8, "free": 4}
    assert found["healthy_with"] == ["--best-of 1"]
    assert found["parameters"]["best_of"] == 3
    assert found["violations"] == []
    assert [event["kind"] for event in found["chains"][0]["events"]][:2] == ["allocate", "use"]


def test_the_window_story_shows_what_destroys_data_first() -> None:
    a_tree(OLD)

    status, found = answer(
        *("--vllm", OLD, "--gpu-blocks", "200", "--requests", "1", "--prompt-len", "200"),
        *("--max-tokens", "200", "--best-of", "2", "--sliding-window", "64"),
    )
    ended = sandbox(
        *("--vllm", OLD, "--gpu-blocks", "200", "--requests", "1", "--prompt-len", "200"),
        *("--max-tokens", "200", "--best-of", "2", "--sliding-window", "64"),
    )

    kinds = {violation["kind"] for violation in found["violations"]}
    assert (status, ended.status) == (1, 1)
    assert {"two-writers", "double-free", "aliased-block"} <= kinds
    assert all(v["chain"] for v in found["violations"] if v["block"] is not None)
    assert found["healthy_with"] == ["--best-of 1", "no --sliding-window"]
    order = [ended.out.index(f"✖ {kind}") for kind in ("two-writers", "double-free")]
    assert order == sorted(order)
    assert "(0.0 and 0.1)" in ended.out


@pytest.mark.parametrize(
    ("trigger", "version", "status", "told"),
    [
        ("swap-exhaustion", OLD, 1, "dies at step 1 RuntimeError: Aborted due to the lack of CPU"),
        ("fork-window", OLD, 1, "dies at step 65 ValueError: Double free!"),
        ("abort-in-flight", CURRENT, 0, "finishes 2 of 3 requests done"),
    ],
)
def test_a_story_of_one_trigger_is_one_command(
    trigger: str, version: str, status: int, told: str
) -> None:
    a_tree(version)

    ended = sandbox("--vllm", version, "--trigger", trigger)

    text = squeezed(ended.out)
    assert ended.status == status
    assert text.startswith(told)
    if status:
        assert "● allocate step 0" in text
        assert "with one change alone: --best-of 1 · " in text
    else:
        assert "1 given up by its client" in text


def test_a_stall_says_how_many_blocks_are_missing() -> None:
    a_tree(CURRENT)

    ended = sandbox("--vllm", CURRENT, "--requests", "1", "--prompt-len", "2000")

    text = squeezed(ended.out)
    assert ended.status == 1
    assert text.startswith("stalls at step 3 nothing is raised")
    assert "needs 125 blocks of 16 tokens; the pool has 99: 26 short, for ever" in text
    assert "--gpu-blocks 200" in text


def test_a_load_is_read_from_a_file_and_events_are_written_to_one(tmp_path: Path) -> None:
    load = tmp_path / "load.jsonl"
    load.write_text('{"id": "late", "arrival": 3, "prompt": 40, "output": 2}\n', encoding="utf-8")
    events = tmp_path / "events.jsonl"

    status, found = answer("--load", str(load), "--events", str(events))

    lines = [
        line
        for line in map(json.loads, events.read_text(encoding="utf-8").splitlines())
        if "block" in line
    ]
    assert status == 0
    assert found["finished"] == ["late"]
    assert [line["kind"] for line in lines].count("allocate") == 3
    assert lines[0]["request"] == "late"
    assert lines[0]["function"].endswith("_admit")
    assert len(lines) == found["events"]


def pytest_of(file: Path, vllm: str | None = None) -> Ended:
    environment = dict(os.environ)
    if vllm is not None:
        environment["FORENSICS_VLLM"] = vllm
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        cwd=file.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(status=ended.returncode, out=ended.stdout, err=ended.stderr)


def test_the_test_file_of_a_failing_run_fails_with_its_reason(tmp_path: Path) -> None:
    a_tree(OLD)
    file = tmp_path / "test_swap.py"

    ended = sandbox("--vllm", OLD, *SWAP_STORY, "--best-of", "3", "--emit-test", str(file))
    written = pytest_of(file)

    assert ended.status == 1
    assert f"test written: {file}" in ended.err
    assert written.status == 1
    assert "Aborted due to the lack of CPU swap space" in written.out
    assert "best_of=3" in file.read_text(encoding="utf-8")


def test_a_second_note_of_what_is_taken_is_named_where_the_two_part_and_guarded_by_a_test(
    tmp_path: Path,
) -> None:
    file = tmp_path / "test_occupancy.py"
    mended = tmp_path / "test_mended.py"

    ended = sandbox(
        *("--plant", "second-occupancy", "--gpu-blocks", "23", "--requests", "2"),
        *("--max-tokens", "40", "--emit-test", str(file)),
    )
    text = file.read_text(encoding="utf-8")
    mended.write_text(text.replace(", plant=Plant.SECOND_OCCUPANCY", ""), encoding="utf-8")
    before, after = pytest_of(file), pytest_of(mended)

    told = squeezed(ended.out)
    assert ended.status == 1
    assert told.startswith("dies at step 23 BlockError: block 21 is free and cannot be had")
    assert "occupancy block 11 is free, and a second note of the gpu pool says" in told
    assert "(step 7, and in 16 later ones until 23)" in told
    assert re.search(r"● allocate step 0 .* │ preempt step 7 .* │ free step 7 .*swapped_out", told)
    assert "with one change alone: no --plant" in told
    assert (before.status, after.status) == (1, 0)
    assert "cannot be had" in before.out


def test_the_test_file_of_a_healthy_run_passes_and_fails_on_a_vllm_that_is_not(
    tmp_path: Path,
) -> None:
    tree = a_tree(CURRENT)
    file = tmp_path / "test_textbook.py"
    copy = tmp_path / "mutant"
    shutil.copytree(tree.root, copy)
    pool = copy / "vllm" / "v1" / "core" / "block_pool.py"
    text = pool.read_text(encoding="utf-8")
    # Every freed block is forgotten: nobody holds it, and it is not free.
    mutant = text.replace("self.free_block_queue.prepend_n(blocks_to_evict_first)", "pass")
    assert mutant != text
    pool.write_text(mutant, encoding="utf-8")

    ended = sandbox("--vllm", CURRENT, "--policy", "priority", "--emit-test", str(file))
    healthy = pytest_of(file)
    broken = pytest_of(file, str(copy))

    assert ended.status == 0
    assert healthy.status == 0
    assert broken.status == 1
    assert "neither held nor free" in broken.out


def test_the_same_seed_gives_the_same_answer() -> None:
    first, second = (answer("--seed", "5", "--gpu-blocks", "40")[1] for _ in range(2))

    assert first == second
    assert first["parameters"]["prompt_tokens"] != 1700


@pytest.mark.parametrize("check", ["each", "3", "every 3", "end"])
def test_when_to_check_is_a_choice(check: str) -> None:
    status, found = answer("--check", check)

    assert status == 0
    assert found["outcome"] == "finished"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--vllm", "nowhere"), "give a folder, a .whl, a version"),
        (("--engine", "v1"), "give --vllm too"),
        (("--full",), "--vllm"),
        (("--best-of", "2"), "--vllm"),
        (("--plant", "second-occupancy", "--vllm", "."), "--vllm"),
        (("--check", "often"), "is not each, end"),
        (("--prompt-len", "9000"), "--max-model-len"),
        (("--load", "/nowhere/load.jsonl"), "/nowhere/load.jsonl"),
        (("--load", "x", "--trigger", "exhaustion"), "leave one of them out"),
        (("--events", "/nowhere/events"), "--events FILE"),
        (("--gpu-blocks", "0"), "gpu-blocks"),
    ],
)
def test_what_cannot_run_says_what_to_give(arguments: tuple[str, ...], told: str) -> None:
    ended = sandbox(*arguments)

    assert ended.status == 2
    assert told in ended.err
    assert "Traceback" not in ended.err


def test_another_engine_than_the_vllm_s_own_is_refused() -> None:
    a_tree(OLD)

    ended = sandbox("--vllm", OLD, "--engine", "v1")

    assert ended.status == 2
    assert "is driven as v0, not as v1" in ended.err
