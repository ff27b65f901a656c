"""Whose tokens are in each block, as the worker wrote them: what a cache hands out must be that.

A prefix cache finds blocks by their content. If a hash outlives the content that it stands for,
nothing raises and no count is wrong: a request reads another's keys and values.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

_Content = tuple[str, int]
"""A request and a place in its table; no request where it is a prefix that many share."""


class BlockContents:
    """Which blocks are full, and of what."""

    def __init__(self, prefixes: Mapping[str, int], block_size: int) -> None:
        """`prefixes`: by request, how many first tokens it shares with all that share any."""
        self._prefixes = prefixes
        self._block_size = block_size
        self._full: dict[int, _Content] = {}
        self._on_cpu: dict[int, _Content] = {}

    def _content(self, request: str, place: int) -> _Content:
        shared = (place + 1) * self._block_size <= self._prefixes.get(request, 0)
        return "" if shared else request, place

    def wrote(self, request: str, block: int, place: int, end: int) -> None:
        """The worker wrote into a block, for this place of a table, up to before token `end`."""
        if end >= (place + 1) * self._block_size:
            self._full[block] = self._content(request, place)
        else:
            self._full.pop(block, None)

    def moved_out(self, source: int, target: int) -> None:
        """A block was copied to the CPU."""
        _copy(self._full, source, self._on_cpu, target)

    def moved_in(self, source: int, target: int) -> None:
        """A block was copied from the CPU."""
        _copy(self._on_cpu, source, self._full, target)

    def copied(self, source: int, target: int) -> None:
        """A block was copied to another."""
        _copy(self._full, source, self._full, target)

    def state(self) -> Hashable:
        """Whose tokens are in which block."""
        return frozenset(self._full.items())

    def wrong(self, request: str, block: int, place: int) -> str | None:
        """What is in a block that a request reads at this place of its table; None: what it is for.

        The block must be full: a cache hands out no others.
        """
        found = self._full.get(block)
        if found == self._content(request, place):
            return None
        if found is None:
            return "the worker has not filled it"
        first = found[1] * self._block_size
        whose = f"of request {found[0]}" if found[0] else "of the shared prefix"
        return f"in it are tokens {first} to {first + self._block_size - 1} {whose}"


def _copy(source: dict[int, _Content], block: int, target: dict[int, _Content], other: int) -> None:
    content = source.get(block)
    if content is None:
        target.pop(other, None)
    else:
        target[other] = content
