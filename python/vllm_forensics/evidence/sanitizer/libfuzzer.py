"""libFuzzer's own reports: FuzzerLoop.cpp."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.sanitizer.memory_rules import SIGNAL_RULES
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime

_KINDS: Final = (
    ("deadly signal", "deadly-signal"),
    ("out-of-memory", "out-of-memory"),
    ("timeout", "timeout"),
    ("fuzz target exited", "fuzz-target-exited"),
    ("fuzz target overwrites its const input", "overwrites-const-input"),
)


def kind_of(message: str) -> str | None:
    """The kind that a header's words stand for."""
    return next((kind for words, kind in _KINDS if message.startswith(words)), None)


RUNTIME: Final = Runtime(
    name="libFuzzer",
    rules=(
        Fact(r"To change the out-of-memory limit|Live Heap Allocations|\d+ byte\(s\) \(\d+%\)"),
        Fact(r"NOTE: libFuzzer has rudimentary|Combine libFuzzer with"),
        *SIGNAL_RULES,
    ),
)
