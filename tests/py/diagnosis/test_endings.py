"""Deaths without a core: one true sentence each."""

import pytest

from vllm_forensics.diagnosis.endings import explain_endings
from vllm_forensics.model.run import ProcessRecord, SupervisedRun


def run_of(*processes: ProcessRecord, oom_kills: int | None = 0) -> SupervisedRun:
    return SupervisedRun(processes=processes, faults=(), cores=(), oom_kills=oom_kills, errors=())


def process(ending: int | None, pid: int = 7, command: str | None = "/bin/serve") -> ProcessRecord:
    return ProcessRecord(pid=pid, parent=1, command=command, exit=ending)


@pytest.mark.parametrize("ending", [None, 0, 1, 137])
def test_a_plain_exit_needs_no_sentence(ending: int | None) -> None:
    assert explain_endings(run_of(process(ending)), frozenset()) == ()


def test_a_kill_with_a_grown_count_is_the_kernels() -> None:
    [sentence] = explain_endings(run_of(process(-9), oom_kills=2), frozenset())

    assert "process 7 (/bin/serve) was killed with SIGKILL" in sentence
    assert "grew by 2" in sentence
    assert "for want of memory" in sentence
    assert "OOMKilled, exit code 137" in sentence


def test_a_kill_without_a_count_is_somebody_elses() -> None:
    [sentence] = explain_endings(run_of(process(-9)), frozenset())

    assert "as kill -9 does" in sentence
    assert "did not count one here" in sentence


def test_where_no_count_can_be_read_nothing_is_claimed() -> None:
    [sentence] = explain_endings(run_of(process(-9), oom_kills=None), frozenset())

    assert "cannot be read here" in sentence


@pytest.mark.parametrize(("number", "name"), [(1, "SIGHUP"), (2, "SIGINT"), (15, "SIGTERM")])
def test_a_request_to_end_is_no_crash(number: int, name: str) -> None:
    [sentence] = explain_endings(run_of(process(-number)), frozenset())

    assert f"asked to end with {name}: not a crash" in sentence


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (6, "SIGABRT"), (64, "signal 64")])
def test_a_fault_without_a_core_is_said(number: int, name: str) -> None:
    [sentence] = explain_endings(run_of(process(-number)), frozenset())

    assert f"died of {name}, and no core of it could be written" in sentence


def test_what_a_core_explains_is_not_said_again() -> None:
    run = run_of(process(-11, pid=7), process(-9, pid=8))

    [sentence] = explain_endings(run, frozenset({7}))

    assert sentence.startswith("process 8")


def test_a_process_without_a_name_is_named_by_its_number() -> None:
    [sentence] = explain_endings(run_of(process(-15, command=None)), frozenset())

    assert sentence.startswith("process 7 was asked")
