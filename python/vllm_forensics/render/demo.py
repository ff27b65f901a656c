"""What `forensics demo` prints around the crashes: titles, silent endings, the summary."""

from __future__ import annotations

from typing import Final

from rich.table import Table
from rich.text import Text

from vllm_forensics.model.demo import DemoOutcome
from vllm_forensics.model.signals import signal_name
from vllm_forensics.render.rows import labelled, paragraph
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_LAST_LINES: Final = 4
_LABEL_WIDTH: Final = 8


def render_title(outcome: DemoOutcome, style: TerminalStyle) -> str:
    """The demo's name, as one would type it."""
    return render_parts([Text(f"forensics demo {outcome.name}", style="quiet")], style)


def render_silent(outcome: DemoOutcome, style: TerminalStyle) -> str:
    """A fault that left no core: what the program said, and why that is the dangerous case."""
    if outcome.status < 0:
        text = f"It died of {signal_name(-outcome.status)} and left no core."
    elif outcome.status == 0:
        text = "It ran to its end, exit status 0: the fault is there, and nothing noticed it."
    else:
        text = f"No signal, exit status {outcome.status}: the program itself noticed wrong values."
    said = [line for line in outcome.output.splitlines() if line.strip() and line[0] != "["]
    lines = [Text(f"  {line}", style="quiet") for line in said[-_LAST_LINES:]]
    return render_parts([paragraph(text), *lines], style)


def render_conclusion(outcome: DemoOutcome, style: TerminalStyle) -> str:
    """What the core and the sanitizer say together."""
    return render_parts([Text(), labelled("So", [outcome.conclusion or ""], _LABEL_WIDTH)], style)


def render_ending(
    outcomes: tuple[DemoOutcome, ...], style: TerminalStyle, seconds: tuple[float, float]
) -> str:
    """One line a demo, and how long it all took (build, run)."""
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for outcome in outcomes:
        mark = Text("✔", style="good") if outcome.is_explained else Text("✖", style="mark")
        table.add_row(mark, outcome.name, _in_a_word(outcome))
    explained = sum(outcome.is_explained for outcome in outcomes)
    built, ran = seconds
    total = Text(
        f"{explained} of {len(outcomes)} explained · built in {built:.1f} s, ran in {ran:.1f} s",
        style="head",
    )
    return render_parts([table, Text(), total], style)


def _in_a_word(outcome: DemoOutcome) -> str:
    if outcome.crash is not None:
        kind = outcome.crash.fault.kind.value.replace("-", " ")
        return f"{signal_name(outcome.crash.signal.number)}, {kind}"
    if outcome.failure is not None:
        return f"core not readable: {outcome.failure.error}"
    if outcome.status < 0:
        return f"{signal_name(-outcome.status)}, no core"
    return "runs clean: silent" if outcome.status == 0 else "wrong values, no signal"
