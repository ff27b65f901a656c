"""Which blocks one run held when, as shades: blocks from top to bottom, steps to the right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.sandbox import SandboxRun
from vllm_forensics.render.sandbox_grid import SHADES, Axes, grid_of
from vllm_forensics.render.sandbox_violations import wrapped
from vllm_forensics.render.terminal import TerminalStyle

_ROWS: Final = 12
_MARGIN: Final = 12
"""Columns beside the picture."""
_NARROWEST: Final = 20


def heat_map_parts(run: SandboxRun, style: TerminalStyle) -> Iterator[RenderableType]:
    """A picture of each pool of which anything was held; a mark under the first violation."""
    for counts in run.blocks:
        if any(life.pool == counts.pool for life in run.lives):
            yield Text()
            axes = _axes(run, counts.pool, counts.total, style.width)
            yield from _picture(run, axes, style)


def _axes(run: SandboxRun, pool: str, blocks: int, width: int) -> Axes:
    steps = run.last_step + 1
    axes = Axes(
        pool=pool,
        blocks=blocks,
        steps=steps,
        all_steps=steps,
        rows=min(_ROWS, blocks),
        columns=min(max(width - _MARGIN, _NARROWEST), steps),
    )
    return replace(
        axes, rows=ceil(blocks / axes.blocks_a_row), columns=ceil(steps / axes.steps_a_column)
    )


def _picture(run: SandboxRun, axes: Axes, style: TerminalStyle) -> Iterator[RenderableType]:
    rows = "a block" if axes.blocks_a_row == 1 else f"{axes.blocks_a_row} blocks"
    columns = "a step" if axes.steps_a_column == 1 else f"{axes.steps_a_column} steps"
    title = f"  {axes.pool.upper()} blocks in use, {rows} a row, {columns} a column"
    yield wrapped(Text(title, style="quiet"), style)
    label = len(str(axes.blocks - 1))
    for number, row in enumerate(grid_of(run, axes)):
        shades = "".join(SHADES[ceil(cell.held * (len(SHADES) - 1))] for cell in row)
        yield Text(f"  {number * axes.blocks_a_row:>{label}}  {shades}".rstrip())
    broken = [v.step for v in run.violations if v.pool in {None, axes.pool}]
    if broken and min(broken) < axes.steps:
        pad = " " * (min(broken) // axes.steps_a_column + label + 4)
        yield Text(f"{pad}▲ step {min(broken)}", style="mark")
