"""Many cores one after the other: in groups, with the head of each looked into deeper."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.py.support.reports import null_crash

from vllm_forensics.investigate.herd import (
    Explained,
    Grouping,
    Hands,
    Progress,
    explain_each,
)
from vllm_forensics.model.answer import Depth, Gap
from vllm_forensics.model.report import Crash, Failure

SORTED, STACKS = (Depth.STACK, Depth.FULL), (Depth.STACK, Depth.STACK)
CORES = [f"/cores/{number}" for number in range(12)]


def told(core: str, depth: Depth, bug: str, gaps: int = 0) -> Crash:
    return replace(
        null_crash(core),
        depth=depth,
        signature=bug,
        gaps=tuple(Gap(what=f"{n}") for n in range(gaps)),
    )


def by_number(core: str, depth: Depth) -> Crash | Failure:
    """Three bugs, and one core that cannot be read."""
    number = int(core.rsplit("/", 1)[-1])
    if number == 7:
        return Failure(path=core, error="is no core", remedy="")
    return told(core, depth, f"bug {number % 3}", gaps=5 - number % 5)


@pytest.fixture
def hands() -> Iterator[Hands]:
    with ThreadPoolExecutor(2) as pool:
        yield Hands(pool, 3)


def last_told(found: Iterator[Explained]) -> dict[int, Crash | Failure]:
    return {each.place: each.result for each in found}


def test_each_core_is_told_once_and_is_final_where_nothing_deeper_follows(hands: Hands) -> None:
    found = list(explain_each(CORES, by_number, STACKS, hands=hands))

    assert sorted(each.place for each in found) == list(range(12))
    assert all(each.is_final for each in found)


def test_the_head_of_each_group_is_told_again_in_full(hands: Hands) -> None:
    found = list(explain_each(CORES, by_number, SORTED, hands=hands))

    deep = [each.result for each in found if isinstance(each.result, Crash)]
    assert len(found) == 12 + 3
    assert not any(each.is_final for each in found)
    assert [crash.depth for crash in deep].count(Depth.FULL) == 3
    assert {crash.signature for crash in deep if crash.depth is Depth.FULL} == {
        "bug 0", "bug 1", "bug 2",
    }  # fmt: skip


def test_a_head_that_is_of_another_bug_leaves_its_group_to_another(hands: Hands) -> None:
    def explain(core: str, depth: Depth) -> Crash | Failure:
        is_liar = core == CORES[0] and depth is Depth.FULL
        return told(core, depth, "other" if is_liar else "bug", gaps=core != CORES[0])

    found = last_told(explain_each(CORES[:4], explain, SORTED, hands=hands))

    grouping = Grouping()
    for place, result in found.items():
        grouping.put(place, result)
    depths = {r.core: r.depth for r in found.values() if isinstance(r, Crash)}
    assert {entry.signature: len(entry.cores) for entry in grouping.groups()} == {
        "bug": 3, "other": 1,
    }  # fmt: skip
    assert all(depths[entry.representative] is Depth.FULL for entry in grouping.groups())


def test_a_head_that_is_gone_leaves_its_group_to_another(hands: Hands) -> None:
    def explain(core: str, depth: Depth) -> Crash | Failure:
        if core == CORES[0] and depth is Depth.FULL:
            return Failure(path=core, error="cannot be opened", remedy="")
        return told(core, depth, "bug", gaps=core != CORES[0])

    found = last_told(explain_each(CORES[:3], explain, SORTED, hands=hands))

    assert isinstance(found[0], Failure)
    assert [r.depth for r in found.values() if isinstance(r, Crash)] == [Depth.FULL, Depth.STACK]


def test_progress_counts_to_the_end_of_each_round(hands: Hands) -> None:
    seen: list[Progress] = []

    list(explain_each(CORES, by_number, SORTED, hands=hands, on_progress=seen.append))

    assert [(one.done, one.total) for one in seen] == [
        *((done, 12) for done in range(1, 13)),
        *((done, 3) for done in range(1, 4)),
    ]
    assert seen[-1].groups == 3


class Stepwise(Executor):
    """An executor that counts what it was given and not asked for yet."""

    def __init__(self) -> None:
        self.given = 0
        self.most = 0

    def submit(self, fn: Callable[..., object], /, *args: object, **_: object) -> Future[object]:  # type: ignore[override]
        self.given += 1
        self.most = max(self.most, self.given)
        future: Future[object] = Future()
        future.set_result(fn(*args))
        return future


def test_a_core_that_an_executor_lost_stops_no_other(hands: Hands) -> None:
    def losing(core: str, depth: Depth) -> Crash | Failure:
        if core == CORES[3]:
            raise ConnectionResetError("the worker is gone")
        return told(core, depth, "bug")

    found = last_told(explain_each(CORES, losing, STACKS, hands=hands))

    lost = found.pop(3)
    assert isinstance(lost, Failure)
    assert lost.path == CORES[3]
    assert "ConnectionResetError: the worker is gone" in lost.error
    assert len(found) == 11
    assert all(isinstance(result, Crash) for result in found.values())


def test_only_a_few_results_wait_to_be_taken() -> None:
    slow = Stepwise()

    for _ in explain_each(CORES, by_number, STACKS, hands=Hands(slow, 3)):
        slow.given -= 1

    assert slow.most <= 4


def test_what_was_not_begun_is_cancelled_when_nobody_listens_any_more() -> None:
    with ThreadPoolExecutor(1) as pool:
        asked: list[str] = []

        def explain(core: str, depth: Depth) -> Crash | Failure:
            asked.append(core)
            return by_number(core, depth)

        found = explain_each(CORES, explain, STACKS, hands=Hands(pool, 2))
        next(found)
        found.close()

    assert len(asked) <= 4


def test_groups_are_made_of_what_was_said_last() -> None:
    grouping = Grouping()
    grouping.put(1, told("/b", Depth.STACK, "bug", gaps=1))
    grouping.put(0, told("/a", Depth.STACK, "bug", gaps=1))
    grouping.put(2, told("/c", Depth.STACK, "bug"))

    grouping.put(2, Failure(path="/c", error="gone", remedy=""))

    [entry] = grouping.groups()
    assert (entry.cores, entry.representative) == (("/a", "/b"), "/a")
    assert grouping.heads() == [0]
