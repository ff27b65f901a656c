"""A sandbox run for a person: what ended it, the pools, the life of the block that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.event import Chain, Event, EventKind
from vllm_forensics.model.sandbox import Outcome, SandboxRun, StepRecord, Violation, ViolationKind
from vllm_forensics.render.sandbox_snapshot import snapshot_parts
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_BARS: Final = "▁▂▃▄▅▆▇█"
_GRAVITY: Final = (
    ViolationKind.USE_AFTER_FREE,
    ViolationKind.TWO_WRITERS,
    ViolationKind.WRONG_CONTENT,
    ViolationKind.DOUBLE_FREE,
    ViolationKind.OUT_OF_RANGE,
    ViolationKind.SHORT_TABLE,
    ViolationKind.TABLE_MISMATCH,
    ViolationKind.LEAK,
    ViolationKind.ALIASED_BLOCK,
    ViolationKind.FREE_LIST,
    ViolationKind.OCCUPANCY,
    ViolationKind.HASH,
    ViolationKind.CONSERVATION,
    ViolationKind.REFERENCE_COUNT,
)
"""What destroys data first, what only prepares it last."""
_LINKS: Final = 8
"""Events of one chain: its first and its last."""


def render_sandbox(run: SandboxRun, style: TerminalStyle) -> str:
    """The whole run as text. Every string must have been cleaned."""
    return render_parts(_parts(run, style), style)


def _parts(run: SandboxRun, style: TerminalStyle) -> Iterator[RenderableType]:
    yield _wrapped(_headline(run), style)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=max(40, style.width - 12))
    for name, text in _rows(run, style):
        table.add_row(Text(f"  {name}", style="quiet"), text)
    yield Text()
    yield table
    told: set[int] = set()
    for violation, more in _by_kind(run.violations):
        yield Text()
        yield _wrapped(_violation_line(violation, more), style)
        if violation.chain is not None and violation.chain.block not in told:
            told.add(violation.chain.block)
            yield _chain(violation.chain, style, end=None)
    for chain in run.chains:
        yield Text()
        yield _wrapped(Text(f"  {_block(chain)}, of the request that it is about"), style)
        yield _chain(chain, style, end=f"step {len(run.steps)}" if run.error else None)
    yield from snapshot_parts(run, style)
    if told:
        yield Text()
        yield Text("  every violation with its chain: --format json", style="quiet")
    yield from _next_steps(run, style)


def _by_kind(violations: tuple[Violation, ...]) -> list[tuple[Violation, int]]:
    """The first of each kind, the gravest kind first, and how many more of it there are."""
    kinds: dict[ViolationKind, list[Violation]] = {}
    for violation in violations:
        if violation.kind is ViolationKind.STALL:
            continue  # the first lines are about it
        kinds.setdefault(violation.kind, []).append(violation)
    ordered = sorted(kinds.values(), key=lambda found: _GRAVITY.index(found[0].kind))
    return [(found[0], len(found) - 1) for found in ordered]


def _headline(run: SandboxRun) -> Text:
    step = len(run.steps)
    if run.outcome is Outcome.RAISED:
        return Text.assemble((f"dies at step {step}", "mark"), f"   {run.error}")
    if run.outcome is Outcome.STALLED:
        return Text.assemble((f"stalls at step {step}", "mark"), "   nothing is raised")
    done = (
        f"{len(run.finished)} of {_count(len(run.load), 'request')} done in {_count(step, 'step')}"
    )
    if run.outcome is Outcome.VIOLATION:
        first = run.violations[0]
        return Text.assemble(
            (f"{first.kind.value} at step {first.step}", "mark"), f"   {done}, nothing is raised"
        )
    if run.outcome is Outcome.CUT:
        return Text.assemble((f"cut at step {step}", "mark"), f"   {done}, nothing is raised")
    mark = "caution" if run.refused else "good"
    return Text.assemble(("finishes", mark), f"   {done}")


def _rows(run: SandboxRun, style: TerminalStyle) -> Iterator[tuple[str, Text]]:
    if run.outcome is not Outcome.FINISHED or run.refused:
        yield "why", Text(run.why)
    if run.raised_at:
        yield "where", Text(" ◂ ".join(reversed(run.raised_at[-3:])))
    yield "blocks", Text(" · ".join(_pools(run)))
    for name, values, total in _series(run):
        if any(values):
            yield name, Text(_spark(values, total, max(20, style.width - 36)))
    yield "load", Text(_load(run))
    events = [f"{run.preemptions} preempted"] if run.preemptions else []
    gone = len(run.load) - len(run.finished) - len(run.refused) - len(run.requests)
    if gone > 0 and run.outcome in {Outcome.FINISHED, Outcome.VIOLATION}:
        events.append(f"{gone} given up by {'its client' if gone == 1 else 'their clients'}")
    if run.refused:
        events.append(f"given up by the engine without an error: {_some(run.refused)}")
    if events:
        yield "fate", Text(" · ".join(events))
    if run.tree is None:
        yield "drove", Text("the reference engine: our own block pool, no vLLM (--vllm VERSION)")
    else:
        version = run.tree.version or "of unknown version"
        yield "drove", Text(f"vLLM {version}, {run.tree.file}")


def _pools(run: SandboxRun) -> Iterator[str]:
    for counts in run.blocks:
        used = counts.usable - counts.free
        name = counts.pool.upper()
        reserved = counts.total - counts.usable
        kept = f" (of {counts.total}, {reserved} is never handed out)" if reserved else ""
        state = "all in use" if used == counts.usable else f"{used} in use"
        if counts.total:
            yield f"{counts.usable} {name}{kept}, {state} at the end"


def _series(run: SandboxRun) -> Iterator[tuple[str, list[int], int]]:
    sizes = {counts.pool: counts.usable for counts in run.blocks}
    steps: tuple[StepRecord, ...] = run.steps
    yield "GPU", [step.gpu_used for step in steps], sizes.get("gpu", 0)
    yield "CPU", [step.cpu_used for step in steps], sizes.get("cpu", 0)


def _spark(values: list[int], total: int, width: int) -> str:
    """Occupancy by step, the largest of each stretch where there are more steps than columns."""
    stretch = -(-len(values) // width)
    peaks = [max(values[at : at + stretch]) for at in range(0, len(values), stretch)]
    top = max(total, 1)
    bars = "".join(_BARS[min(peak * (len(_BARS) - 1) // top, len(_BARS) - 1)] for peak in peaks)
    scale = "a step each" if stretch == 1 else f"{stretch} steps each"
    return f"{bars}  {scale}"


def _load(run: SandboxRun) -> str:
    if not run.load:
        return f"no request came, blocks of {run.parameters.block_size}"
    prompts = {spec.prompt_len for spec in run.load}
    outputs = {spec.max_tokens for spec in run.load}
    return (
        f"{_count(len(run.load), 'request')} of {_range(prompts)} prompt and {_range(outputs)} "
        f"output tokens, blocks of {run.parameters.block_size}"
    )


def _range(values: set[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _violation_line(violation: Violation, more: int) -> Text:
    when = f"step {violation.step}"
    if violation.times > 1:
        when += f", and in {violation.times - 1} later ones until {violation.last_step}"
    others = f"; {more} more of this kind" if more else ""
    return Text.assemble(
        ("  ✖ ", "mark"), (violation.kind.value, "mark"), f"   {violation.message} ({when}){others}"
    )


def _folded(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The same thing at the same place for the same request in one step, told once."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if last is not None and replace(last, times=event.times) == event:
            found[-1] = replace(last, times=last.times + 1)
        else:
            found.append(event)
    return tuple(found)


def _chain(chain: Chain, style: TerminalStyle, *, end: str | None) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=max(30, style.width - 34))
    events = _folded(chain.events)
    half = _LINKS // 2
    cut = events if len(events) <= _LINKS else (*events[:half], *events[-half:])
    for place, event in enumerate(cut):
        if place == half and len(cut) < len(events):
            between = _count(len(events) - len(cut), "event")
            table.add_row(Text("      ⋮", style="quiet"), Text(f"{between} between"), Text())
        mark = "●" if event.kind is EventKind.ALLOCATE else "│"
        changes = event.request is not None and (
            place == 0 or event.request != cut[place - 1].request
        )
        who = f"request {event.request}  " if changes else ""
        table.add_row(
            Text(f"    {mark} {_what(event)}"), Text(_when(event), style="quiet"), _at(event, who)
        )
    if end is not None:
        table.add_row(Text("    ✖ dies", style="mark"), Text(end, style="quiet"), Text())
    return table


def _what(event: Event) -> str:
    source = f" from {event.source}" if event.source is not None else ""
    times = f" ×{event.times}" if event.times > 1 else ""
    return f"{event.kind.value}{source}{times}"


def _when(event: Event) -> str:
    if event.last_step is not None and event.last_step != event.step:
        return f"steps {event.step} to {event.last_step}"
    return f"step {event.step}"


def _at(event: Event, who: str) -> Text:
    call = f"{event.function}:{event.line}" if event.function else ""
    return Text.assemble(who, (call, "quiet"))


def _next_steps(run: SandboxRun, style: TerminalStyle) -> Iterator[RenderableType]:
    if run.healthy_with:
        yield Text()
        one = "one change alone" if len(run.healthy_with) > 1 else "one change"
        yield _wrapped(
            Text(f"The same run finishes without a violation with {one}: ")
            + Text(" · ".join(run.healthy_with), style="good"),
            style,
        )


def _wrapped(text: Text, style: TerminalStyle) -> Table:
    table = Table.grid()
    table.add_column(overflow="fold", max_width=style.width)
    table.add_row(text)
    return table


def _block(chain: Chain) -> str:
    return f"block {chain.block} of the {(chain.pool or '').upper()} pool"


def _count(number: int, name: str) -> str:
    return f"1 {name}" if number == 1 else f"{number:,} {name}s"


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} …"
