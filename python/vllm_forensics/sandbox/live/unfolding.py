"""Lines of a live trace as they would be without columns: an event each, an item each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from vllm_forensics.model.sandbox import WorkItem
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.live.lines import (
    AnswerLine,
    CameLine,
    EventsLine,
    GoingOn,
    ScheduleLine,
    Site,
    StateLine,
    TraceLine,
)
from vllm_forensics.sandbox.recording_lines import EventLine

_MOST_IN_FLIGHT = 1000
"""Steps that wait for an answer: of a damaged trace no more are kept."""


class Unfolding:
    """Keeps what later lines refer to: call sites, steps in flight, what requests have put out."""

    def __init__(self) -> None:
        """No line was seen."""
        self._sites: list[Site] = []
        self._in_flight: dict[int, list[str]] = {}
        self._outputs: dict[str, int] = {}

    def lines(self, line: TraceLine | EventLine) -> Iterator[TraceLine | EventLine]:
        """What a line says, in lines that say it one by one."""
        match line:
            case EventsLine():
                yield from self._events(line)
            case ScheduleLine():
                if line.more is not None:
                    line = replace(line, items=[*line.items, *_items(line.more)], more=None)
                self._in_flight[line.step] = [item.request for item in line.items]
                if len(self._in_flight) > _MOST_IN_FLIGHT:
                    del self._in_flight[next(iter(self._in_flight))]
                yield line
            case AnswerLine():
                yield self._answer(line)
            case CameLine():
                self._outputs[line.id] = 0
                yield line
            case StateLine():
                self._outputs |= {r.id: max(r.tokens - r.prompt, 0) for r in line.requests}
                yield line
            case _:
                yield line

    def _events(self, line: EventsLine) -> Iterator[EventLine]:
        self._sites += line.sites
        for kind, request, site, blocks, generations in line.changes:
            known = 0 <= site < len(self._sites)
            function, file, number = self._sites[site] if known else (None, None, None)
            for block, generation in zip(blocks, generations, strict=False):
                yield EventLine(
                    kind=kind.value,
                    block=block,
                    step=line.step,
                    pool=GPU,
                    generation=generation,
                    request=request,
                    function=function,
                    file=file,
                    line=number,
                )

    def _answer(self, line: AnswerLine) -> AnswerLine:
        tokens = dict(line.tokens)
        names = self._in_flight.pop(line.step, ())
        for name, count in (*zip(names, line.outputs, strict=False), *line.others.items()):
            before = self._outputs.get(name, 0)
            if count > before:
                tokens[name] = count - before
            self._outputs[name] = max(count, before)
        for name in line.finished:
            self._outputs.pop(name, None)
        return replace(line, tokens=tokens, outputs=[], others={})


def _items(more: GoingOn) -> Iterator[WorkItem]:
    replaced = set(more.replaced)
    columns = zip(more.requests, more.starts, more.counts, strict=False)
    for place, (name, start, count) in enumerate(columns):
        blocks = tuple(more.blocks.get(place, ()))
        yield WorkItem(name, name, start, count, blocks, place in replaced)
