"""A scheduler's fault is a use after free of real memory, seen by AddressSanitizer."""

import fcntl
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.py.integration.test_build import FOLDER
from tests.py.integration.tool import forensics

pytestmark = pytest.mark.asan
START = "from vllm_forensics.cli.main import main; main()"


@pytest.fixture
def sanitized() -> Iterator[Path]:
    """Our own module under AddressSanitizer, made again only where its sources changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = forensics("build", "--asan", "--folder", FOLDER / "asan", timeout_s=600)
        assert built.status == 0, built.stderr
        yield FOLDER / "asan"


def test_a_block_that_is_freed_while_it_is_used_has_one_life_on_both_sides(
    sanitized: Path, tmp_path: Path
) -> None:
    events, output = tmp_path / "events.jsonl", tmp_path / "run.json"

    ended = forensics(
        *("run", "--asan", "--build", sanitized, "--folder", tmp_path / "run"),
        *("--format", "json", "--output", output, "--", sys.executable, "-c", START),
        *("sandbox", "run", "--engine", "native", "--plant", "early-free"),
        *("--gpu-blocks", "200", "--events", events),
        environment={"PYTHONPATH": str(sanitized), "FORENSICS_TRACE": "stderr"},
        timeout_s=300,
    )

    # The sanitizer's side: who allocated, who freed, who used.
    [report] = json.loads(output.read_text(encoding="utf-8"))["reports"]
    assert ended.status == 128 + signal.SIGABRT
    assert report["kind"] == "heap-use-after-free"
    chain = {
        link["role"]: [frame["function"] or "" for frame in link["frames"]]
        for link in report["chain"]
    }
    assert any("take_memory" in name for name in chain["allocate"])
    assert any("return_memory" in name for name in chain["free"])
    assert any("paged_attention" in name for name in chain["use"])
    assert "_attend" in [frame["function"] for frame in report["python"]]
    # The module's own log: which block that is.
    last = [line for line in ended.stderr.splitlines() if " device block " in line][-1].split()
    assert "use" in last
    block = int(last[last.index("block") + 1])
    # The scheduler's side, on record although the process died.
    recorded = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    life = [line for line in recorded if line.get("block") == block]
    assert [line["kind"] for line in life] == ["allocate", "use", "free"]
    assert life[0]["request"] == "0"
    assert life[-1]["function"] == "EarlyFreePool.allocate"
    assert recorded[-1]["kind"] != "end"
