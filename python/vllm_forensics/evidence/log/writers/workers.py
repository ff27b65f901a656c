"""What any framework says of a worker or a rank that left with a status of its own."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_NUMBERED: Final = (
    r"(?P<name>\b(?:[Ww]orker|[Rr]ank|[Ss]hard|[Rr]eplica|[Tt]rainer)"
    r"(?: rank)?[ #-]{1,2}\d{1,3})\b"
    r"(?: \((?:pid[ =:]{1,2}(?P<pid>\d{1,20}))?[^()]{0,80}\))?"
)
_OF_SYSTEM: Final = r"\b[Ww]orker (?:(?=\d{4})|process )(?P<pid>\d{1,20})\b(?: \([^()]{1,80}\))?"
_LEFT: Final = (
    r",? (?:has |had |was )?(?:unexpectedly )?(?:exited|died|failed|terminated|quit)"
    r"(?: unexpectedly)?(?: with)?(?: an?)?(?: non-?zero)?,?"
    r" \(?(?:exit ?|return ?|status )?(?:code|status)[ :=]{1,3}"
    r"(?P<exit>[1-9]\d?|1[01]\d|12[0-7])\b"
)
WORKERS: Final = Family(
    source="the Python parent",
    phrases=tuple(
        Phrase(ClueKind.CHILD, needle, who + _LEFT, example, of_another=True, in_prose=True)
        for who, needle, example in (
            (_NUMBERED, "xited with code ", "worker 3 exited with code 7"),
            (_NUMBERED, "xited with exit", "Trainer rank 2 exited with exitcode 7"),
            (_NUMBERED, "died with", "Worker 0 (pid 4242) died with exit code 7"),
            (_NUMBERED, "failed with ", "rank 2 failed with exit code 1"),
            (_NUMBERED, "erminated with ", "worker-1 terminated with status: 3"),
            (_OF_SYSTEM, "xited with code ", "Worker process 4242 exited with code 7"),
            (_OF_SYSTEM, "xited with exit", "worker 4242 exited with exit code 7"),
            (_OF_SYSTEM, "xited unexpectedly", "Worker 4242 exited unexpectedly, status 7"),
        )
    ),
)
"""The kind and the number are its name: so small a number is no process's."""
