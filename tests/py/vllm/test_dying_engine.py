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
