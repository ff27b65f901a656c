"""How one of the minimal demos ended."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.sanitizer import SanitizerAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """One demo: exit status (minus the signal's number), what it printed, its crash if any."""

    name: str
    status: int
    output: str
    crash: Crash | None
    failure: Failure | None = None
    sanitized: SanitizerAnswer | None = None
    """What the same demo's sanitizer build reported; None where it was not run."""
    conclusion: str | None = None
    """The one sentence that both halves lead to."""

    @property
    def is_explained(self) -> bool:
        """A crash with a known kind, or an end without any signal: there was nothing to explain."""
        if self.crash is not None:
            return self.crash.fault.kind is not FaultKind.UNKNOWN
        return self.failure is None and self.status >= 0
