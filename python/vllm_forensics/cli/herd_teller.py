"""Tells what came of one core or of a thousand; of each group no more than one crash is held."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from vllm_forensics.capture.spool import Place, Spool
from vllm_forensics.cli.output import Output
from vllm_forensics.investigate.herd import Explained, Grouping, rank_of
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash, Failure, Report
from vllm_forensics.render.clean import clean
from vllm_forensics.render.wire import json_closing, json_entry, json_opening

if TYPE_CHECKING:
    from vllm_forensics.render.terminal import TerminalStyle


@dataclass(frozen=True, slots=True, kw_only=True)
class HerdTeller:
    """How and where to tell, as the options say."""

    as_json: bool
    output: str | None
    include_secrets: bool
    no_store: bool
    style: Callable[[], TerminalStyle]

    def tell(self, found: Iterable[Explained]) -> Report:
        """Tell it all; the report holds every group and failure, and one crash of each group."""
        if self.no_store:
            return self._tell(found, lambda: None)
        from vllm_forensics.investigate.cases import CaseRecorder

        recorder = CaseRecorder()
        with contextlib.closing(recorder.each(found)) as known:
            return self._tell(known, lambda: recorder.failure)

    def _tell(
        self, found: Iterable[Explained], store_failure: Callable[[], Failure | None]
    ) -> Report:
        heads = Heads()
        with Output(self.output) as out, Spool() as spool:
            entries = _JsonEntries(out, spool) if self.as_json else None
            for each in found:
                result = clean(each.result, include_secrets=self.include_secrets)
                if entries is not None:
                    entries.put(each.place, result, is_final=each.is_final)
                    result = _without_body(result)
                heads.put(each.place, result)
            report = replace(heads.report(), store_failure=clean(store_failure()))
            if entries is not None:
                entries.end(report)
            else:
                out.write(self._text(report))
        return report

    def _text(self, report: Report) -> str:
        from vllm_forensics.investigate.triage import own_frames
        from vllm_forensics.render.core_screen import render_cores

        return render_cores(report, self.style(), own_frames(report))


class Heads:
    """The crash that stands for each group, and what failed."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._grouping = Grouping()
        self._heads: dict[str, tuple[tuple[bool, int], int, Crash]] = {}
        self._failures: dict[int, Failure] = {}

    def put(self, place: int, result: Crash | Failure) -> None:
        """Add what came of the core at `place`, or say it anew."""
        self._grouping.put(place, result)
        self._failures.pop(place, None)
        if isinstance(result, Failure):
            self._failures[place] = result
            return
        rank, known = rank_of(result), self._heads.get(result.signature)
        if known is None or (rank, place) <= known[:2]:
            self._heads[result.signature] = (rank, place, result)

    def report(self) -> Report:
        """Every group and failure; of the crashes only those that stand for a group."""
        groups = self._grouping.groups()
        return Report(
            crashes=tuple(self._heads[group.signature][2] for group in groups),
            groups=groups,
            failures=tuple(self._failures[place] for place in sorted(self._failures)),
        )


class _JsonEntries:
    """Writes each crash as soon as it is final and all that stand before it are written."""

    def __init__(self, out: Output, spool: Spool) -> None:
        """`spool` holds what must wait."""
        self._out = out
        self._spool = spool
        self._waiting: dict[int, Place | None] = {}
        self._next = 0
        self._written = 0

    def put(self, place: int, result: Crash | Failure, *, is_final: bool) -> None:
        """Take what came of a core, or take it anew; a failure has no entry."""
        entry = json_entry(result) if isinstance(result, Crash) else None
        if not is_final or place != self._next:
            self._waiting[place] = None if entry is None else self._spool.put(entry)
        else:
            self._write(entry)
        while is_final and self._next in self._waiting:
            self._write_waiting()

    def end(self, report: Report) -> None:
        """Write what waits, and what stands after the crashes."""
        while self._next in self._waiting:
            self._write_waiting()
        if not self._written:
            self._out.write(json_opening())
        self._out.write(("\n  " if self._written else "") + json_closing(report))

    def _write_waiting(self) -> None:
        place = self._waiting.pop(self._next)
        self._write(None if place is None else self._spool.get(place))

    def _write(self, entry: str | None) -> None:
        self._next += 1
        if entry is not None:
            self._out.write((json_opening() if not self._written else ",") + entry)
            self._written += 1


def _without_body(result: Crash | Failure) -> Crash | Failure:
    """Of a crash that is written, only what its group's entry needs is kept."""
    return replace(result, threads=(), modules=()) if isinstance(result, Crash) else result
