"""What is written crash by crash is what would be written at once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.py.support.reports import null_crash, recursion_crash

from vllm_forensics.cli.herd_teller import Heads, HerdTeller
from vllm_forensics.investigate.herd import Explained
from vllm_forensics.investigate.triage import group
from vllm_forensics.model.answer import Depth, Gap
from vllm_forensics.model.report import Crash, Failure, Report
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.terminal import TerminalStyle
from vllm_forensics.render.wire import to_wire

FIRST = replace(null_crash("/cores/0"), depth=Depth.STACK)
SECOND = replace(recursion_crash(), core="/cores/1", depth=Depth.STACK)
THIRD = replace(
    null_crash("/cores/3"), depth=Depth.STACK, gaps=(Gap(what="one", remedy="two"),) * 9
)
UNREAD = Failure(path="/cores/2", error="is no core", remedy="look again")
RESULTS: tuple[Crash | Failure, ...] = (FIRST, SECOND, UNREAD, THIRD)


def teller(output: Path, *, as_json: bool = True) -> HerdTeller:
    return HerdTeller(
        as_json=as_json,
        output=str(output),
        include_secrets=False,
        no_store=True,
        style=lambda: TerminalStyle(width=100),
    )


def at_once(*results: Crash | Failure) -> str:
    crashes = tuple(result for result in results if isinstance(result, Crash))
    failures = tuple(result for result in results if isinstance(result, Failure))
    return json_text(to_wire(Report(crashes=crashes, groups=group(crashes), failures=failures)))


def explained(*places: int, is_final: bool = True) -> list[Explained]:
    return [Explained(place=at, result=RESULTS[at], is_final=is_final) for at in places]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2)])
@pytest.mark.parametrize("is_final", [True, False])
def test_the_document_is_the_same_in_whatever_order_the_cores_are_ready(
    tmp_path: Path, order: tuple[int, ...], is_final: bool
) -> None:
    teller(tmp_path / "out").tell(explained(*order, is_final=is_final))

    assert (tmp_path / "out").read_text() == at_once(*RESULTS)


@pytest.mark.parametrize("results", [(), (UNREAD,), (FIRST,)])
def test_few_or_no_crashes_are_a_document_too(
    tmp_path: Path, results: tuple[Crash | Failure, ...]
) -> None:
    found = [Explained(place=at, result=one, is_final=True) for at, one in enumerate(results)]

    teller(tmp_path / "out").tell(found)

    assert (tmp_path / "out").read_text() == at_once(*results)


def test_a_core_that_is_told_again_stands_in_the_document_once(tmp_path: Path) -> None:
    deeper = replace(FIRST, depth=Depth.FULL, explanation="It was so.")
    again = Explained(place=0, result=deeper, is_final=False)

    teller(tmp_path / "out").tell([*explained(0, 1, 2, 3, is_final=False), again])

    assert (tmp_path / "out").read_text() == at_once(deeper, SECOND, UNREAD, THIRD)


def test_a_final_crash_is_written_before_the_next_is_asked_for(tmp_path: Path) -> None:
    written: list[str] = []

    def found() -> Iterator[Explained]:
        for each in explained(0, 1):
            yield each
            written.append((tmp_path / "out").read_text())

    teller(tmp_path / "out").tell(found())

    whole = (tmp_path / "out").read_text()
    assert [text.count('"core": ') for text in written] == [1, 2]
    assert all(whole.startswith(text) for text in written)


def test_people_read_of_each_group_the_crash_that_stands_for_it(tmp_path: Path) -> None:
    report = teller(tmp_path / "out", as_json=False).tell(explained(3, 1, 2, 0))

    text = (tmp_path / "out").read_text()
    assert {crash.core for crash in report.crashes} == {"/cores/0", "/cores/1"}
    assert "4 cores · 2 different crashes" in text
    assert "/cores/3" not in text
    assert "/cores/2: is no core" in text


def test_a_deeper_look_stands_for_the_group_and_a_failure_for_nothing() -> None:
    heads = Heads()
    heads.put(0, FIRST)
    heads.put(3, THIRD)

    heads.put(3, replace(THIRD, depth=Depth.FULL))
    heads.put(0, UNREAD)

    report = heads.report()
    assert [crash.core for crash in report.crashes] == ["/cores/3"]
    assert report.failures == (UNREAD,)
