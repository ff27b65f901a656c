"""Cores that lie elsewhere, and a Dask cluster that loses a worker in the middle."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from backports import zstd
from distributed import Client, LocalCluster
from tests.py.integration.crashes import FALLING, FALLING_LINE, compile_program, leave_core

from vllm_forensics.capture.cluster import cluster
from vllm_forensics.errors import ToolError
from vllm_forensics.investigate.triage import TriageOptions, triage
from vllm_forensics.model.answer import Depth

CORES = 40


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    return leave_core([compile_program(FALLING, folder / "falling")], folder / "crash")


def test_a_core_behind_a_url_is_explained(core: Path, tmp_path: Path) -> None:
    packed = tmp_path / "core.zst"
    packed.write_bytes(zstd.compress(core.read_bytes()))

    report = triage([f"file://{packed}", f"file://{core}"], TriageOptions(depth=Depth.STACK))

    assert [crash.core for crash in report.crashes] == [f"file://{packed}", f"file://{core}"]
    assert len(report.groups) == 1
    assert report.crashes[0].culprit is not None
    assert report.crashes[0].culprit.line == FALLING_LINE


def test_a_folder_behind_a_url_is_opened_up(core: Path, tmp_path: Path) -> None:
    for number in range(2):
        shutil.copy(core, tmp_path / f"core.{number}")

    report = triage([f"file://{tmp_path}"], TriageOptions(depth=Depth.NOTES))

    assert len(report.crashes) == 2


@pytest.mark.parametrize("path", ["file:///nowhere/core", "nosuchscheme://bucket/core"])
def test_what_cannot_be_fetched_is_a_failure(path: str) -> None:
    report = triage([path], TriageOptions())

    (failure,) = report.failures
    assert failure.path == path
    assert failure.remedy


def test_every_core_is_answered_once_though_a_worker_dies(core: Path, tmp_path: Path) -> None:
    for number in range(CORES):
        shutil.copy(core, tmp_path / f"core.{number:02}")
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        cluster(local.scheduler_address) as executor,
    ):
        killed = threading.Thread(target=kill_one, args=(local.scheduler_address,))
        killed.start()

        report = triage([str(tmp_path)], TriageOptions(depth=Depth.STACK), executor=executor)

        killed.join()
    assert [crash.core for crash in report.crashes] == [
        str(tmp_path / f"core.{number:02}") for number in range(CORES)
    ]
    assert report.failures == ()
    assert [len(group.cores) for group in report.groups] == [CORES]


def kill_one(address: str) -> None:
    """End one worker's process as soon as it has begun to work."""
    with Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        while not (busy := [w for w, keys in client.processing().items() if keys]):
            time.sleep(0.02)
        pid = client.run(os.getpid, workers=[busy[0]])[busy[0]]
        os.kill(pid, signal.SIGKILL)


def test_where_no_scheduler_answers_it_is_said() -> None:
    with (
        pytest.raises(ToolError, match="no Dask scheduler"),
        cluster("tcp://127.0.0.1:9"),
    ):
        pass
