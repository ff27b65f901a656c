"""An exploration for a person: how much was tried, or the shortest way to what breaks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.sandbox import ViolationKind
from vllm_forensics.model.sandbox_explore import Exploration
from vllm_forensics.render.rows import Rows
from vllm_forensics.render.sandbox_violations import count, violation_parts, wrapped
from vllm_forensics.render.terminal import TerminalStyle, render_parts


def render_exploration(found: Exploration, style: TerminalStyle) -> str:
    """All of it as text. Every string must have been cleaned."""
    return render_parts(_parts(found, style), style)


def _parts(found: Exploration, style: TerminalStyle) -> Iterator[RenderableType]:
    yield wrapped(_headline(found), style)
    yield Text()
    table = Rows(gap=2, widest=style.width)
    for name, text in _rows(found):
        table.add_row(Text(f"  {name}", style="quiet"), Text(text))
    yield table
    if found.sequence:
        yield Text()
        yield _sequence(found, style)
    yield from violation_parts(found.violations, style)


def _headline(found: Exploration) -> Text:
    if found.healthy:
        tried = f"{count(found.states, 'state')}, {count(found.transitions, 'transition')}"
        return Text.assemble(("nothing breaks", "good"), f"   in {tried}")
    actions = count(len(found.sequence), "action")
    if found.error is not None:
        return Text.assemble((f"dies after {actions}", "mark"), f"   {found.error}")
    first = found.violations[0]
    return Text.assemble((f"{first.kind.value} after {actions}", "mark"), "   nothing is raised")


def _rows(found: Exploration) -> Iterator[tuple[str, str]]:
    if found.healthy:
        how = f"orders of up to {count(found.depth, 'action')}"
        if found.ended_by is None:
            yield "tried", f"{how}: all that there are"
        else:
            yield "tried", f"{how}; more are cut off by {found.ended_by}"
    else:
        yield "tried", f"{count(found.states, 'state')}; no shorter order breaks anything"
    if found.raised_at:
        yield "where", " ◂ ".join(reversed(found.raised_at[-3:]))
    for violation in found.violations:
        if violation.kind is ViolationKind.STALL:
            yield "why", violation.message
    names = [name for name, given in _options(found) if given]
    yield (
        "load",
        f"{count(len(found.load), 'request')}" + (f", {', '.join(names)}" if names else ""),
    )
    if found.tree is None:
        yield "drove", "the reference engine: our own block pool, no vLLM (--vllm VERSION)"
    else:
        yield "drove", f"vLLM {found.tree.version or 'of unknown version'}, {found.tree.file}"


def _options(found: Exploration) -> Iterator[tuple[str, bool]]:
    yield "a step in flight", found.parameters.async_scheduling
    yield "a connector that loads and sends", bool(found.parameters.connector)
    yield "drafts", bool(found.parameters.spec_tokens)
    yield "two kinds of layers", found.parameters.hybrid


def _sequence(found: Exploration, style: TerminalStyle) -> Rows:
    table = Rows(gap=2, widest=style.width)
    digits = len(str(len(found.sequence)))
    for number, happening in enumerate(found.sequence, 1):
        table.add_row(
            Text(f"  {number:>{digits}}", style="quiet"),
            Text(str(happening.action)),
            Text(happening.what, style="quiet"),
        )
    return table
