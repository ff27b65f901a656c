"""Leaves out what is suppressed or known. Nothing goes without being counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from vllm_forensics.diagnosis.suppressed import suppresses, suppresses_leak
from vllm_forensics.model.sanitizer import ExplainedReport, PrintedReport, Role
from vllm_forensics.model.sanitizer_sieve import (
    BaselineOutcome,
    Suppression,
    SuppressionCount,
    signature_key,
)

Explain = Callable[[PrintedReport], ExplainedReport]


@dataclass(kw_only=True)
class Sieve:
    """Takes one report after the other, and counts what stays behind."""

    suppressions: tuple[Suppression, ...] = ()
    baseline: tuple[str, ...] | None = None
    """Signatures that are known; None: no baseline was given."""
    _reports: Counter[Suppression] = field(default_factory=Counter)
    _leaks: Counter[Suppression] = field(default_factory=Counter)
    _seen: set[str] = field(default_factory=set)
    _known: int = 0
    _known_leaks: int = 0
    _new: int = 0

    def __post_init__(self) -> None:
        """Look signatures up by what is compared of them."""
        self._keys = frozenset(map(signature_key, self.baseline or ()))

    def sift(self, report: ExplainedReport, explain: Explain) -> ExplainedReport | None:
        """The report, with fewer leaks or not at all where they are suppressed or known."""
        rule = next((rule for rule in self.suppressions if suppresses(rule, report)), None)
        self._note(report)
        if rule is not None:
            self._reports[rule] += 1
            return None
        rest = self._sift_leaks(report) if report.leaks else ()
        if report.leaks and not rest:
            return None
        if not report.leaks and self._is_known(report.signature):
            self._known += 1
            return None
        self._new += 1
        if len(rest) == len(report.leaks):
            return report
        return explain(with_leaks(report.printed, rest))

    def counts(self) -> tuple[SuppressionCount, ...]:
        """Every rule and what it left out, those without a match too."""
        return tuple(
            SuppressionCount(suppression=rule, reports=self._reports[rule], leaks=self._leaks[rule])
            for rule in self.suppressions
        )

    def outcome(self, path: str) -> BaselineOutcome | None:
        """What the baseline at `path` left out."""
        if self.baseline is None:
            return None
        return BaselineOutcome(
            path=path,
            known=self._known,
            known_leaks=self._known_leaks,
            new=self._new,
            gone=tuple(name for name in self.baseline if signature_key(name) not in self._seen),
        )

    def _sift_leaks(self, report: ExplainedReport) -> tuple[int, ...]:
        rest, known = [], 0
        for number, leak in enumerate(report.leaks):
            for rule in self.suppressions:
                if suppresses_leak(rule, report, number):
                    self._leaks[rule] += 1
                    break
            else:
                if self._is_known(leak.signature) or self._is_known(report.signature):
                    known += 1
                else:
                    rest.append(number)
        self._known_leaks += known
        self._known += 1 if known and not rest else 0
        return tuple(rest)

    def _note(self, report: ExplainedReport) -> None:
        self._seen.add(signature_key(report.signature))
        self._seen.update(signature_key(leak.signature) for leak in report.leaks)

    def _is_known(self, signature: str) -> bool:
        return signature_key(signature) in self._keys


def with_leaks(printed: PrintedReport, numbers: Iterable[int]) -> PrintedReport:
    """Only these leaks and their stacks; the text as printed stays whole."""
    kept = frozenset(numbers)
    leak_at = 0
    chain = []
    for event in printed.chain:
        if event.role is Role.LEAK:
            leak_at += 1
            if leak_at - 1 not in kept:
                continue
        chain.append(event)
    leaks = tuple(leak for number, leak in enumerate(printed.leaks) if number in kept)
    return replace(printed, leaks=leaks, chain=tuple(chain))
