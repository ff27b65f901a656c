"""From paths to a report, without gdb."""

import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.py.support.core_builder import CoreSpec, build_core, siginfo
from tests.py.support.reports import null_crash, recursion_crash

from vllm_forensics.diagnosis import explain, rules
from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.investigate import journal
from vllm_forensics.investigate import triage as triaging
from vllm_forensics.investigate.journal import Told
from vllm_forensics.investigate.triage import (
    TriageOptions,
    gdb_command,
    group,
    triage,
    triage_one,
)
from vllm_forensics.model.answer import Depth, Gap
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.report import Crash, Failure

NOTES_ONLY = TriageOptions(depth=Depth.NOTES)


def write(folder: Path, name: str, spec: CoreSpec | None = None, cut: int | None = None) -> str:
    path = folder / name
    path.write_bytes(build_core(spec)[:cut])
    return str(path)


def test_one_core_is_explained(tmp_path: Path) -> None:
    crash = triage_one(write(tmp_path, "core"), NOTES_ONLY)

    assert isinstance(crash, Crash)
    assert crash.fault.kind is FaultKind.NULL_DEREFERENCE
    assert (crash.pid, crash.fault.address, crash.threads[0].crashed) == (42, 0x48, True)


def test_next_steps_name_the_core(tmp_path: Path) -> None:
    path = write(tmp_path, "core.1")

    crash = triage_one(path, NOTES_ONLY)

    assert isinstance(crash, Crash)
    assert any(path in step for step in crash.next_steps)


def test_many_cores_keep_their_order_and_bad_ones_stop_nothing(tmp_path: Path) -> None:
    good = [write(tmp_path, f"core.{number}") for number in range(6)]
    bad = [write(tmp_path, "core.cut", cut=100), str(tmp_path / "missing")]
    seen: list[tuple[int, int]] = []

    report = triage(
        [good[0], bad[0], *good[1:], bad[1]],
        NOTES_ONLY,
        on_progress=lambda progress: seen.append((progress.done, progress.total)),
    )

    assert [crash.core for crash in report.crashes] == good
    assert [failure.path for failure in report.failures] == bad
    assert all(failure.remedy for failure in report.failures)
    assert seen == [(done, 8) for done in range(1, 9)]


def test_any_executor_will_do(tmp_path: Path) -> None:
    with ThreadPoolExecutor(max_workers=1) as executor:
        report = triage([write(tmp_path, "core")], NOTES_ONLY, executor=executor)

        assert len(report.crashes) == 1
        assert executor.submit(int, "3").result() == 3


def test_no_core_anywhere_is_a_failure_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triaging, "told_crashes", lambda paths, since_s, *, live: Told())

    report = triage([], NOTES_ONLY)

    assert report.crashes == ()
    assert report.failures[0].error == "no core dump was found"
    assert "core_pattern" in report.failures[0].remedy


def test_a_truncated_core_is_explained_with_a_gap(tmp_path: Path) -> None:
    whole = len(build_core())

    crash = triage_one(write(tmp_path, "core", cut=whole - 512), NOTES_ONLY)

    assert isinstance(crash, Crash)
    assert any("truncated" in gap.what for gap in crash.gaps)


def test_that_no_stacks_were_wanted_is_a_gap(tmp_path: Path) -> None:
    crash = triage_one(write(tmp_path, "core"), NOTES_ONLY)

    assert isinstance(crash, Crash)
    again = f"forensics core --depth stack {shlex.quote(crash.core)}"
    assert any(gap.remedy == again for gap in crash.gaps)


def test_a_core_of_aarch64_is_explained_too(tmp_path: Path) -> None:
    thread = (42, {"pc": 0x40_1000, "sp": 0x7000_0100})
    path = write(tmp_path, "core", CoreSpec(machine=183, threads=(thread,)))

    crash = triage_one(path, NOTES_ONLY)

    assert isinstance(crash, Crash)
    assert crash.fault.kind is FaultKind.NULL_DEREFERENCE


