"""The reports that are open in one stream of a log, and which of them a line belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.learned import LearnedPrefix
from vllm_forensics.evidence.sanitizer.rivals import Rivals, may_interleave


class Stream:
    """The open reports of one stream; more than one only where learned prefixes tell them apart."""

    def __init__(
        self, name: str, report: ReportBuilder, learned: LearnedPrefix | None, *, line: int
    ) -> None:
        """Begin with a report whose header stands in this line."""
        self.name = name
        self._numbered = LearnedPrefix(name, line) if name[-1:] in {":", "]"} else None
        self._open: list[tuple[ReportBuilder, LearnedPrefix | None]] = [(report, learned)]
        self._closed: list[ReportBuilder] = []
        self._rivals: Rivals | None = None
        self._only = report if learned is None else None
        """The only report, where every line is its own to read."""

    @property
    def reader_of_runs(self) -> ReportBuilder | None:
        """Its only report, where that reads each line as every compiler's runtime prints it."""
        return self._only if type(self._only) is ReportBuilder else None

    @property
    def reports(self) -> Iterator[ReportBuilder]:
        """All of them."""
        yield from self._closed
        for report, _ in self._open:
            yield report

    @property
    def is_counted(self) -> bool:
        """Does its name hold a line number, as far as more than one line can show?"""
        return self._numbered is not None and self._numbered.counted > 1

    def counts_to(self, name: str, line: int) -> bool:
        """Is this the stream's name, but for a line number that it holds?"""
        if self._numbered is not None and self._numbered.strip(name, line) == "":
            return True
        learned = self._open[-1][1]
        return learned is not None and learned.strip(name, line) == ""

    @property
    def last_line(self) -> int:
        """The last line that a report used."""
        return max(report.last_line for report, _ in self._open)

    @property
    def done(self) -> bool:
        """Has the last report said that it ends?"""
        if self._only is not None:
            return self._only.done
        return all(report.done for report, _ in self._open)

    @property
    def exhausted(self) -> bool:
        """Nothing more is to come."""
        if self._only is not None:
            return self._only.exhausted
        return all(report.exhausted for report, _ in self._open)

    @property
    def unfinished(self) -> bool:
        """Did the log end inside of a report?"""
        if self._rivals is not None and not self._rivals.mixed:
            return self._open[-1][0].build().truncated
        return any(report.build().truncated for report, _ in self._open)

    def is_repeated_by(self, report: ReportBuilder) -> bool:
        """Is the report a second copy of a header line that was just read?"""
        return any(known.is_repeated_by(report) for known, _ in self._open)

    def begin(self, report: ReportBuilder, learned: LearnedPrefix | None) -> bool:
        """Take another report in, where it can be kept apart; else say no."""
        if learned is None:
            return self._begin_rival(report)
        for at, (open_one, known) in enumerate(self._open):
            if known is not None and known.is_the_same_as(learned):
                self._closed.append(open_one)
                self._open[at] = (report, learned)
                return True
        if len(self._open) >= 16:
            return False
        self._open.append((report, learned))
        self._only = None
        return True

    def _begin_rival(self, report: ReportBuilder) -> bool:
        """Take another process's report in, where the one that is open may still go on."""
        if self._rivals is not None:
            taken = self._rivals.add(report)
        elif self._only is not None and may_interleave(self._only, report):
            self._rivals, self._only, taken = Rivals((self._only, report)), None, True
        else:
            return False
        if taken:
            self._open.append((report, None))
        return taken

    def feed(self, text: str, number: int) -> bool:
        """Hand a line to the report that it belongs to."""
        if self._only is not None:
            return self._only.feed(text, number)
        if self._rivals is not None:
            return self._rivals.feed(text, number)
        plain = None
        for report, learned in self._open:
            if learned is None:
                plain = report
                continue
            rest = learned.strip(text, number)
            if rest is not None:
                return report.feed(rest, number)
        if plain is None and len(self._open) == 1:
            plain = self._open[0][0]  # text was glued to the header; it was no prefix
        return plain.feed(text, number) if plain is not None else False
