"""Sanitizer reports for a person: what there is, the worst first, each told in full once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer import ExplainedReport, SanitizerAnswer
from vllm_forensics.render.rows import Rows, advice, path
from vllm_forensics.render.sanitizer_locations import symbolization_in_text
from vllm_forensics.render.sanitizer_report import Telling, one_report
from vllm_forensics.render.sanitizer_words import LEVEL_STYLES, counted, labelled, short_place
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_MAX_SHOWN: Final = 20
_MAX_ROWS: Final = 40
_MAX_GONE: Final = 10
_GAP: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much of an answer is shown."""

    everything: bool = False
    """Every group in full, and every leak."""
    verbose: bool = False
    """Signatures, rules that matched nothing, what of a baseline is gone."""


DEFAULT_EXTENT: Final = Extent()


def render_sanitizer(
    answer: SanitizerAnswer, style: TerminalStyle, extent: Extent = DEFAULT_EXTENT
) -> str:
    """The whole answer as text. Every string must have been cleaned."""
    return render_parts(_parts(answer, style, extent), style)


def _parts(
    answer: SanitizerAnswer, style: TerminalStyle, extent: Extent
) -> Iterator[RenderableType]:
    reports = [report for log in answer.logs for report in log.reports]
    representative: dict[str, ExplainedReport] = {}
    for report in reports:
        representative.setdefault(report.signature, report)
    groups = [group for group in answer.groups if not group.of_leaks]
    counts = {group.signature: group.count for group in groups}
    ordered = [representative[group.signature] for group in groups]
    sifted = answer.baseline is not None or bool(answer.suppressed)
    if reports or (sifted and answer.logs):
        yield Text(_headline(answer, reports, len(ordered)), style="head")
    yield from _left_out(answer, extent)
    if answer.symbolization is not None and reports:
        yield symbolization_in_text(answer.symbolization)
    shown = len(ordered) if extent.everything else _MAX_SHOWN
    if len(ordered) > 1:
        yield from _overview(ordered, counts, style, extent)
    for number, report in enumerate(ordered[:shown], start=1):
        yield Text()
        label = f"━━ {number} " if len(ordered) > 1 else ""
        telling = Telling(
            label=label,
            count=counts[report.signature],
            every_leak=extent.everything,
            with_signature=extent.verbose,
        )
        yield from one_report(report, telling, style)
    if len(ordered) > shown:
        yield Text()
        yield Text(
            f"{len(ordered) - shown:,} more are not told in full: --all, or --format json",
            style="caution",
        )
    if answer.failures:
        if reports:
            yield Text()
        for failure in answer.failures:
            yield _failure(failure)


def _headline(answer: SanitizerAnswer, reports: list[ExplainedReport], different: int) -> str:
    seen = sum(report.printed.occurrences for report in reports)
    lines = sum(log.lines for log in answer.logs)
    new = "new " if answer.baseline is not None else ""
    text = counted(len(reports), f"{new}report") if reports else f"no {new}report"
    if different != len(reports):
        text += f" · {different:,} different"
    if seen != len(reports):
        text += f" (seen {seen:,} times)"
    text += f" in {counted(lines, 'line')}"
    return text + (f" of {len(answer.logs):,} logs" if len(answer.logs) > 1 else "")


def _left_out(answer: SanitizerAnswer, extent: Extent) -> Iterator[RenderableType]:
    """What is not shown, and why: never without a word."""
    baseline = answer.baseline
    if baseline is not None:
        known = f"{baseline.path}: {counted(baseline.known, 'known report')} left out"
        if baseline.known_leaks:
            known += f", {counted(baseline.known_leaks, 'known leak record')}"
        texts = [Text(f"{known} · {len(baseline.gone):,} of the baseline not seen")]
        if extent.verbose:
            texts += [Text(f"not seen: {name}", style="quiet") for name in _gone(baseline.gone)]
        yield labelled("Known", texts)
    if not answer.suppressed:
        return
    used = [count for count in answer.suppressed if count.reports or count.leaks]
    texts = [
        Text(f"{_amount(count.reports, count.leaks)} suppressed by {count.suppression.text}")
        for count in used
    ]
    unused = [count.suppression for count in answer.suppressed if not count.reports + count.leaks]
    if extent.verbose:
        texts += [
            Text(f"matched nothing: {rule.text} (line {rule.line})", style="quiet")
            for rule in unused
        ]
    elif unused:
        texts.append(Text(f"{counted(len(unused), 'rule')} matched nothing", style="quiet"))
    yield labelled("Hidden", texts)


def _gone(signatures: tuple[str, ...]) -> list[str]:
    shown = list(signatures[:_MAX_GONE])
    if len(signatures) > _MAX_GONE:
        shown.append(f"{len(signatures) - _MAX_GONE:,} more (--format json)")
    return shown


def _amount(reports: int, leaks: int) -> str:
    parts = [counted(reports, "report")] if reports else []
    parts += [counted(leaks, "leak record")] if leaks else []
    return " and ".join(parts)


def _overview(
    ordered: list[ExplainedReport], counts: dict[str, int], style: TerminalStyle, extent: Extent
) -> Iterator[RenderableType]:
    """One line a kind of report. What and where give way to how many and how dangerous."""
    rows = ordered if extent.everything else ordered[:_MAX_ROWS]
    numbers = [f"{number}" for number in range(1, len(rows) + 1)]
    times = [f"×{counts[report.signature]:,}" for report in rows]
    fixed = len(numbers[-1]) + max(map(len, times)) + len("medium") + 3 * _GAP
    room = style.width - fixed
    widths = [len(numbers[-1]), max(map(len, times)), len("medium")]
    names = [_culprit_name(report) for report in rows]
    widths.append(min(max(len(report.printed.kind) for report in rows), room * 2 // 5))
    widths.append(min(max(map(len, names)), (room - widths[3]) // 2))
    widths.append(room - widths[3] - widths[4] - 2 * _GAP)
    table = Table.grid(padding=(0, _GAP))
    for width in widths:
        table.add_column(no_wrap=True, overflow="ellipsis", width=max(1, width))
    for number, seen, name, report in zip(numbers, times, names, rows, strict=True):
        culprit = report.culprit
        place = short_place(culprit.file, culprit.line) if culprit else None
        table.add_row(
            number,
            seen,
            Text(report.severity.value, style=LEVEL_STYLES[report.severity]),
            report.printed.kind,
            Text(name, style="culprit"),
            place or "",
        )
    yield table
    if len(ordered) > len(rows):
        rest = sum(counts[report.signature] for report in ordered[len(rows) :])
        yield Text(f"… {len(ordered) - len(rows):,} more, seen {rest:,} times", style="quiet")


def _culprit_name(report: ExplainedReport) -> str:
    """Without its arguments, where it has a name."""
    function = (report.culprit.function if report.culprit else None) or ""
    return plain_name(function)


def _failure(failure: Failure) -> Rows:
    place = "standard input" if failure.path == "-" else failure.path
    remedy = [advice(failure.remedy, style="quiet")] if failure.remedy else []
    return labelled("note", [path(place) + Text(f" {failure.error}"), *remedy])
