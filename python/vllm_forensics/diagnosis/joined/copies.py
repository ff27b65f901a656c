"""Two files with the same words: a container's log and the file that it was also written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.joined import SourceKind

_LEAST: Final = 2
"""One line may stand in two logs by chance: two workers die alike."""
_MAX_SOURCES: Final = 40


def copies_in(told: Sequence[Statement]) -> Mapping[int, Statement]:
    """For each statement (by `id`) that only repeats another log's, that one.

    A log is a copy where all that it says of deaths stands in another one too, in the same order;
    of equals the one is kept that names more processes, then the first.
    """
    logs: dict[str, list[Statement]] = {}
    for one in told:
        if one.kind is SourceKind.LOG and one.clue is not None:
            logs.setdefault(one.source, []).append(one)
    order = sorted(logs.values(), key=lambda log: (len(log), _named(log)), reverse=True)
    kept: list[list[Statement]] = []
    found: dict[int, Statement] = {}
    for log in order[:_MAX_SOURCES]:
        pairs = next(filter(None, (_repeated(log, other) for other in kept)), None)
        if pairs is None:
            kept.append(log)
        else:
            found |= {id(one): other for one, other in pairs}
    return found


def _named(log: Sequence[Statement]) -> int:
    return sum(one.pid is not None for one in log)


def _repeated(
    log: Sequence[Statement], other: Sequence[Statement]
) -> list[tuple[Statement, Statement]] | None:
    """Each statement with the one that it repeats; None where not all do, or few."""
    rest = iter(other)
    pairs = []
    for one in log:
        same = next((two for two in rest if _is_same(one, two)), None)
        if same is None:
            return None
        pairs.append((one, same))
    return pairs if len(pairs) >= _LEAST else None


def _is_same(one: Statement, other: Statement) -> bool:
    """The same words behind any prefix, with the same stack, of the same process if both say."""
    ours, theirs = one.clue, other.clue
    if ours is None or theirs is None:
        return False
    alike = (ours.kind, ours.signal, ours.exit, ours.python, ours.native) == (
        theirs.kind, theirs.signal, theirs.exit, theirs.python, theirs.native,
    )  # fmt: skip
    same_process = None in {one.pid, other.pid} or one.pid == other.pid
    is_text = one.text.endswith(other.text) or other.text.endswith(one.text)
    return alike and same_process and is_text and bool(one.text and other.text)
