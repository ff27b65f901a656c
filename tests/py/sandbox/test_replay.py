"""A recorded run fed to an engine again: its own, another, from events alone, from a log."""

import gzip
import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.cli.test_main import Ended, forensics
from tests.py.sandbox.test_recording import SWAP_STORY, in_memory, written
from tests.py.support.vllm_trees import CURRENT, OLD, a_tree

from vllm_forensics.capture import sandbox_files
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.scheduler_log import parse_scheduler_log
from vllm_forensics.model.sandbox import Parameters, RequestSpec
from vllm_forensics.model.sandbox_diff import Verdict
from vllm_forensics.model.sandbox_log import LoggedPreemption, LoggedRequest, SchedulerLog
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.log_replay import Assumed, compare_with_log, recording_of_log

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schemas" / "forensics.sandbox_diff.1.json"
# In the words of 0.4.2 and, for preemption, of 0.5 to 0.8 with their first engine.
LOG_V0 = """\
INFO 08-20 10:18:30 llm_engine.py:101] Initializing an LLM engine (v0.4.2) with config: \
model='m', max_seq_len=2048, seed=0
INFO 08-20 10:18:31 gpu_executor.py:114] # GPU blocks: 24, # CPU blocks: 8
INFO 08-20 10:18:32 async_llm_engine.py:529] Received request cmpl-a: prompt: 'max_tokens=9', \
sampling_params: SamplingParams(n=1, best_of=1, max_tokens=200, min_tokens=0), \
prompt_token_ids: [2, 100, 5, 6, 7, 9], lora_request: None.
INFO 08-20 10:18:32 async_llm_engine.py:529] Received request cmpl-b: prompt: None, \
sampling_params: SamplingParams(n=1, best_of=1, max_tokens=300, min_tokens=0), \
prompt_token_ids: [2, 100, 5, 6, 7, 9], lora_request: None.
WARNING 08-20 10:18:39 scheduler.py:1141] Sequence group cmpl-b is preempted by \
PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the \
end-to-end performance. total_num_cumulative_preemption=1
INFO 08-20 10:18:40 metrics.py:396] Avg prompt throughput: 0.0 tokens/s, Avg generation \
throughput: 16.7 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: \
99.1%, CPU KV cache usage: 0.0%
"""
# In the words of 0.32.0.
LOG_V1 = """\
\x1b[1;36m(APIServer pid=7)\x1b[0;0m INFO 06-01 09:00:00 [api_utils.py:286] non-default args: \
{'model': 'm', 'block_size': 32, 'max_num_seqs': 4}
(EngineCore pid=9) INFO 06-01 09:00:01 [core.py:134] Initializing a V1 LLM engine (v0.32.0) with \
config: model='m'
(EngineCore pid=9) INFO 06-01 09:00:02 [kv_cache_utils.py:2328] GPU KV cache size: 3,200 tokens, \
Maximum concurrency
(APIServer pid=7) DEBUG 06-01 09:00:03 [request_logger.py:52] Request cmpl-1 details: prompt: \
'Added request x.', prompt_token_ids: [1, 2, 3], prompt_embeds shape: None.
(APIServer pid=7) INFO 06-01 09:00:03 [request_logger.py:66] Received request cmpl-1: params: \
SamplingParams(n=1, max_tokens=20, min_tokens=0), lora_request: None.
(APIServer pid=7) INFO 06-01 09:00:03 [async_llm.py:578] Added request cmpl-1.
(APIServer pid=7) INFO 06-01 09:00:05 [async_llm.py:578] Added request cmpl-2.
(APIServer pid=7) INFO 06-01 09:00:06 [async_llm.py:783] Request cmpl-2 aborted.
(APIServer pid=7) INFO 06-01 09:00:07 [loggers.py:320] Engine 000: Avg prompt throughput: 3.0 \
tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache \
usage: 4.5%, Prefix cache hit rate: 0.0%
"""


