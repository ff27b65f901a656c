"""What batch systems say when they end a job themselves, and of how one ended.

Sources: LSF's bacct(1) TERM_ reasons, PBS's pbs_mom, Slurm's JOB STATE CODES in sacct(1).
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_MEMORY: Final = (
    (
        "PBS: job killed: ",
        r"(?P<detail>PBS: job killed: v?mem \d{1,20}kb exceeded limit .{0,40})",
        "=>> PBS: job killed: mem 17000000kb exceeded limit 16777216kb",
    ),
    (
        "TERM_MEMLIMIT: job killed",
        r"(?P<detail>TERM_MEMLIMIT: job killed after reaching LSF memory usage limit)",
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
    ),
    (
        "OUT_OF_ME",
        r"(?:^\W{0,4}(?:[Ss]tate[ :=]|\d{1,12}(?:_\d{1,9})?(?:\.\w{1,12})? ).{0,200}?)\b"
        r"(?P<detail>OUT_OF_ME(?:MORY\b|\+))",
        "42.batch       batch    serve OUT_OF_ME+    0:125",
    ),
)
_LIMITS: Final = (
    (
        "PBS: job killed: ",
        r"(?P<detail>PBS: job killed: (?:walltime|cput|ncpus) .{1,60})",
        "=>> PBS: job killed: walltime 3612 exceeded limit 3600",
    ),
    (
        ": job killed after reaching LSF ",
        r"(?P<detail>TERM_\w{3,20}: job killed after reaching LSF .{1,60})",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    ),
    *(
        (
            needle,
            r"\b(?P<detail>(?:JOB|STEP) \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40}"
            rf"{needle}[A-Z ]{{0,20}}\b)",
            f"slurmstepd: *** JOB 42 ON n1 CANCELLED AT 2026-01-15T08:12:45{needle} ***",
        )
        for needle in (
            " DUE TO TIME LIMIT",
            " DUE TO PREEMPT",
            " DUE TO JOB REQUEUE",
            " DUE TO NODE",
        )
    ),
)
SCHEDULERS: Final = Family(
    source="the batch system",
    phrases=(
        *(Phrase(ClueKind.MEMORY, *row, signal="SIGKILL", of_another=True) for row in _MEMORY),
        *(
            Phrase(ClueKind.CHILD, *row, of_another=True, sender="the batch system")
            for row in _LIMITS
        ),
        Phrase(  # LSF's
            ClueKind.CHILD,
            "Exited with signal termination: ",
            r"^Exited with signal termination: (?P<signal>\d{1,2})\b",
            "Exited with signal termination: 9.",
            of_another=True,
        ),
    ),
)
