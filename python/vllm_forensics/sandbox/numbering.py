"""Whether two runs' block numbers are the same, renamed, or handed out in another order."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_forensics.model.sandbox import Generation
from vllm_forensics.model.sandbox_diff import Difference, DifferenceKind
from vllm_forensics.sandbox.block_lives import LifeName
from vllm_forensics.sandbox.step_differences import Pair, StepOf, free_before


class Numbering:
    """The renumbering that makes the blocks of one run those of the other, as far as it goes.

    While one exists, both runs take blocks in the same order and only call them differently. Where
    a block comes back that has another partner already, the free lists are in another order.
    """

    def __init__(self) -> None:
        """Nothing has been handed out yet."""
        self.renamed = False
        """Whether any block has another number."""
        self._partner: dict[tuple[str, int], int] = {}
        self._taken: dict[tuple[str, int], int] = {}

    def check(self, pair: Pair) -> Difference | None:
        """Follow one step's allocations; the first that no renumbering explains."""
        right = dict(pair.right.view.allocated)
        for name, left_block in pair.left.view.allocated:
            right_block = right.get(name)
            if right_block is None:
                continue  # not allocated there: a difference of another kind
            self.renamed |= left_block != right_block
            there = self._partner.setdefault((name.pool, left_block), right_block)
            here = self._taken.setdefault((name.pool, right_block), left_block)
            if (there, here) != (right_block, left_block):
                return _order(pair, name, left_block, right_block)
        return None


def _order(pair: Pair, name: LifeName, left_block: int, right_block: int) -> Difference:
    return Difference(
        step=pair.left.view.number,
        kind=DifferenceKind.FREE_LIST_ORDER,
        request=name.request,
        pool=name.pool,
        left_block=left_block,
        right_block=right_block,
        left=_handed_out(pair.left, name, left_block),
        right=_handed_out(pair.right, name, right_block),
        why="; ".join(_reasons(pair)) or None,
    )


def _reasons(pair: Pair) -> Iterator[str]:
    free = free_before(pair)
    if free is not None:
        yield free
    if any(side.recording.engine is Generation.V0 for side in (pair.left, pair.right)):
        # block_manager_v1.py: `for block in set(blocks_to_free)`, objects hashed by address.
        yield (
            "0.3 and 0.4 free the blocks of a table in the order of a set, which is another one "
            "in each run"
        )
    elif _is_one_scenario(pair):
        # Seen with a connector: the requests whose transfers are done come as a set of names.
        yield (
            "a set of names is gone through in another order in each process, unless "
            "PYTHONHASHSEED is set"
        )


def _is_one_scenario(pair: Pair) -> bool:
    left, right = pair.left.recording, pair.right.recording
    return (left.engine, left.version, left.parameters, left.load) == (
        *(right.engine, right.version, right.parameters, right.load),
    )


def _handed_out(side: StepOf, name: LifeName, block: int) -> str:
    """Which block it is, and since when it was free."""
    text = f"takes block {block}"
    released = side.blocks.last_release.get((name.pool, block))
    if released is None:
        return f"{text}, which nobody had before"
    step, request = released
    who = "" if request is None else f" by request {request}"
    return f"{text}, which was freed in step {step}{who}"
