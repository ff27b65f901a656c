"""A run that is written down, and read back."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.cli.test_main import forensics
from tests.py.support.vllm_trees import CURRENT, OLD, a_tree, opener

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import (
    Generation,
    Outcome,
    Parameters,
    RequestSpec,
    Snapshot,
)
from vllm_forensics.model.sandbox_recording import Origin, Recording
from vllm_forensics.sandbox import snapshots
from vllm_forensics.sandbox.collector import recorded
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.recording_reader import looks_like_recording, parse_recording
from vllm_forensics.sandbox.run import run
from vllm_forensics.sandbox.snapshots import SnapshotKeeper, SnapshotsWanted

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"
SWAP_STORY = (
    *("--gpu-blocks", "24", "--cpu-blocks", "8", "--requests", "4", "--prompt-len", "60"),
    *("--max-tokens", "200", "--best-of", "3"),
)


def written(file: Path, *options: str) -> list[dict[str, Any]]:
    ended = forensics("sandbox", "run", "--events", str(file), "--no-compare", *options)
    assert ended.status < 2, ended.err
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def read(file: Path) -> Recording:
    return parse_recording(file.read_bytes().splitlines(keepends=True), file.name)


def in_memory(
    version: str,
    parameters: Parameters,
    load: tuple[RequestSpec, ...],
    wanted: SnapshotsWanted | None = None,
) -> Recording:
    opened = opener(version)
    recording, _ = recorded(
        lambda recorder: run(opened, parameters, load, recorder=recorder), version, wanted
    )
    return recording


@pytest.mark.parametrize("options", [(), ("--vllm", CURRENT), ("--vllm", OLD, *SWAP_STORY)])
def test_every_line_of_a_recording_keeps_its_schema(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    if options:
        a_tree(options[1])
    schema = json.loads((SCHEMAS / "forensics.sandbox_events.1.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)

    lines = written(tmp_path / "events.jsonl", *options, "--snapshot", "every 4")

    assert [list(validator.iter_errors(line)) for line in lines] == [[] for _ in lines]
    kinds = [line["kind"] for line in lines]
    assert (kinds[0], kinds[-1]) == ("run", "end")
    assert {"request", "allocate", "step", "snapshot"} <= set(kinds)


def test_a_file_tells_the_same_run_as_memory(tmp_path: Path) -> None:
    a_tree(OLD)
    file = tmp_path / "events.jsonl"
    written(file, "--vllm", OLD, *SWAP_STORY, "--snapshot", "2")
    parameters = Parameters(gpu_blocks=24, cpu_blocks=8, best_of=3)

    memory = in_memory(OLD, parameters, uniform(4, 60, 200), SnapshotsWanted(steps=frozenset({2})))
    found = read(file)

    assert found.steps == memory.steps
    assert found.load == memory.load
    assert found.parameters == parameters
    assert (found.engine, found.version) == (Generation.V0, OLD)
    assert found.outcome is Outcome.RAISED
    assert found.error == memory.error
    assert found.gaps == ()


def test_the_step_in_which_an_engine_dies_is_known_not_to_be_whole(tmp_path: Path) -> None:
    a_tree(OLD)
    file = tmp_path / "events.jsonl"
    written(file, "--vllm", OLD, *SWAP_STORY)

    found = read(file)

    assert [step.number for step in found.steps] == [0, 1, 2, 3, 4, 5]
    assert [step.completed for step in found.steps] == [True] * 5 + [False]
    assert EventKind.PREEMPT in {event.kind for event in found.steps[5].events}


def test_a_recording_that_is_cut_short_keeps_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    written(file)
    whole = file.read_bytes()

    found = parse_recording(whole[: len(whole) // 2].splitlines(), "half")

    assert 5 < len(found.steps) < 32
    assert found.outcome is None
    assert "1 line is none of a recording" in found.gaps[0]
    assert "cut short" in found.gaps[1]


def test_events_alone_are_a_recording_of_which_less_is_known() -> None:
    lines = [
        b'{"step":0,"kind":"allocate","pool":"gpu","block":1,"request":"a"}\n',
        b'{"step":2,"kind":"free","pool":"gpu","block":1,"request":"a"}\n',
    ]

    found = parse_recording(lines, "trace")

    assert found.origin is Origin.TRACE
    assert [step.number for step in found.steps] == [0, 2]
    assert found.steps[0].scheduled is None
    assert found.parameters == Parameters(gpu_blocks=2)
    assert found.load == (RequestSpec(id="a", prompt_len=15, max_tokens=3),)
    assert "the highest number that it names" in found.assumed[0]
    assert "lengths of prompts and outputs" in found.assumed[1]


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"allocate","block":-1}',
        b'{"kind":"allocate","block":1e99}',
        b'{"kind":"step","step":"x"}',
        b'{"kind":"request","id":"0","prompt":99999999999,"output":1}',
        b'{"kind":"run","schema":"forensics.sandbox_events/1","parameters":{"gpu_blocks":99999999}}',
        b'{"kind":"run","schema":"forensics.sandbox_events/1","parameters":{"gpu_blocks":0}}',
        b'{"kind":"run","schema":"forensics.sandbox_events/2"}',
        b'{"kind":"nothing"}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_none_is_said_and_costs_no_other(line: bytes) -> None:
    good = b'{"step":0,"kind":"allocate","pool":"gpu","block":1,"request":"a"}'

    found = parse_recording([line, good], "mixed")

    assert len(found.steps) == 1
    assert found.gaps == ("1 line is none of a recording (the first is line 1)",)
    with pytest.raises(EvidenceError) as error:
        parse_recording([line], "none")
    assert "--events" in error.value.remedy


@given(st.lists(st.binary(max_size=60)))
def test_no_bytes_raise_anything_else(lines: list[bytes]) -> None:
    good = b'{"step":0,"kind":"allocate","block":1}'

    assert parse_recording([*lines, good], "noise").steps
    assert not any(looks_like_recording(line) for line in lines if b'"kind"' not in line)


@pytest.mark.parametrize(
    ("version", "parameters"),
    [
        ("reference", Parameters(prefix_caching=True)),
        (CURRENT, Parameters()),
        pytest.param("0.8.5", Parameters(), marks=pytest.mark.slow),
        (OLD, Parameters(prefix_caching=True)),
        (OLD, Parameters(prefix_caching=True, block_manager=2)),
    ],
)
def test_a_snapshot_holds_tables_counts_and_the_hash_of_what_can_be_found(
    version: str, parameters: Parameters
) -> None:
    load = tuple(
        RequestSpec(id=str(n), arrival=n, prompt_len=80, max_tokens=9, prefix=64) for n in range(3)
    )

    found = in_memory(version, parameters, load, SnapshotsWanted(steps=frozenset({4})))

    snapshot = found.steps[4].snapshot
    assert snapshot is not None
    (pool,) = [pool for pool in snapshot.pools if pool.name == "gpu"]
    hashes = dict(pool.contents)
    first = [state.tables[0] for state in snapshot.requests]
    assert len(first) == 3
    assert first[0][:4] == first[1][:4] == first[2][:4]
    assert all(pool.references[block] == 3 for block in first[0][:4])
    assert set(first[0][:4]) <= set(hashes)
    assert len({hashes[block] for block in first[0][:4]}) == 4
    assert set(pool.free).isdisjoint(block for table in first for block in table)


def test_without_a_cache_no_block_has_a_hash() -> None:
    found = in_memory(OLD, Parameters(), uniform(2, 60, 9), SnapshotsWanted(steps=frozenset({1})))

    assert found.steps[1].snapshot is not None
    assert [pool.contents for pool in found.steps[1].snapshot.pools] == [(), ()]


def test_snapshots_are_part_of_the_answer_of_a_run() -> None:
    options = ("sandbox", "run", "--snapshot", "0", "--snapshot", "every 10", "--snapshot", "end")
    as_json = forensics(*options, "--format", "json")
    as_text = forensics(*options)

    found = json.loads(as_json.out)
    schema = json.loads((SCHEMAS / "forensics.sandbox.1.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema)
    assert [snapshot["step"] for snapshot in found["snapshots"]] == [0, 10, 20, 30, 31]
    states = found["snapshots"][0]["requests"]
    assert [state["state"] for state in states] == ["running"] * 9 + ["waiting"]
    assert found["snapshots"][0]["pools"][0]["free"] == [99]
    assert "after step 0" in as_text.out
    assert "request 1 · 170 of 171 tokens computed · GPU blocks 11-21" in as_text.out
    assert "2 more: --format json" in as_text.out


def test_too_many_snapshots_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_MOST", 900)
    taken: list[Snapshot] = []
    keeper = SnapshotKeeper(SnapshotsWanted(every=1), taken.append)
    recorder = Recorder()
    keeper.watch(recorder)
    parameters = Parameters(gpu_blocks=100)

    run(opener("reference"), parameters, uniform(1, 20, 30), recorder=recorder)

    assert len(taken) == 9
    assert keeper.unkept == 21


@pytest.mark.parametrize("when", ["often", "every 0", "-1", "every", "99999999999"])
def test_when_to_take_a_snapshot_is_refused_with_what_to_give(when: str) -> None:
    ended = forensics("sandbox", "run", f"--snapshot={when}")

    assert ended.status == 2
    assert "is not a step, every N, or end" in ended.err
