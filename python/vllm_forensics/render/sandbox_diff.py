"""Two runs side by side, for a person: the step in which they part, what each did, both pools."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.sandbox import Outcome, Snapshot
from vllm_forensics.model.sandbox_diff import (
    Difference,
    DifferenceKind,
    DiffSide,
    SandboxDiff,
    Verdict,
)
from vllm_forensics.model.sandbox_recording import Origin
from vllm_forensics.model.sandbox_snapshot import stretches
from vllm_forensics.render.rows import Rows, paragraph
from vllm_forensics.render.sandbox_grid import SHADES, Axes, axes_of, grid_of
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "white")
_ROWS: Final = 12
_OTHERS: Final = 6
_VERDICTS: Final = {
    Verdict.IDENTICAL: "the same decisions, and the same block numbers",
    Verdict.SAME_UP_TO_NUMBERING: "the same decisions; blocks have other numbers, and one "
    "renumbering makes them equal",
    Verdict.NOTHING_OTHERWISE: "nothing that the log tells is otherwise in the replay",
    Verdict.SAME_BUT_ORDER: "the same decisions; blocks are handed out in another order",
}
WHAT: Final = {
    DifferenceKind.RAISED: "one of them dies",
    DifferenceKind.PREEMPTED: "a request loses its place",
    DifferenceKind.SWAPPED: "blocks are swapped",
    DifferenceKind.REFUSED: "a request is given up",
    DifferenceKind.ADMITTED: "a request is scheduled",
    DifferenceKind.TOKENS: "other tokens are computed",
    DifferenceKind.FORKED: "blocks are forked",
    DifferenceKind.COPIED: "a block is copied",
    DifferenceKind.CACHE_HIT: "blocks are found in the cache",
    DifferenceKind.ALLOCATED: "blocks are allocated",
    DifferenceKind.EVICTED: "the cache forgets blocks",
    DifferenceKind.FREED: "blocks are freed",
    DifferenceKind.FINISHED: "a request is finished",
    DifferenceKind.QUEUES: "requests stand in other queues",
    DifferenceKind.STATE: "the pools are in other states after the same decisions",
    DifferenceKind.FREE_LIST_ORDER: "another block is handed out",
    DifferenceKind.ENDED: "one of them is over",
}
"""Each kind of difference in words; which side does it is told beside them."""


def render_diff(diff: SandboxDiff, style: TerminalStyle) -> str:
    """The comparison as text. Every string must have been cleaned."""
    return render_parts(_parts(diff, style), style)


def _parts(diff: SandboxDiff, style: TerminalStyle) -> Iterator[RenderableType]:
    yield paragraph(_headline(diff), style.width)
    table = Rows(gap=2, widest=style.width)
    for name, text in _rows(diff):
        table.add_row(Text(f"  {name}", style="quiet"), Text(text))
    yield Text()
    yield table
    for pool in ("gpu", "cpu"):
        columns = max(8, (style.width - 16) // 2)
        axes = axes_of(diff, pool, rows=_ROWS, columns=columns)
        if axes is not None:
            yield Text()
            yield from _heat_map(diff, axes, columns)


def _headline(diff: SandboxDiff) -> Text:
    if diff.first is None:
        mark = "caution" if diff.verdict is Verdict.SAME_BUT_ORDER else "good"
        return Text.assemble(("alike", mark), f"   {_VERDICTS[diff.verdict]}")
    return Text.assemble(
        (f"first difference at step {diff.first.step}", "mark"), f"   {_what(diff.first)}"
    )


def _what(found: Difference) -> str:
    whose = "" if found.request is None else f": request {found.request}"
    return f"{WHAT[found.kind]}{whose}"


def _rows(diff: SandboxDiff) -> Iterator[tuple[str, str]]:
    if diff.first is not None:
        yield from _difference(diff.first)
    yield from _same_step(diff)
    yield from _later(diff)
    yield from _state_before(diff)
    if diff.first is not None or diff.order is not None:
        yield "", ""
    yield "run A", _side(diff.left)
    yield "run B", _side(diff.right)
    if diff.parameters:
        yield "differ in", " · ".join(f"{n} {a} | {b}" for n, a, b in diff.parameters)
    steps = f"{diff.compared_steps:,} steps compared"
    if diff.left.recording.origin is Origin.LOG:
        steps = f"{diff.compared_steps:,} decisions of the log compared"
    elif diff.first is not None:
        steps += f", {diff.different_steps:,} of them computed something else"
    yield "in all", steps
    for side, name in ((diff.left, "A"), (diff.right, "B")):
        for text in (*side.recording.assumed, *side.recording.gaps):
            yield "note", f"{name}: {text}"


def _later(diff: SandboxDiff) -> Iterator[tuple[str, str]]:
    """What differs besides, of another nature: later decisions, the order of the free list."""
    if diff.decision is not None:
        yield "", ""
        yield (
            "then",
            f"from step {diff.decision.step} on they decide otherwise: {_what(diff.decision)}",
        )
        yield from _difference(diff.decision)
    if diff.order is not None:
        if diff.first is not None:
            yield "", ""
        yield "order", f"from step {diff.order.step} on blocks are handed out in another order"
        yield from _difference(diff.order)


def _same_step(diff: SandboxDiff) -> Iterator[tuple[str, str]]:
    """What else differs there, a line for each kind."""
    first = diff.first
    others = [found for found in diff.others if found is not first]
    if first is not None:
        alike = [found for found in others if _alike(found, first)]
        if alike:
            yield "likewise", _requests(alike)
        others = [found for found in others if found not in alike]
    name = "same step"
    for kind in dict.fromkeys(found.kind for found in others):
        of_kind = [found for found in others if found.kind is kind]
        more = f"; likewise {_requests(of_kind[1:])}" if len(of_kind) > 1 else ""
        shown = of_kind[0]
        yield name, f"{_what(shown)} — A {shown.left}; B {shown.right}{more}"
        name = ""


def _alike(found: Difference, first: Difference) -> bool:
    """Of one kind, and done by the same run."""
    verbs = [(side.left.split()[0], side.right.split()[0]) for side in (found, first)]
    return found.kind is first.kind and verbs[0] == verbs[1]


def _requests(found: list[Difference]) -> str:
    names = [str(one.request) for one in found if one.request is not None]
    shown = ", ".join(names[:_OTHERS]) + (" …" if len(names) > _OTHERS else "")
    return f"request{'s' if len(names) > 1 else ''} {shown}"


def _state_before(diff: SandboxDiff) -> Iterator[tuple[str, str]]:
    for name, side in (("A before", diff.left), ("B before", diff.right)):
        if side.before is not None:
            yield name, _before(side.before)


def _difference(found: Difference) -> Iterator[tuple[str, str]]:
    yield "A", found.left
    yield "B", found.right
    if found.why is not None:
        yield "why", found.why


def _before(snapshot: Snapshot) -> str:
    parts = []
    for pool in snapshot.pools:
        if pool.total:
            order = f", in this order: {stretches(pool.free)}" if pool.free else ""
            parts.append(
                f"{len(pool.free)} of {pool.total - len(pool.reserved)} {pool.name.upper()} "
                f"blocks free{order}"
            )
    return "; ".join(parts)


def _side(side: DiffSide) -> str:
    recording = side.recording
    if recording.origin is Origin.LOG:
        version = f" of vLLM {recording.version}" if recording.version else ""
        lines = recording.log.lines if recording.log else 0
        return f"{recording.name} · a log{version}, {lines:,} lines"
    what = recording.engine.value if recording.engine else "unknown engine"
    if recording.version:
        what = f"vLLM {recording.version} ({what})"
    ends = {
        Outcome.FINISHED: f"finishes in {side.steps:,} steps",
        Outcome.RAISED: f"dies at step {side.steps}: {recording.error}",
        Outcome.STALLED: f"stalls at step {side.steps}: {recording.why}",
        Outcome.VIOLATION: f"breaks a rule ({', '.join(recording.findings)}) and raises nothing",
        Outcome.CUT: f"{side.steps:,} steps, then it is cut off",
        None: f"{side.last_step + 1:,} steps; how it ended is not known",
    }
    lost = f", {side.preemptions:,} preempted" if side.preemptions else ""
    return f"{recording.name} · {what} · {ends[recording.outcome]}{lost}"


def _heat_map(diff: SandboxDiff, axes: Axes, columns: int) -> Iterator[RenderableType]:
    blocks, steps = axes.blocks_a_row, axes.steps_a_column
    scale = f"{blocks} blocks" if blocks > 1 else "a block"
    across = f"{steps} steps" if steps > 1 else "a step"
    part = "" if axes.steps == axes.all_steps else f", the first {axes.steps} steps"
    title = f"  {axes.pool.upper()} blocks in use, {scale} a row, {across} a column{part}"
    yield Text(title, style="quiet")
    grids = grid_of(diff.left, axes), grid_of(diff.right, axes)
    requests = list(dict.fromkeys(cell.request for grid in grids for row in grid for cell in row))
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(requests)}
    label = len(str(axes.blocks - 1))
    gap = " " * (columns - axes.columns + 3)
    yield Text(f"  {'':>{label}}  {'A':<{axes.columns}}{gap}B", style="head")
    for row in range(axes.rows):
        line = Text(f"  {row * blocks:>{label}}  ")
        for place, grid in enumerate(grids):
            for cell in grid[row]:
                shade = SHADES[ceil(cell.held * (len(SHADES) - 1))]
                line.append(shade, style=colours[cell.request])
            if place == 0:
                line.append(gap)
        yield line
    apart = diff.first or diff.order
    if apart is not None and 0 <= apart.step < axes.steps:
        place = apart.step // steps
        pad = " " * (place + label + 4)
        between = " " * (axes.columns - 1 + len(gap))
        yield Text(f"{pad}▲{between}▲ step {apart.step}", style="mark")
