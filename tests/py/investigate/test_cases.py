"""A triage held against what was seen before, without gdb."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.py.support.reports import null_crash, recursion_crash

from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.cases import (
    CaseRecorder,
    crash_key,
    forget_cases,
    list_cases,
    note_case,
    the_case,
)
from vllm_forensics.investigate.herd import Explained
from vllm_forensics.investigate.triage import group
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.cases import ModuleBuild, Seen, Sighting
from vllm_forensics.model.report import Crash, Report
from vllm_forensics.model.stack import Variable
from vllm_forensics.render.wire import to_wire
from vllm_forensics.store.cases import CaseStore


def core_of(
    crash: Crash, folder: Path, name: str = "core", written_s: int = 1_000_000_000
) -> Crash:
    path = folder / name
    path.write_bytes(b"a core")
    os.utime(path, (written_s, written_s))
    return replace(crash, core=str(path))


def with_cases(report: Report) -> Report:
    """The report with what was known of its crashes, which are recorded."""
    recorder = CaseRecorder()
    crashes = tuple(recorder.known(crash) for crash in report.crashes)
    recorder.close()
    return replace(report, crashes=crashes, store_failure=recorder.failure)


def report_of(*crashes: Crash) -> Report:
    return Report(crashes=crashes, groups=group(crashes), failures=())


@pytest.fixture
def first(tmp_path: Path) -> Crash:
    return core_of(null_crash(), tmp_path)


@pytest.fixture
def second(tmp_path: Path) -> Crash:
    other = core_of(null_crash(), tmp_path, "core.2", 1_100_000_000)
    return replace(other, pid=43)


def test_a_crash_is_new_and_then_known_since_its_core_was_written(
    first: Crash, second: Crash
) -> None:
    new = with_cases(report_of(first))

    known = with_cases(report_of(second))

    assert to_wire(new).groups[0].seen == msgspec.convert(
        {"count": 0, "first": None, "last": None, "note": None},
        type(to_wire(new).groups[0].seen),
    )
    seen = to_wire(known).groups[0].seen
    assert seen is not None
    assert (seen.count, seen.first, seen.last) == (
        1, "2001-09-09T01:46:40Z", "2001-09-09T01:46:40Z",
    )  # fmt: skip


def test_the_same_crash_counts_once_whatever_file_it_lies_in(
    first: Crash, second: Crash, tmp_path: Path
) -> None:
    with_cases(report_of(first, second))

    with_cases(report_of(first, core_of(first, tmp_path, "core.zst"), second))

    assert the_case("v1:").count == 2


def test_a_key_is_of_the_crash_and_not_of_its_file_or_of_what_was_learned() -> None:
    crash = null_crash("/a")

    assert crash_key(crash) == crash_key(
        replace(crash, core="/b", command="", gaps=(), depth=Depth.STACK, objects=())
    )
    assert crash_key(crash) != crash_key(replace(crash, pid=crash.pid + 1))
    moved = tuple(replace(module, start=module.start + 4096) for module in crash.modules)
    assert crash_key(crash) != crash_key(replace(crash, modules=moved))


def test_own_modules_and_their_builds_are_kept(first: Crash) -> None:
    with_cases(report_of(first))

    [build] = the_case("v1:").builds
    known = {module.path.rsplit("/", 1)[-1]: module.build_id for module in first.modules}
    assert build == ModuleBuild(module="engine", build_id=known["engine"] or "")


def test_without_calls_nothing_is_said_and_nothing_kept(first: Crash) -> None:
    report = with_cases(report_of(replace(first, depth=Depth.NOTES)))

    assert to_wire(report).groups[0].seen is None
    assert list_cases().cases == ()


def test_secrets_are_masked_and_control_characters_escaped_in_what_is_kept(first: Crash) -> None:
    leaking = replace(first, command="engine --api-key hunter2secret \x1b[31m")
    with_cases(report_of(leaking))

    example = the_case("v1:").example

    assert "hunter2secret" not in example
    assert "\\\\x1b" in example
    assert json.loads(example)["signature"] == first.signature


@pytest.mark.parametrize(
    ("objects", "kept"),
    [
        pytest.param((Variable(name="a", value="x" * 100_000),), True, id="a large object"),
        pytest.param((), True, id="a small crash"),
    ],
)
def test_an_example_is_bounded(first: Crash, objects: tuple[Variable, ...], kept: bool) -> None:
    with_cases(report_of(replace(first, objects=objects)))

    example = the_case("v1:").example
    assert bool(example) is kept
    assert len(example) <= 64 << 10


def test_a_crash_that_is_too_large_is_kept_without_an_example(first: Crash) -> None:
    with_cases(report_of(replace(first, explanation="x" * 100_000)))

    assert the_case("v1:").example == ""


def test_many_crashes_are_recorded_while_they_come_and_the_rest_when_it_breaks_off(
    first: Crash,
) -> None:
    counts = []

    def found() -> Iterator[Explained]:
        for pid in range(1, 101):
            counts.append(sum(case.count for case in list_cases().cases))
            yield Explained(place=pid, result=replace(first, pid=pid), is_final=True)

    told = CaseRecorder().each(found())
    seen = [result.seen for _ in range(90) if isinstance(result := next(told).result, Crash)]
    told.close()

    assert counts[0] == 0 < counts[-1] < 90
    assert the_case("v1:").count == 90
    assert {known.count for known in seen if known is not None} == {0}


def test_a_write_that_is_interrupted_is_made_again_at_the_end(
    first: Crash, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, interrupts = CaseStore.record, [KeyboardInterrupt()]

    def record(store: CaseStore, sightings: Sequence[Sighting]) -> dict[str, Seen]:
        if interrupts:
            raise interrupts.pop()
        return write(store, sightings)

    monkeypatch.setattr(CaseStore, "record", record)
    found = (
        Explained(place=pid, result=replace(first, pid=pid), is_final=True) for pid in range(500)
    )
    told: list[Explained] = []
    with pytest.raises(KeyboardInterrupt):
        told.extend(CaseRecorder().each(found))

    assert not interrupts
    assert the_case("v1:").count >= len(told) > 0


def test_a_deeper_look_at_the_same_core_is_the_example_and_counts_once(first: Crash) -> None:
    recorder = CaseRecorder()
    recorder.known(replace(first, depth=Depth.STACK))
    recorder.known(replace(first, depth=Depth.FULL))
    recorder.close()

    case = the_case("v1:")
    assert case.count == 1
    assert json.loads(case.example)["depth"] == "full"


def test_a_broken_store_is_a_failure_and_the_triage_goes_on(
    first: Crash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"nothing of the kind " * 500)
    monkeypatch.setenv("VLLM_FORENSICS_CASES", str(broken))

    report = with_cases(report_of(first))

    assert report.crashes == (first,)
    assert report.store_failure is not None
    wire = to_wire(report)
    assert [failure.path for failure in wire.failures] == [str(broken)]
    assert wire.groups[0].seen is None


def test_a_note_goes_with_its_case_until_it_is_forgotten(first: Crash, second: Crash) -> None:
    with_cases(report_of(first))

    noted = note_case(first.signature, "mended in 0.6.3")
    report = with_cases(report_of(second))
    forgotten = forget_cases([first.signature.rsplit(":", 1)[-1]])

    assert noted.note == "mended in 0.6.3"
    seen = to_wire(report).groups[0].seen
    assert seen is not None
    assert seen.note == "mended in 0.6.3"
    assert [case.count for case in forgotten] == [2]
    assert list_cases().cases == ()


def test_a_prefix_of_several_or_none_is_refused(first: Crash, tmp_path: Path) -> None:
    other = core_of(recursion_crash(), tmp_path, "other")
    with_cases(report_of(first, replace(other, pid=99, signature="v1:abort:f:aaaaaaaaaaaa")))

    with pytest.raises(UsageError, match="2 known signatures"):
        the_case("v1:")
    with pytest.raises(UsageError, match="no known signature"):
        forget_cases(["aaaa", "v2:"])
    assert len(list_cases().cases) == 2


def test_asking_makes_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FORENSICS_CASES", str(tmp_path / "d" / "cases.sqlite"))

    assert list_cases().cases == ()
    assert not (tmp_path / "d").exists()
