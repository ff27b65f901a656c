"""Both pools of a comparison as one SVG: blocks down, steps across, a colour for each request.

It stands alone: no script, no font and no file from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from math import ceil
from typing import Final

from vllm_forensics.model.sandbox_diff import DiffSide, SandboxDiff
from vllm_forensics.render.sandbox_diff import WHAT
from vllm_forensics.render.sandbox_grid import Axes, Cell, axes_of, grid_of

_ROWS: Final = 120
_COLUMNS: Final = 240
_SIDE: Final = 480
"""Width of one pool, in units of the picture."""
_MARGIN: Final = 40
_STEPS_OF_SHADE: Final = 4
_LONGEST: Final = 150
"""Letters of one line of text; of one that stands above one of two pools, half as many."""
_PAGE: Final = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<title>Two runs side by side</title>\n</head>\n<body>\n{}</body>\n</html>\n"
)


def render_picture(diff: SandboxDiff, *, html: bool) -> str:
    """The picture as SVG, or as a page that holds it. Strings must have been cleaned."""
    parts = list(_title(diff))
    y = 30.0 + 18 * len(parts)
    lines = [_text(_MARGIN, 24 + 18 * place, text) for place, text in enumerate(parts)]
    for pool in ("gpu", "cpu"):
        axes = axes_of(diff, pool, rows=_ROWS, columns=_COLUMNS)
        if axes is not None:
            lines += _pool(diff, axes, y)
            y += _height(axes) + 70
    width = 2 * _SIDE + 3 * _MARGIN
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y:.0f}" '
        f'width="{width}" height="{y:.0f}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{y:.0f}" fill="#fff"/>\n' + "".join(lines) + "</svg>\n"
    )
    return _PAGE.format(svg) if html else svg


def _title(diff: SandboxDiff) -> Iterator[str]:
    apart = diff.first or diff.order
    if apart is None:
        yield f"No difference ({diff.verdict.value})"
        return
    whose = "" if apart.request is None else f": request {apart.request}"
    yield f"First difference at step {apart.step}: {WHAT[apart.kind]}{whose}"
    yield f"A {apart.left}; B {apart.right}"
    if apart.why:
        yield apart.why


def _height(axes: Axes) -> float:
    return axes.rows * _row(axes)


def _row(axes: Axes) -> float:
    return max(3.0, min(14.0, 360 / axes.rows))


def _pool(diff: SandboxDiff, axes: Axes, y: float) -> list[str]:
    blocks, steps = axes.blocks_a_row, axes.steps_a_column
    found = [
        _text(
            _MARGIN,
            y,
            f"{axes.pool.upper()} pool of {axes.blocks} blocks, {blocks} a row from 0 at the top; "
            f"{axes.steps} of {axes.all_steps} steps, {steps} a column",
        )
    ]
    grids = grid_of(diff.left, axes), grid_of(diff.right, axes)
    requests = dict.fromkeys(cell.request for grid in grids for row in grid for cell in row)
    hues = {name: place * 137 % 360 for place, name in enumerate(requests)}
    sides: tuple[tuple[str, DiffSide], ...] = (("A", diff.left), ("B", diff.right))
    for place, (name, side) in enumerate(sides):
        x = _MARGIN + place * (_SIDE + _MARGIN)
        title = f"{name}  {side.recording.name}"
        found.append(_text(x, y + 18, title[: _LONGEST // 2]))
        found.append(
            f'<rect x="{x}" y="{y + 24}" width="{_SIDE}" height="{_height(axes):.1f}" '
            'fill="#f4f4f4" stroke="#999"/>\n'
        )
        for row, cells in enumerate(grids[place]):
            found += _cells(cells, axes, x, y + 24 + row * _row(axes), hues)
        apart = diff.first or diff.order
        if apart is not None and 0 <= apart.step < axes.steps:
            at = x + apart.step / (axes.columns * steps) * _SIDE
            found.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y + 20}" '
                f'y2="{y + 28 + _height(axes):.1f}" stroke="#c00" stroke-width="2"/>\n'
            )
    return found


def _cells(
    cells: list[Cell], axes: Axes, x: int, y: float, hues: dict[str | None, int]
) -> Iterator[str]:
    """Neighbours that look the same are one rectangle."""
    width = _SIDE / axes.columns
    start = 0
    for (request, shade), group in groupby(cells, key=_look):
        count = len(list(group))
        if shade:
            whose = "" if request is None else f"request {request}, "
            first = start * axes.steps_a_column
            last = min((start + count) * axes.steps_a_column, axes.steps) - 1
            yield (
                f'<rect x="{x + start * width:.2f}" y="{y:.2f}" width="{count * width:.2f}" '
                f'height="{_row(axes):.2f}" fill="hsl({hues[request]},60%,50%)" '
                f'fill-opacity="{shade / _STEPS_OF_SHADE:.2f}"><title>'
                f"{escape(f'{whose}steps {first} to {last}')}</title></rect>\n"
            )
        start += count


def _look(cell: Cell) -> tuple[str | None, int]:
    return cell.request, ceil(cell.held * _STEPS_OF_SHADE)


def _text(x: float, y: float, text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f'<text x="{x}" y="{y}">{escape(shown)}</text>\n'
