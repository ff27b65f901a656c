"""Keeps of a live engine who holds what, and what was done to blocks since the last line.

What one call does to many blocks is one change; nothing is made for each block alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any, Final

from vllm_forensics.model.event import EventKind
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.live.lines import Change, Site
from vllm_forensics.sandbox.recorder import Recorder, short_file

_OWN: Final = __file__.rpartition("sandbox")[0]
"""Where our own code is."""


class LiveRecorder(Recorder):
    """A recorder without memory: `taken` hands over what happened, once."""

    def __init__(self) -> None:
        """Nothing happened yet."""
        super().__init__(kept=0)
        self.changes: list[Change] = []
        self.new_sites: list[Site] = []
        self.for_request: frozenset[CodeType] = frozenset()
        """Methods whose first argument is the request that they work for."""
        self.working_on: Any = None
        """The request that the engine worked for last in this step."""
        self._sites: dict[tuple[CodeType, int], int] = {}

    def forget_sites(self) -> None:
        """Tell every call site anew: a new segment begins."""
        self._sites.clear()

    def allocated_all(self, pool: str, blocks: Iterable[int]) -> None:
        """New lives begin, with one holder each; told by the caller of who calls this."""
        request, site = self._where(sys._getframe(2))
        holders, lives, owners = self.holders[pool], self.generations[pool], self.owners[pool]
        numbers, generations = list(blocks), []
        for block in numbers:
            generation = lives[block] = lives.get(block, 0) + 1
            generations.append(generation)
            holders[block] = 1
            owners[block] = request
        self.changes.append((EventKind.ALLOCATE, request, site, numbers, generations))

    def freed_all(self, pool: str, blocks: Iterable[tuple[int, int]]) -> None:
        """One holder less of each block, with how many are left."""
        request, site = self._where(sys._getframe(2))
        holders, lives = self.holders[pool], self.generations[pool]
        numbers, generations = [], []
        for block, left in blocks:
            numbers.append(block)
            generations.append(lives.get(block, 0))
            holders[block] = max(left, 0)
        if numbers:
            self.changes.append((EventKind.FREE, request, site, numbers, generations))

    def noted_all(self, kind: EventKind, pool: str, blocks: Iterable[int]) -> None:
        """Something that changes no holder."""
        numbers = list(blocks)
        if numbers:
            request, site = self._where(sys._getframe(2))
            lives = self.generations[pool]
            generations = [lives.get(block, 0) for block in numbers]
            self.changes.append((kind, request, site, numbers, generations))

    def cached(self, blocks: list[int], request: str | None) -> None:
        """Blocks can be found by what this request has in them."""
        before, self.request = self.request, request
        self.noted_all(EventKind.CACHE, GPU, blocks)
        self.request = before

    def joined(self, kind: EventKind, pool: str, block: int, holders: int) -> None:
        """One more holder of a block."""
        request, site = self._where(sys._getframe(2))
        self.holders[pool][block] = holders
        self.owners[pool][block] = request
        generation = self.generations[pool].get(block, 0)
        self.changes.append((kind, request, site, [block], [generation]))

    def noted(self, kind: EventKind, pool: str, block: int) -> None:
        """Something that changes no holder."""
        request, site = self._where(sys._getframe(2))
        self.changes.append((kind, request, site, [block], [self.generations[pool].get(block, 0)]))

    def _where(self, frame: FrameType | None) -> tuple[str | None, int]:
        """For whom, and from which line of the engine: the innermost frame that is not ours."""
        while frame is not None and frame.f_code.co_filename.startswith(_OWN):
            frame = frame.f_back
        if frame is None:
            return self.request, -1
        key = frame.f_code, frame.f_lineno
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = len(self._sites)
            code, line = key
            self.new_sites.append((code.co_qualname, short_file(code.co_filename), line))
        request = self.request or getattr(self.working_on, "request_id", None)
        return request, site

    def failed_for(self, error: BaseException) -> str | None:
        """The request of the innermost call for one in which an error was raised."""
        found: Any = None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in self.for_request:
                code = trace.tb_frame.f_code
                found = trace.tb_frame.f_locals.get(code.co_varnames[1])
            trace = trace.tb_next
        return self.failing or getattr(found, "request_id", None)
