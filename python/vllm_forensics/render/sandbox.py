"""A sandbox run for a person: what ended it, the pools, the life of the block that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.event import Chain
from vllm_forensics.model.sandbox import Outcome, SandboxRun, StepRecord
from vllm_forensics.model.sandbox_diff import DifferenceKind
from vllm_forensics.render.rows import Rows, path
from vllm_forensics.render.sandbox_diff import WHAT
from vllm_forensics.render.sandbox_heat_map import heat_map_parts
from vllm_forensics.render.sandbox_snapshot import snapshot_parts
from vllm_forensics.render.sandbox_violations import chain_table, count, violation_parts, wrapped
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_BARS: Final = "▁▂▃▄▅▆▇█"


def render_sandbox(run: SandboxRun, style: TerminalStyle) -> str:
    """The whole run as text. Every string must have been cleaned."""
    return render_parts(_parts(run, style), style)


def _parts(run: SandboxRun, style: TerminalStyle) -> Iterator[RenderableType]:
    yield wrapped(_headline(run), style)
    table = Rows(gap=2, widest=style.width)
    for name, text in _rows(run, style):
        table.add_row(Text(f"  {name}", style="quiet"), text)
    yield Text()
    yield table
    yield from violation_parts(run.violations, style)
    for chain in run.chains:
        yield Text()
        yield wrapped(Text(f"  {_block(chain)}, of the request that it is about"), style)
        yield chain_table(chain, style, end=f"step {len(run.steps)}" if run.error else None)
    yield from snapshot_parts(run, style)
    yield from heat_map_parts(run, style)
    if any(violation.chain is not None for violation in run.violations):
        yield Text()
        yield Text("  every violation with its chain: --format json", style="quiet")
    yield from _next_steps(run, style)


def _headline(run: SandboxRun) -> Text:
    step = len(run.steps)
    if run.outcome is Outcome.RAISED:
        return Text.assemble((f"dies at step {step}", "mark"), f"   {run.error}")
    if run.outcome is Outcome.STALLED:
        return Text.assemble((f"stalls at step {step}", "mark"), "   nothing is raised")
    done = f"{len(run.finished)} of {count(len(run.load), 'request')} done in {count(step, 'step')}"
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
    if run.memory is not None:
        how = "under AddressSanitizer" if run.memory.sanitized else "every access checked"
        moved = f", {count(run.memory.moved, 'block')} moved" if run.memory.moved else ""
        yield (
            "memory",
            Text(
                f"real, {how}: {count(run.memory.written, 'token')} written, "
                f"{run.memory.read:,} read{moved}"
            ),
        )
    if run.tree is None:
        yield "drove", Text("the reference engine: our own block pool, no vLLM (--vllm VERSION)")
    else:
        version = run.tree.version or "of unknown version"
        yield "drove", Text(f"vLLM {version}, ") + path(run.tree.file)


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
        f"{count(len(run.load), 'request')} of {_range(prompts)} prompt and {_range(outputs)} "
        f"output tokens, blocks of {run.parameters.block_size}"
    )


def _range(values: set[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _next_steps(run: SandboxRun, style: TerminalStyle) -> Iterator[RenderableType]:
    if run.healthy_with:
        yield Text()
        one = "one change alone" if len(run.healthy_with) > 1 else "one change"
        yield wrapped(
            Text(f"The same run finishes without a violation with {one}: ")
            + Text(" · ".join(run.healthy_with), style="good"),
            style,
        )
    if run.healthy_parts is not None:
        parts = run.healthy_parts
        whose = "" if parts.request is None else f": request {parts.request}"
        yield wrapped(
            Text(
                f"They part at step {parts.step}, {WHAT[DifferenceKind(parts.kind)]}{whose} "
                "(forensics sandbox diff)"
            ),
            style,
        )


def _block(chain: Chain) -> str:
    return f"block {chain.block} of the {(chain.pool or '').upper()} pool"


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} …"
