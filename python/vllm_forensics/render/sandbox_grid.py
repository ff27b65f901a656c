"""Who held which blocks when, as a grid: what both pictures of a comparison are drawn from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final, Protocol

from vllm_forensics.model.sandbox import Life
from vllm_forensics.model.sandbox_diff import SandboxDiff

SHADES: Final = " ░▒▓█"
"""From nothing held to all."""
_ZOOM: Final = 4
"""How much longer than the shorter run the picture is, at most."""
_BEGINNING: Final = 24
"""Steps that are always drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Some blocks during some steps."""

    held: float
    """From 0 to 1: how many of them somebody held."""
    request: str | None
    """Who held most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What a row and a column stand for: the same in both pictures."""

    pool: str
    blocks: int
    steps: int
    all_steps: int
    """Of the longer run: where the other one ended early, only the beginning is drawn."""
    rows: int
    columns: int

    @property
    def blocks_a_row(self) -> int:
        """How many blocks share one row."""
        return -(-self.blocks // self.rows)

    @property
    def steps_a_column(self) -> int:
        """How many steps share one column."""
        return -(-self.steps // self.columns)


def axes_of(diff: SandboxDiff, pool: str, *, rows: int, columns: int) -> Axes | None:
    """At most so many rows and columns; None where neither run ever held a block of the pool."""
    lives = [life for side in (diff.left, diff.right) for life in side.lives if life.pool == pool]
    if not lives:
        return None
    all_steps = max(1, 1 + max(diff.left.last_step, diff.right.last_step))
    shorter = 1 + min(diff.left.last_step, diff.right.last_step)
    apart = diff.first or diff.order
    begin = max(_BEGINNING, _ZOOM * shorter, 2 * apart.step if apart is not None else 0)
    steps = begin if shorter > 0 and begin < all_steps // 2 else all_steps
    blocks = 1 + max(life.block for life in lives)
    for side in (diff.left, diff.right):
        parameters = side.recording.parameters
        if parameters is not None:
            sizes = {"gpu": parameters.gpu_blocks, "cpu": parameters.cpu_blocks}
            blocks = max(blocks, sizes.get(pool, 0))
    axes = Axes(
        pool=pool,
        blocks=blocks,
        steps=steps,
        all_steps=all_steps,
        rows=min(rows, blocks),
        columns=min(columns, steps),
    )
    return replace(
        axes,
        rows=-(-blocks // axes.blocks_a_row),
        columns=-(-steps // axes.steps_a_column),
    )


class Held(Protocol):
    """A run whose blocks' lives are known."""

    @property
    def lives(self) -> tuple[Life, ...]:
        """Of all pools."""

    @property
    def last_step(self) -> int:
        """What was held to the end was held until after it."""


def grid_of(side: Held, axes: Axes) -> list[list[Cell]]:
    """Row by row, the lowest block numbers first; steps from left to right."""
    held = [[0] * axes.columns for _ in range(axes.rows)]
    owners = [[Counter[str | None]() for _ in range(axes.columns)] for _ in range(axes.rows)]
    width = axes.steps_a_column
    over = side.last_step + 1
    for life in side.lives:
        if life.pool != axes.pool:
            continue
        row = life.block // axes.blocks_a_row
        end = over if life.last is None else life.last
        # A block that was given back in the step that took it was held in that step all the same.
        end = min(max(end, life.first + 1), axes.steps)
        first = max(life.first, 0)
        for column in range(first // width, -(-end // width)):
            steps = min(end, (column + 1) * width) - max(first, column * width)
            held[row][column] += steps
            owners[row][column][life.request] += steps
    return [
        [
            Cell(
                held=min(held[row][column] / (axes.blocks_a_row * width), 1.0),
                request=max(owners[row][column], key=owners[row][column].__getitem__, default=None),
            )
            for column in range(axes.columns)
        ]
        for row in range(axes.rows)
    ]
