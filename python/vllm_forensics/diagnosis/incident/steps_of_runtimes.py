"""What to type next where a language's runtime ended its program: few leave a core unasked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.incident import CauseClass, Clue, Death

_ENDS: Final = {CauseClass.ABORT_EXCEPTION, CauseClass.NATIVE_FAULT}
_STEPS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (
        re.compile(r"^thread '[^']{1,120}' (?:\(\d{1,9}\) )?panicked|\brust_panic", re.MULTILINE),
        (
            "RUST_BACKTRACE=1 COMMAND    # the calls that led to the panic, where none are shown",
            "cargo run    # built for debugging, the calls have lines",
        ),
    ),
    (
        re.compile(
            r"\bgoroutine \d|Go's runtime|^panic: |^fatal error: (?:concurrent |all goroutines)",
            re.MULTILINE,
        ),
        (
            "GOTRACEBACK=crash COMMAND    # the stacks of all goroutines, and a core",
            "forensics core    # such a core: the line, why, and who called",
        ),
    ),
    (
        re.compile(r"JavaScript heap out of memory"),
        (
            "node --heapsnapshot-near-heap-limit=1 SCRIPT    # what fills the heap",
            "NODE_OPTIONS=--max-old-space-size=4096 COMMAND    # more of it, in megabytes",
        ),
    ),
    (
        re.compile(r"Allowed memory size of \d{1,20} bytes"),
        ("php -d memory_limit=1G SCRIPT    # does it end with more, or does it grow for ever?",),
    ),
    (
        re.compile(r"\bjava\.lang\.OutOfMemoryError"),
        ("java -XX:+HeapDumpOnOutOfMemoryError …    # what fills the heap, as a file",),
    ),
)
_JAVAS: Final = (
    "less hs_err_pid*.log    # all threads, the heap and the libraries; forensics log reads it"
)
_JAVAS_OWN: Final = 'Exception in thread "'
_READ: Final = "read the calls at the line named above: they are the program's own, not an echo"


def steps_of_runtime(death: Death, told: Sequence[Clue]) -> tuple[str, ...] | None:
    """What a language's runtime offers; None where none ended it, or a signal did.

    Args:
        death: the first death.
        told: the clues to it.

    """
    if death.cause.kind not in _ENDS:
        return None
    words = "\n".join((death.cause.detail, *(clue.text for clue in told)))
    found = next((steps for pattern, steps in _STEPS if pattern.search(words)), None)
    if found is not None or death.signal is not None:
        return found
    is_runtimes = any(clue.source in {"a language runtime", "R"} for clue in told)
    is_runtimes = is_runtimes or _JAVAS_OWN in words
    return (_READ,) if is_runtimes and death.function is not None else None


def with_javas_report(steps: Sequence[str], told: Sequence[Clue]) -> tuple[str, ...]:
    """The steps, behind the report that Java's machine wrote before it ended."""
    is_javas = any(clue.source == "Java" for clue in told)
    return (_JAVAS, *steps) if is_javas else tuple(steps)
