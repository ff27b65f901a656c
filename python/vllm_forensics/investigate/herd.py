"""Many cores: told one after the other, and of each no more is kept than groups need."""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vllm_forensics.errors import own_error
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash, Failure, Group

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

Explain = Callable[[str, Depth], Crash | Failure]


class Hands(NamedTuple):
    """Who explains cores."""

    executor: Executor | None
    """None: nobody but the caller, one core after the other."""
    ahead: int
    """How many cores it is given before their results are taken: a result may be large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a triage of many cores is."""

    done: int
    total: int
    groups: int
    latest: Crash | Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What came of one core."""

    place: int
    """In the order in which the cores were named."""
    result: Crash | Failure
    is_final: bool
    """False where the same core may be told again, deeper; the last telling counts."""


class _Member(NamedTuple):
    core: str
    signature: str
    rank: tuple[bool, int]
    """The lowest stands for its group: looked into deepest, with the fewest gaps."""


class Grouping:
    """Which crashes are one bug, by their signatures. Crashes themselves are not kept."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._members: dict[int, _Member] = {}
        self._signatures: dict[str, str] = {}

    def put(self, place: int, result: Crash | Failure) -> None:
        """Add what came of the core at `place`, or say it anew."""
        if isinstance(result, Failure):
            self._members.pop(place, None)
            return
        signature = self._signatures.setdefault(result.signature, result.signature)
        self._members[place] = _Member(result.core, signature, rank_of(result))

    @property
    def count(self) -> int:
        """How many groups there are, or were for a while."""
        return len(self._signatures)

    def groups(self) -> tuple[Group, ...]:
        """The largest group first; within one, the cores in their order."""
        groups = [
            Group(
                signature=signature,
                cores=tuple(self._members[place].core for place in places),
                representative=self._members[self._head(places)].core,
            )
            for signature, places in self._places().items()
        ]
        return tuple(sorted(groups, key=lambda entry: -len(entry.cores)))

    def heads(self) -> list[int]:
        """The places of the cores that stand for their groups and were not looked into in full."""
        heads = (self._head(places) for places in self._places().values())
        return [place for place in heads if self._members[place].rank[0]]

    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place in sorted(self._members):
            found.setdefault(self._members[place].signature, []).append(place)
        return found

    def _head(self, places: list[int]) -> int:
        return min(places, key=lambda place: self._members[place].rank)


def rank_of(crash: Crash) -> tuple[bool, int]:
    """The lower, the better does the crash stand for its group."""
    return crash.depth is not Depth.FULL, len(crash.gaps)


def explain_each(
    cores: Sequence[str],
    explain: Explain,
    depths: tuple[Depth, Depth],
    *,
    hands: Hands,
    on_progress: Callable[[Progress], None] | None = None,
) -> Generator[Explained]:
    """Explain every core as deep as the first of `depths` says, then each group's head deeper.

    Results come as they are ready. A head that turns out to be of another bug leaves its group to
    another head, which is looked into too.
    """
    first, deepest = depths
    grouping = Grouping()
    todo, asked = list(range(len(cores))), set[int]()
    depth = first
    while todo:
        named = {place: cores[place] for place in todo}
        results = _results(named, explain, depth, hands)
        for done, (place, result) in enumerate(results, start=1):
            grouping.put(place, result)
            if on_progress is not None and len(cores) > 1:
                on_progress(
                    Progress(done=done, total=len(todo), groups=grouping.count, latest=result)
                )
            yield Explained(place=place, result=result, is_final=first is deepest)
        if first is deepest:
            return
        depth = deepest
        todo = [place for place in grouping.heads() if place not in asked]
        asked.update(todo)


def _results(
    cores: Mapping[int, str], explain: Explain, depth: Depth, hands: Hands
) -> Iterator[tuple[int, Crash | Failure]]:
    """Results in the order in which they are ready; few wait to be taken."""
    if len(cores) == 1 or hands.executor is None:
        for place, core in cores.items():
            yield place, explain(core, depth)
        return
    submit = hands.executor.submit
    ready: queue.SimpleQueue[Future[Crash | Failure]] = queue.SimpleQueue()
    running: dict[Future[Crash | Failure], int] = {}
    waiting = iter(cores.items())

    def start_next() -> None:
        for place, core in waiting:
            future = submit(explain, core, depth)
            running[future] = place
            future.add_done_callback(ready.put)
            return

    try:
        for _ in range(hands.ahead):
            start_next()
        while running:
            future = ready.get()
            place = running.pop(future)
            result = _result_of(future, cores[place])
            del future
            start_next()
            yield place, result
    finally:
        for future in running:
            future.cancel()


def _result_of(future: Future[Crash | Failure], core: str) -> Crash | Failure:
    """What came of a core, also where an executor lost it: another's may be a whole cluster."""
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - one core's must not take the others with it
        mistake = own_error(error)
    return Failure(path=core, error=mistake.message, remedy=mistake.remedy)
