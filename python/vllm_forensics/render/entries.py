"""What a machine-readable list of findings holds: one entry a bug, each leak by itself."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.sanitizer import (
    Culprit,
    ExplainedLog,
    ExplainedReport,
    PrintedFrame,
    Role,
    SanitizerAnswer,
    Severity,
)
from vllm_forensics.render.sanitizer_words import counted, name_in_line

LARGEST: Final = 5000
"""Entries of one list; forges cut longer ones."""
_CALLERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a file; in the repository its path is relative."""

    path: str
    line: int
    column: int | None = None
    in_repository: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the way to the fault."""

    place: Place
    text: str
    is_event: bool
    """The place itself, not a caller of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One bug."""

    report: ExplainedReport
    log: str
    signature: str
    count: int
    title: str
    text: str
    place: Place
    function: str | None
    steps: tuple[Step, ...]

    @property
    def rule(self) -> str:
        """Sanitizer and kind."""
        return f"{self.report.printed.sanitizer}/{self.report.printed.kind}"

    @property
    def severity(self) -> Severity:
        """How dangerous it is."""
        return self.report.severity


def entries(answer: SanitizerAnswer, root: str | None) -> tuple[Entry, ...]:
    """Every bug once, the worst first. `root` is the folder of the repository, if there is one."""
    first: dict[str, tuple[ExplainedLog, ExplainedReport]] = {}
    for log in answer.logs:
        for report in log.reports:
            first.setdefault(report.signature, (log, report))
    found: list[Entry] = []
    for group in answer.groups:
        if group.of_leaks or group.signature not in first:
            continue
        log, report = first[group.signature]
        if report.leaks:
            found += _of_leaks(report, log.path, root)
        else:
            found.append(_entry(report, log.path, group.count, root))
    unique = {entry.signature: entry for entry in reversed(found)}
    return tuple(unique[name] for name in dict.fromkeys(entry.signature for entry in found))


def _entry(report: ExplainedReport, log: str, count: int, root: str | None) -> Entry:
    culprit = report.culprit
    function = culprit.function if culprit else None
    steps = tuple(_steps(report, root))
    where = f" in {function.partition('(')[0] or function}" if function else ""
    return Entry(
        report=report,
        log=log,
        signature=report.signature,
        count=count,
        title=f"{report.printed.kind}{where}",
        text=report.explanation,
        place=_place_of(culprit, steps, root) or _in_log(report, log, root),
        function=function,
        steps=steps,
    )


def _of_leaks(report: ExplainedReport, log: str, root: str | None) -> Iterator[Entry]:
    """One for each place that leaks; the interpreter's own are left out."""
    numbers: dict[str, list[int]] = {}
    for number, leak in enumerate(report.leaks):
        if not leak.interpreter_only:
            numbers.setdefault(leak.signature, []).append(number)
    for signature, these in numbers.items():
        culprit = report.leaks[these[0]].culprit
        size = sum(report.printed.leaks[number].size for number in these)
        function = culprit.function if culprit else None
        name = plain_name(function) if function else "an unknown place"
        kinds = {report.printed.leaks[number].direct for number in these}
        how = " and ".join(
            "direct" if direct else "indirect" for direct in sorted(kinds, reverse=True)
        )
        yield Entry(
            report=report,
            log=log,
            signature=signature,
            count=len(these),
            title=f"{report.printed.kind} in {name}",
            text=(
                f"{counted(size, 'byte')} in {counted(len(these), 'leak record')} ({how}) were "
                f"allocated in {name} and never freed."
            ),
            place=_place_of(culprit, (), root) or _in_log(report, log, root),
            function=function,
            steps=(),
        )


def _steps(report: ExplainedReport, root: str | None) -> Iterator[Step]:
    """The events in order of time; of each, its own frames from the outermost inwards."""
    own: dict[int, list[int]] = {}
    for at, index in report.own:
        own.setdefault(at, []).append(index)
    for at, event in enumerate(report.printed.chain):
        if event.role in {Role.LEAK, Role.THREAD_CREATE}:
            continue
        frames = [event.frames[index] for index in own.get(at, [])[:_CALLERS]]
        thread = f" in {event.thread}" if event.thread else ""
        role = event.role.value.replace("_", " ")
        for position, frame in reversed(list(enumerate(frames))):
            place = _place(frame, root)
            if place is not None:
                name = name_in_line(frame)
                text = f"{role}{thread}: {name}" if position == 0 else f"called from {name}"
                yield Step(place=place, text=text, is_event=position == 0)


def _place_of(culprit: Culprit | None, steps: tuple[Step, ...], root: str | None) -> Place | None:
    """The culprit's line; where that is outside of the repository, the last step inside."""
    place = None
    if culprit is not None and culprit.file is not None:
        place = to_place(culprit.file, culprit.line or 1, root)
        if place.in_repository:
            return place
    inside = [step.place for step in steps if step.place.in_repository]
    return inside[-1] if inside else place


def _place(frame: PrintedFrame, root: str | None) -> Place | None:
    if frame.file is None or frame.line is None:
        return None
    return to_place(frame.file, frame.line, root, frame.column)


def _in_log(report: ExplainedReport, log: str, root: str | None) -> Place:
    """A report without any source line is shown in its log."""
    return to_place("standard-input" if log == "-" else log, report.printed.lines[0], root)


def to_place(file: str, line: int, root: str | None, column: int | None = None) -> Place:
    """A path as a forge wants it: relative to the repository, with slashes, without `..`."""
    path = posixpath.normpath(file.replace("\\", "/"))
    if root is not None and path.startswith(root.rstrip("/") + "/"):
        path = path[len(root.rstrip("/")) + 1 :]
    is_absolute = path.startswith("/") or path[1:3] == ":/"
    return Place(
        path=path,
        line=max(1, line),
        column=column if column is not None and column > 0 else None,
        in_repository=not is_absolute and path != ".." and not path.startswith("../"),
    )
