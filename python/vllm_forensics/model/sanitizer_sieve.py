"""What leaves reports out: a baseline of known ones, and suppressions; a signature's form."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.record import dataclass

SIGNATURE_VERSION: Final = 1
SIGNATURE: Final = re.compile(
    r"v(?P<version>\d{1,4}):(?P<kind>[^:\n]+):(?P<name>[^\n]*):(?P<hash>[0-9a-f]{12})"
)


def signature_key(signature: str) -> str:
    """What of a signature is compared: version and hash. NAME is for the eye, and may be masked."""
    match = SIGNATURE.fullmatch(signature)
    return f"{match['version']}:{match['hash']}" if match else signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One rule: `TYPE:PATTERN`."""

    type: str
    pattern: str
    line: int
    """Where it stands in its file, from 1."""

    @property
    def text(self) -> str:
        """The rule as it is written."""
        return f"{self.type}:{self.pattern}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadRule:
    """A line of a suppressions file that is no rule, and why."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressionCount:
    """What one rule left out."""

    suppression: Suppression
    reports: int
    """Whole reports."""
    leaks: int
    """Single leak records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOutcome:
    """What a baseline left out, and what of it was not seen again."""

    path: str
    known: int
    """Reports that were left out."""
    known_leaks: int
    """Leak records that were left out, of whatever reports."""
    new: int
    """Reports that are shown."""
    gone: tuple[str, ...]
    """Signatures of the baseline that no report has."""