def replay(*arguments: str) -> Ended:
    return forensics("sandbox", "replay", *arguments)


def answer(*arguments: str) -> tuple[int, dict[str, Any]]:
    ended = replay(*arguments, "--format", "json")
    found: dict[str, Any] = json.loads(ended.out)
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return ended.status, found


def saved(folder: Path, text: str) -> str:
    file = folder / "vllm.log"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    "options",
    [
        ("--vllm", CURRENT, "--seed", "4", "--gpu-blocks", "40"),
        ("--vllm", OLD, *SWAP_STORY),
        ("--plant", "second-occupancy", "--gpu-blocks", "23", "--requests", "2"),
    ],
)
def test_a_recording_replays_on_its_own_engine_to_the_same_end(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    if options[0] == "--vllm":
        a_tree(options[1])
    file = tmp_path / "events.jsonl"
    written(file, *options)

    status, found = answer(str(file))

    assert status == 0
    assert found["verdict"] == "identical"
    assert found["left"]["outcome"] == found["right"]["outcome"]
    assert found["left"]["error"] == found["right"]["error"]
    assert found["left"]["version"] == found["right"]["version"]


def test_the_files_that_a_recording_names_are_told_and_not_driven(tmp_path: Path) -> None:
    a_tree(CURRENT)
    file = tmp_path / "events.jsonl"
    lines = written(file, "--vllm", CURRENT)
    lines[0]["file"] = "/home/me/vllm/vllm/__init__.py"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    status, found = answer(str(file))

    assert status == 0
    assert found["right"]["assumed"] == [
        "recorded with /home/me/vllm/vllm/__init__.py; to drive the same files give --vllm PATH"
    ]


def test_on_another_engine_the_first_step_that_parts_is_told(tmp_path: Path) -> None:
    a_tree(OLD)
    a_tree(CURRENT)
    file = tmp_path / "events.jsonl"
    written(file, "--vllm", OLD, *SWAP_STORY)

    status, found = answer(str(file), "--vllm", CURRENT)

    assert status == 1
    assert (found["first_difference"]["step"], found["first_difference"]["kind"]) == (0, "forked")
    assert (found["left"]["outcome"], found["right"]["outcome"]) == ("raised", "finished")
    assert found["right"]["assumed"] == [
        "cpu blocks 8 is left out: this engine has no such thing",
        "best of 3 is left out: this engine has no such thing",
    ]


def test_a_parameter_is_changed_by_its_option(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    written(file)

    status, found = answer(str(file), "--gpu-blocks", "88")

    assert status == 1
    assert found["parameters"] == [{"name": "gpu_blocks", "left": "100", "right": "88"}]


@pytest.mark.parametrize("version", [CURRENT, "0.14.0"])
def test_from_events_alone_the_lengths_are_found_and_said_to_be_assumed(
    tmp_path: Path, version: str
) -> None:
    a_tree(version)
    file = tmp_path / "events.jsonl"
    lines = written(file, "--vllm", CURRENT)
    events = [line for line in lines if "block" in line]
    file.write_text("".join(json.dumps(line) + "\n" for line in events), encoding="utf-8")

    status, found = answer(str(file), "--vllm", version)

    assert status == 0
    assert found["left"]["origin"] == "trace"
    assert found["verdict"] == ("identical" if version == CURRENT else "same-but-order")
    assert found["right"]["preemptions"] == found["left"]["preemptions"] == 1
    assert any("lengths of prompts and outputs" in text for text in found["left"]["assumed"])


def test_a_recording_that_is_cut_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    written(file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[: len(lines) // 2]))

    status, found = answer(str(file))

    assert status == 0
    assert found["verdict"] == "identical"
    assert found["left"]["outcome"] is None
    assert any("is not known, and not compared" in text for text in found["left"]["gaps"])
    assert 3 < found["compared_steps"] < 20


def test_a_compressed_recording_that_breaks_off_is_compared_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    file = tmp_path / "events.jsonl"
    written(file, "--snapshot", "every 1")
    packed = tmp_path / "events.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes())[:-400])

    status, found = answer(str(packed))

    assert status == 0
    assert found["verdict"] == "identical"
    assert any(gap.startswith("it breaks off: ") for gap in found["left"]["gaps"])


def test_what_is_no_file_is_said_to_be_that(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()

    for path, told in ((tmp_path, "is a folder"), (empty, "names no request")):
        ended = replay(str(path))

        assert ended.status == 2
        assert told in ended.err
        assert str(path) in ended.err


def test_a_log_of_the_first_engine_replays_its_preemption(tmp_path: Path) -> None:
    a_tree(OLD)
    file = saved(tmp_path, LOG_V0)

    status, found = answer(file)
    text = replay(file).out

    assert status == 0
    assert found["verdict"] == "nothing-otherwise"
    assert (found["left"]["origin"], found["right"]["version"]) == ("log", OLD)
    assert found["compared_steps"] == 1
    assert found["left"]["assumed"][0] == "assumed: --block-size 16"
    assert any("99.1% at most, and 100.0%" in gap for gap in found["left"]["gaps"])
    assert text.startswith("alike   nothing that the log tells is otherwise in the replay")


def test_what_a_log_tells_and_the_replay_does_otherwise_is_told_with_its_line(
    tmp_path: Path,
) -> None:
    a_tree(OLD)
    other = LOG_V0.replace("group cmpl-b", "group cmpl-a").replace("RECOMPUTE", "SWAP")

    roomy = answer(saved(tmp_path, LOG_V0), "--gpu-blocks", "100")
    swapped = answer(saved(tmp_path, other))

    assert (roomy[0], swapped[0]) == (1, 1)
    first = roomy[1]["first_difference"]
    assert first["left"] == "preemption 1 is of request cmpl-b, to be computed anew (line 5)"
    assert first["right"] == "preempts 0 times in all"
    first = swapped[1]["first_difference"]
    assert first["left"] == "preemption 1 is of request cmpl-a, by swapping (line 5)"
    assert first["right"] == "takes the place of request cmpl-b away, to be computed anew"


def test_a_log_of_the_second_engine_says_what_it_does_not_tell(tmp_path: Path) -> None:
    a_tree(CURRENT)

    status, found = answer(saved(tmp_path, LOG_V1))

    assert status == 0
    assert found["right"]["version"] == CURRENT
    assert found["left"]["assumed"] == [
        "assumed: --prompt-len 170, for 1 requests",
        "assumed: --max-tokens 16, for 1 requests",
        "assumed: every output is as long as it may be: a log does not tell when it ended",
        "assumed: --steps-a-second 20: a log has seconds, and no steps",
    ]
    assert "tells no decision that a replay could be held against" in found["left"]["gaps"][0]


def test_the_load_and_the_parameters_of_a_log_are_its_own() -> None:
    log = parse_scheduler_log(LOG_V1.splitlines())

    found = recording_of_log(log, "vllm.log", Assumed(prompt_len=50, steps_a_second=10))

    assert found.parameters == Parameters(gpu_blocks=100, block_size=32, max_seqs=4)
    assert found.load == (
        RequestSpec(id="cmpl-1", prompt_len=3, max_tokens=20),
        RequestSpec(id="cmpl-2", arrival=20, prompt_len=50, max_tokens=16, abort_after=30),
    )
    assert log.aborted == (("cmpl-2", 3.0),)
    assert log.usage[0].gpu == pytest.approx(0.045)


def test_a_prompt_that_speaks_like_a_log_changes_nothing() -> None:
    spoken = (
        "INFO 08-20 10:18:32 x.py:1] Received request r1: prompt: 'sampling_params: "
        "SamplingParams(n=9, max_tokens=7), prompt_token_ids: [1, 2], block_size=1 LLM engine "
        "(v9.9.9) ', params: SamplingParams(n=1, max_tokens=40), prompt_token_ids: [5, 6, 7], "
        "lora_request: None."
    )

    log = parse_scheduler_log([spoken])

    (request,) = log.requests
    assert (request.id, request.prompt_len, request.max_tokens) == ("r1", 3, 40)
    assert request.best_of == 1
    assert (log.version, log.options) == (None, ())


def test_the_number_of_a_preemption_is_kept_where_only_each_fiftieth_is_logged() -> None:
    line = (
        "WARNING Sequence group 221 is preempted by PreemptionMode.SWAP mode because there is not "
        "enough KV cache space. total_num_cumulative_preemption=101"
    )

    log = parse_scheduler_log(["noise", line])

    assert log.preemptions == (LoggedPreemption(request="221", line=2, swaps=True, number=101),)


def test_a_preemption_is_held_against_the_one_with_its_number() -> None:
    replayed = in_memory("reference", Parameters(gpu_blocks=20), uniform(4, 60, 60))
    lost = [request for step in replayed.steps for request in step.preempted]
    place = next(n for n, name in enumerate(lost) if name != lost[0])

    for number, verdict in ((place + 1, Verdict.NOTHING_OTHERWISE), (1, Verdict.DIFFERENT)):
        told = LoggedPreemption(request=lost[place], line=7, swaps=False, number=number)
        log = SchedulerLog(requests=(LoggedRequest(id="0", line=1),), preemptions=(told,))

        found = compare_with_log(recording_of_log(log, "log", Assumed()), replayed)

        assert found.verdict is verdict


def test_a_text_that_is_neither_says_what_to_record(tmp_path: Path) -> None:
    ended = replay(saved(tmp_path, "nothing of the kind\n"))

    assert ended.status == 2
    assert "names no request" in ended.err
    assert "--enable-log-requests" in ended.err
    with pytest.raises(EvidenceError):
        recording_of_log(parse_scheduler_log([]), "x", Assumed())


def test_a_log_is_replayed_and_not_compared_with_another(tmp_path: Path) -> None:
    ended = forensics("sandbox", "diff", "", saved(tmp_path, LOG_V0))

    assert ended.status == 2
    assert "forensics sandbox replay" in ended.err


@given(st.lists(st.text(max_size=80)), st.sampled_from(LOG_V0.splitlines()), st.integers(0, 200))
def test_no_text_and_no_damage_raises_anything(lines: list[str], line: str, cut: int) -> None:
    log = parse_scheduler_log([*lines, line[:cut], line[cut:]])

    assert log.lines == len(lines) + 2


@pytest.mark.parametrize(
    "line",
    [
        "Added request " * 40_000,
        "Aborted request(s) " + "a," * 200_000,
        "Received request x: prompt: " + "params: SamplingParams(" * 20_000,
        "Running: 1 reqs, Waiting: 1 reqs" + ", A b" * 100_000 + " KV cache usage: ",
        "args: " + "block_size" * 50_000,
        "Received request " + "x" * 500_000,
    ],
)
def test_a_long_line_that_begins_over_and_over_holds_nothing(line: str) -> None:
    log = parse_scheduler_log([line])

    assert [request.max_tokens for request in log.requests] in ([], [None])
    assert (log.usage, log.options, log.preemptions) == ((), (), ())


@pytest.mark.parametrize("sizes", [(1,), (7, 3), (10_000,)])
def test_lines_are_the_same_however_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]
) -> None:
    data = b"one\n\ntwo three\n" + b"x" * 300 + b"\nend"
    file = tmp_path / "log"
    file.write_bytes(data)

    def pieces(path: str) -> Iterator[bytes]:
        at, turns = 0, cycle(sizes)
        while at < len(data):
            size = next(turns)
            yield data[at : at + size]
            at += size

    monkeypatch.setattr(sandbox_files, "read_log", pieces)

    assert list(sandbox_files.event_lines(str(file))) == data.splitlines(keepends=True)
