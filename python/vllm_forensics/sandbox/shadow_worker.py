"""A worker that computes nothing: it keeps its own block tables and checks every access.

It knows only what a real worker is told: the tables of each scheduler output. Whether a block may
be read or written it asks the recorder, who saw the allocator. The two must agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import ViolationKind, WorkerStep, WorkItem
from vllm_forensics.sandbox.block_contents import BlockContents
from vllm_forensics.sandbox.engine.interface import CPU, GPU, Engine
from vllm_forensics.sandbox.recorder import Recorder

Report = Callable[[ViolationKind, str, str | None, int | None], None]
"""Kind, message, request, block of the GPU's pool."""


@dataclass(slots=True)
class _Table:
    request: str
    blocks: list[int] = field(default_factory=list)
    lives: list[int] = field(default_factory=list)
    """The generation that each block was in when it came into the table."""


class ShadowWorker:
    """Block tables rebuilt from what each step tells, and the accesses that they lead to."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        block_size: int,
        window: int | None,
        total: int,
        prefixes: Mapping[str, int] | None = None,
    ) -> None:
        """Watch `recorder`'s pool of `total` blocks; `window` in tokens.

        `prefixes`: by request, how many first tokens it shares with all that share any; where they
        are not known, what a cache hands out cannot be checked.
        """
        self._recorder = recorder
        self._holders = recorder.holders[GPU]
        self._generations = recorder.generations[GPU]
        self._block_size = block_size
        self._window = window
        self._total = total
        self._contents = None if prefixes is None else BlockContents(prefixes, block_size)
        self._tables: dict[str, _Table] = {}
        self._users: dict[int, set[str]] = defaultdict(set)
        """By block: the sequences that have it in their tables."""
        self._ended: dict[str, set[int]] = defaultdict(set)
        """By sequence: blocks of its table whose life ended after they came into it."""
        self._joined: set[tuple[int, str]] = set()
        """Blocks that came into a table in this step."""
        recorder.on_end_of_life.append(self._on_end_of_life)

    def execute(
        self, step: WorkerStep, report: Report, writers: dict[int, WorkItem] | None = None
    ) -> None:
        """Apply one step's tables and movements; report each access that must not be.

        `writers`: by block, who writes it meanwhile; who writes in this step is added.
        """
        for sequence in step.finished:
            self._forget(sequence)
        self._move(step, report)
        # All tables first: what one sequence gives up in this step, another may write in it.
        self._joined.clear()
        tables = self._tables
        told = [
            self._told(item, report)
            if item.blocks or item.replaces
            else tables.get(item.sequence) or self._table(item)
            for item in step.items
        ]
        writers = {} if writers is None else writers
        for item, table in self._not_plain(step.items, told, writers):
            self._access(item, table, writers, report)
        if self._contents is not None:
            # After all writes: what one request computes in this step, another may read in it.
            for item, found in zip(step.items, told, strict=True):
                if item.replaces and item.start and found is not None:
                    self._check_found(item, found, self._contents, report)

    def _not_plain(
        self, items: tuple[WorkItem, ...], tables: list[_Table | None], writers: dict[int, WorkItem]
    ) -> list[tuple[WorkItem, _Table]]:
        """All but one token into a block that is held, by the only one that has it.

        Of that no more is to be checked. Nearly every item of every step is it, and this is what
        it costs: so it is one loop, and no calls.
        """
        size, holders, users, ended = self._block_size, self._holders, self._users, self._ended
        contents, recorder = self._contents, self._recorder
        last_use, number = recorder.last_use, recorder.step
        rest: list[tuple[WorkItem, _Table]] = []
        for item, table in zip(items, tables, strict=True):
            if table is None:
                continue
            start, blocks = item.start, table.blocks
            place = start // size
            if (
                item.tokens == 1
                and place < len(blocks)
                and item.sequence not in ended
                and (block := blocks[place]) not in writers
                and holders.get(block, 0) > 0
                and len(users[block]) == 1
            ):
                writers[block] = item
                last = last_use.get((GPU, block))
                if last is not None and last.request == item.request:
                    last.times += 1
                    last.last_step = number
                else:
                    recorder.used(GPU, block, item.request)
                offset = start - place * size
                if contents is not None and (offset == 0 or offset == size - 1):
                    contents.wrote(item.request, block, place, start + 1)
            else:
                rest.append((item, table))
        return rest

    def _check_found(
        self, item: WorkItem, table: _Table, contents: BlockContents, report: Report
    ) -> None:
        """What a request reads and did not write must be its own tokens."""
        found = item.start // self._block_size
        for place in range(self._first_read(item), min(found, len(table.blocks))):
            wrong = contents.wrong(item.request, table.blocks[place], place)
            if wrong is not None:
                first = place * self._block_size
                report(
                    ViolationKind.WRONG_CONTENT,
                    f"request {item.request} was given block {table.blocks[place]} for its tokens "
                    f"{first} to {first + self._block_size - 1}, and {wrong}",
                    item.request,
                    table.blocks[place],
                )

    def loaded(self, request: str, block: int, place: int) -> None:
        """A connector filled a block with what belongs at this place of the request's table."""
        if self._contents is not None:
            self._contents.wrote(request, block, place, (place + 1) * self._block_size)

    def state(self) -> Hashable:
        """Its tables, which blocks of them ended, and what is in each block."""
        return (
            frozenset((name, tuple(table.blocks)) for name, table in self._tables.items()),
            frozenset((name, frozenset(blocks)) for name, blocks in self._ended.items() if blocks),
            None if self._contents is None else self._contents.state(),
        )

    def check_tables(
        self, items: tuple[WorkItem, ...], engine: Engine, report: Report, group: int = 0
    ) -> None:
        """Compare the tables of what was scheduled with the engine's own for this group."""
        for item in items:
            own = engine.table(item.sequence, group)
            table = self._tables.get(item.sequence)
            if own is None or table is None:
                continue
            start = self._first_read(item)
            told, truth = tuple(table.blocks[start:]), own[start:]
            if told != truth:
                at = next(
                    (n for n, (a, b) in enumerate(zip(told, truth, strict=False)) if a != b),
                    min(len(told), len(truth)),
                )
                report(
                    ViolationKind.TABLE_MISMATCH,
                    f"the worker's table of {item.sequence} has block {_at(told, at)} at place "
                    f"{start + at}, the engine's has {_at(truth, at)}",
                    item.request,
                    told[at] if at < len(told) else None,
                )

    def _on_end_of_life(self, pool: str, block: int) -> None:
        if pool == GPU:
            for sequence in self._users.get(block, ()):
                self._ended[sequence].add(block)

    def _forget(self, sequence: str) -> None:
        table = self._tables.pop(sequence, None)
        if table is not None:
            for block in table.blocks:
                self._users[block].discard(sequence)
        self._ended.pop(sequence, None)

    def _told(self, item: WorkItem, report: Report) -> _Table | None:
        """The table after what the item says; None if it names a block that is not there."""
        before: set[int] = set()
        if item.replaces:
            old = self._tables.get(item.sequence)
            before = set() if old is None else set(old.blocks)
            self._forget(item.sequence)
        table = self._table(item)
        for block in item.blocks:
            if not 0 <= block < self._total:
                report(
                    ViolationKind.OUT_OF_RANGE,
                    f"the table of {item.sequence} names block {block} of {self._total}",
                    item.request,
                    block,
                )
                return None
            table.blocks.append(block)
            table.lives.append(self._generations.get(block, 0))
            self._users[block].add(item.sequence)
            if block not in before:
                self._joined.add((block, item.sequence))
        return table

    def _table(self, item: WorkItem) -> _Table:
        table = self._tables.get(item.sequence)
        if table is None:
            table = self._tables[item.sequence] = _Table(item.request)
        return table

    def _first_read(self, item: WorkItem) -> int:
        if self._window is None:
            return 0
        return max(0, item.start - self._window + 1) // self._block_size

    def _access(
        self, item: WorkItem, table: _Table, writers: dict[int, WorkItem], report: Report
    ) -> None:
        last = (item.start + item.tokens - 1) // self._block_size
        if last >= len(table.blocks):
            report(
                ViolationKind.SHORT_TABLE,
                f"{item.sequence} writes tokens {item.start} to {item.start + item.tokens - 1}: "
                f"place {last} of a table of {len(table.blocks)} blocks",
                item.request,
                None,
            )
            return
        first_write = item.start // self._block_size if item.tokens else last + 1
        if item.sequence in self._ended:
            ended = self._ended[item.sequence]
            for place in range(self._first_read(item), last + 1):
                if table.blocks[place] in ended and not self._still(table, place):
                    self._report_ended(item, table, place, report)
        for place in range(first_write, last + 1):
            self._write(item, table, place, writers, report)

    def _still(self, table: _Table, place: int) -> bool:
        """Whether the block is in the life in which it came into the table, and held."""
        block = table.blocks[place]
        same = self._generations.get(block, 0) == table.lives[place]
        return same and self._recorder.alive(GPU, block)

    def _report_ended(self, item: WorkItem, table: _Table, place: int, report: Report) -> None:
        block = table.blocks[place]
        access = "writes" if place >= item.start // self._block_size else "reads"
        now = "free"
        if self._recorder.alive(GPU, block):
            now = f"in another life, for request {self._recorder.owners[GPU].get(block)}"
        report(
            ViolationKind.USE_AFTER_FREE,
            f"request {item.request} {access} block {block}, which was freed while it ran and is "
            f"now {now}",
            item.request,
            block,
        )

    def _write(
        self,
        item: WorkItem,
        table: _Table,
        place: int,
        writers: dict[int, WorkItem],
        report: Report,
    ) -> None:
        block = table.blocks[place]
        self._recorder.used(GPU, block, item.request)
        if self._contents is not None:
            self._contents.wrote(item.request, block, place, item.start + item.tokens)
        other = writers.setdefault(block, item)
        alive = self._holders.get(block, 0) > 0
        if other is not item:
            report(
                ViolationKind.TWO_WRITERS,
                f"{_names(other, item)} write to block {block} in one step",
                item.request,
                block,
            )
        elif not alive and item.sequence not in self._ended:
            report(
                ViolationKind.USE_AFTER_FREE,
                f"request {item.request} was given block {block}, which nobody holds",
                item.request,
                block,
            )
        elif alive and len(self._users[block]) > 1:
            self._check_alone(item, block, report)

    def _check_alone(self, item: WorkItem, block: int, report: Report) -> None:
        """A block may be written by one sequence only: others that have it must not exist.

        But those that found it in the cache in this very step may: in each layer a worker writes
        before it reads.
        """
        others = sorted(
            name
            for name in self._users[block]
            if name != item.sequence
            and block not in self._ended.get(name, ())
            and (block, name) not in self._joined
        )
        if others:
            report(
                ViolationKind.ALIASED_BLOCK,
                f"{item.sequence} writes to block {block}, which is in the table of "
                f"{others[0]} too",
                item.request,
                block,
            )

    def _move(self, step: WorkerStep, report: Report) -> None:
        moves = (
            *((EventKind.SWAP, CPU, pair) for pair in step.swapped_out),
            *((EventKind.SWAP, GPU, pair) for pair in step.swapped_in),
            *((EventKind.COPY, GPU, pair) for pair in step.copies),
        )
        for kind, pool, (source, target) in moves:
            self._recorder.moved(kind, pool, source, target)
            if self._contents is not None:
                _moved(self._contents, kind, pool)(source, target)
            if kind is EventKind.COPY and not self._recorder.alive(GPU, target):
                report(
                    ViolationKind.USE_AFTER_FREE,
                    f"block {source} is copied to block {target}, which nobody holds",
                    None,
                    target,
                )


def _moved(contents: BlockContents, kind: EventKind, pool: str) -> Callable[[int, int], None]:
    if kind is EventKind.COPY:
        return contents.copied
    return contents.moved_out if pool == CPU else contents.moved_in


def _names(first: WorkItem, second: WorkItem) -> str:
    if first.request == second.request:
        return f"two sequences of request {first.request} ({first.sequence} and {second.sequence})"
    return f"requests {first.request} and {second.request}"


def _at(blocks: tuple[int, ...], place: int) -> str:
    return str(blocks[place]) if place < len(blocks) else "nothing"