def test_a_signal_of_another_process_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "core", CoreSpec(signal=siginfo(6, 0, sender=7)))

    crash = triage_one(path, NOTES_ONLY)

    assert isinstance(crash, Crash)
    assert crash.fault.kind is FaultKind.EXTERNAL_SIGNAL
    assert "process 7" in crash.explanation


def test_what_is_no_core_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")

    failure = triage_one(str(tmp_path / "a.txt"), NOTES_ONLY)

    assert failure == Failure(
        path=str(tmp_path / "a.txt"),
        error="is a text file, not a core dump",
        remedy="forensics log FILE    # the core itself lies where core_pattern says",
    )


def test_equal_crashes_are_grouped_the_largest_group_first() -> None:
    first, second, other = null_crash("/a"), null_crash("/b"), recursion_crash()

    groups = group([other, first, second])

    assert [entry.cores for entry in groups] == [("/a", "/b"), (other.core,)]


def test_the_crash_with_the_fewest_gaps_stands_for_its_group() -> None:
    poor = replace(null_crash("/a"), gaps=(Gap(what="1"), Gap(what="2")))
    rich = replace(null_crash("/b"), gaps=())

    assert group([poor, rich])[0].representative == "/b"


def test_gdb_by_hand_is_given_the_core(tmp_path: Path) -> None:
    path = write(tmp_path, "core")

    arguments = gdb_command(path, NOTES_ONLY)

    assert arguments[arguments.index("--core") + 1] == path


@pytest.fixture
def broken_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that fails for the cores of process 7 alone."""
    judge = rules.find_fault

    def failing(image: Image, context: FaultContext) -> Finding:
        if image.process.pid == 7:
            raise KeyError("no such register\x1b[2J")
        return judge(image, context)

    monkeypatch.setattr(explain, "find_fault", failing)


@pytest.mark.usefixtures("broken_judge")
def test_a_mistake_of_ours_is_told_of_its_core_and_stops_no_other(tmp_path: Path) -> None:
    good = [write(tmp_path, f"core.{number}") for number in range(3)]
    bad = write(tmp_path, "core.bad", CoreSpec(pid=7))

    report = triage([good[0], bad, *good[1:]], NOTES_ONLY)

    assert [crash.core for crash in report.crashes] == good
    [failure] = report.failures
    assert failure.path == bad
    assert failure.error.startswith(
        "an error that forensics did not expect: KeyError: 'no such register"
    )
    assert "(in diagnose, diagnosis/explain.py:" in failure.error
    assert "please report it; VLLM_FORENSICS_TRACEBACK=1" in failure.remedy


@pytest.mark.usefixtures("broken_judge")
def test_the_traceback_of_a_mistake_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_FORENSICS_TRACEBACK", "1")

    with pytest.raises(KeyError, match="no such register"):
        triage_one(write(tmp_path, "core.bad", CoreSpec(pid=7)), NOTES_ONLY)


def test_a_mistake_in_a_deeper_reader_leaves_what_the_others_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Crash:
        raise ValueError("not enough values to unpack")

    monkeypatch.setattr(triaging, "with_python", failing)

    crash = triage_one(write(tmp_path, "core"), TriageOptions(), Depth.STACK)

    assert isinstance(crash, Crash)
    assert crash.fault.kind is FaultKind.NULL_DEREFERENCE
    assert crash.depth is Depth.NOTES
    assert "ValueError: not enough values to unpack" in crash.gaps[0].what
    assert crash.gaps[0].what.endswith("it was looked into less deep")


@pytest.mark.parametrize(
    ("has_journal", "error"), [(True, "tells of no core dump"), (False, "is not kept here: ")]
)
def test_a_journal_that_knows_of_no_crash_is_told_from_none(
    has_journal: bool, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "ask_journal", lambda *_, **__: b"")
    monkeypatch.setattr(journal, "has_journal", lambda: has_journal)

    report = triage([], replace(NOTES_ONLY, journal=True))

    [failure] = report.failures
    assert failure.path == "systemd's journal"
    assert failure.error.startswith(error)
