"""The death of a real engine: from its log alone, and from its log and core together.

Run by ./dev test-vllm. Three gigabytes of wheels are installed, and the core takes two.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.py.integration.tool import forensics
from tests.py.vllm.dying_engine import die

pytestmark = [pytest.mark.vllm, pytest.mark.gdb]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what the engine left."""
    folder = tmp_path_factory.mktemp("engine")
    die(folder)
    return folder


@pytest.fixture(scope="module")
def left_by_pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of an engine in whose worker another thread than Python's faulted."""
    folder = tmp_path_factory.mktemp("pool")
    die(folder, of_pool=True)
    return folder


def test_the_log_alone_tells_the_worker_from_its_echoes(left: Path) -> None:
    answer = forensics("log", "--format", "json", left / "serve.log")

    [incident] = answer.report["incidents"]
    death: dict[str, Any] = incident["first_death"]
    said = " ".join(echo["text"] for echo in incident["echoes"])
    assert answer.status == 1
    assert (death["role"], death["signal"]) == ("worker", "SIGSEGV")
    assert death["cause"]["class"] == "native-fault"
    assert incident["visible_error_is_echo"] is True
    assert "EngineDeadError" in said
    assert "EngineCore encountered a fatal error" in said


def test_who_lived_on_ended_by_the_echo_and_not_by_what_it_survived(left: Path) -> None:
    answer = forensics("log", "--format", "json", left / "serve.log")

    [incident] = answer.report["incidents"]
    dead, *others = incident["processes"]
    ends = {one["role"]: one["end"] for one in others}
    engine = next(one for one in others if one["role"] == "engine-core")
    assert dead["name"] == "VllmWorker-0"
    assert dead["parent"] == engine["pid"]
    assert ends["client"].startswith("EngineDeadError")
    assert "fatal error" in ends["engine-core"]


def python_of(crash: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the crashing thread; where one of OpenMP's pool was the first to fault, of its caller."""
    caller = crash["parallel_caller"]
    frames = crash["threads"][0]["frames"] + (caller["frames"] if caller is not None else [])
    return [frame for frame in frames if frame["kind"] == "python"]


def test_log_and_core_together_give_the_kernel_the_line_and_the_caller(left: Path) -> None:
    answer = forensics("report", "--format", "json", left, timeout_s=300)

    report = answer.report
    [crash] = report["crashes"]
    first = report["processes"][0]
    python = [frame["function"] for frame in python_of(crash)]
    assert answer.status == 1
    assert report["first_death"]["pid"] == first["pid"] == crash["pid"]
    assert report["first_death"]["role"] == "worker"
    assert "reshape_and_cache" in report["first_death"]["function"]
    assert crash["culprit"]["file"].endswith(".hpp")
    assert crash["culprit"]["line"] > 0
    assert "cpu_attn_reshape_and_cache" in python
    assert {Path(fact["source"]).name for fact in first["facts"]} >= {"serve.log"}
    assert "signal" in {one["what"] for one in first["agrees"]}
    assert report["visible_error_is_echo"] is True


def test_a_thread_of_the_pool_that_faults_first_is_told_with_its_likely_caller(
    left_by_pool: Path,
) -> None:
    answer = forensics("report", "--format", "json", left_by_pool, timeout_s=300)

    report = answer.report
    [crash] = report["crashes"]
    caller = crash["parallel_caller"]
    named = [frame["function"] for frame in caller["frames"]]
    first, log = report["first_death"], report["processes"][0]["facts"]
    assert crash["threads"][0]["id"] != crash["pid"] == caller["thread"]
    assert (first["pid"], first["name"]) == (crash["pid"], "VllmWorker-0")
    assert "reshape_and_cache" in first["function"]
    assert crash["culprit"]["line"] > 0
    assert caller["certainty"] == "likely"
    assert named.index("cpu_attn_reshape_and_cache") < named.index("execute_model")
    assert "most likely works in a parallel loop" in crash["explanation"]
    assert first["python_function"] is None  # that much is proved of nobody
    assert any("died unexpectedly" in fact["text"] for fact in log)
