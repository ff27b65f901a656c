"""How often clues are looked at while the first death is found: no more often than there are."""

from collections.abc import Iterator

import pytest

from vllm_forensics.diagnosis.incident.first import first_death
from vllm_forensics.model.incident import Clue, ClueKind


class Counted(tuple[Clue, ...]):
    """Clues that count how often one was looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Clue]:
        for clue in super().__iter__():
            self.looked_at += 1
            yield clue


def clue(line: int, kind: ClueKind, signal: str | None = None) -> Clue:
    return Clue(kind=kind, source="python", line=line, text="x", signal=signal, detail=f"E: {line}")


def work(kinds: list[ClueKind], count: int) -> int:
    """Exceptions, with others' words and a signal at the end."""
    raised = [clue(line, ClueKind.EXCEPTION) for line in range(2, count)]
    last = [clue(count + at, kind) for at, kind in enumerate(kinds)]
    clues = Counted([clue(1, ClueKind.CHILD), *raised, *last])
    first_death(clues)
    return clues.looked_at


@pytest.mark.parametrize(
    "kinds", [[], [ClueKind.SIGNAL], [ClueKind.SIGNAL, ClueKind.ECHO]], ids=str
)
def test_many_exceptions_are_looked_at_a_few_times_each(kinds: list[ClueKind]) -> None:
    few, many = work(kinds, 100), work(kinds, 800)

    assert many < 8 * few * 1.2
