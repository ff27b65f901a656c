"""The options of the runtimes: the user's win, and what a run cannot do without is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.sanitizer_options import options_text, parse_options
from vllm_forensics.diagnosis.sanitizer.traps import LINK_ORDER_REFUSED
from vllm_forensics.errors import UsageError

EXIT_STATUS: Final = 86
"""What a report ends a process with where it may not abort: 1 is what a Python exception gives."""
_STREAMS: Final = {"stdout", "stderr"}
_OURS: Final[Mapping[str, Mapping[str, str]]] = {
    "ASAN_OPTIONS": {
        "detect_leaks": "0",
        "abort_on_error": "1",
        "disable_coredump": "0",
        "handle_segv": "2",
        "allocator_may_return_null": "1",
        "exitcode": str(EXIT_STATUS),
    },
    "UBSAN_OPTIONS": {"print_stacktrace": "1", "exitcode": str(EXIT_STATUS)},
    "TSAN_OPTIONS": {"exitcode": str(EXIT_STATUS)},
}
_MAIN: Final = {"ubsan": "UBSAN_OPTIONS", "tsan": "TSAN_OPTIONS"}
"""Whose log_path counts, by flavour; else AddressSanitizer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """What the runtimes are told."""

    variables: tuple[tuple[str, str], ...]
    reports: str
    """What the reports' paths begin with."""
    supervised: bool
    """May a tracer watch? The search for leaks is one itself."""
    notes: tuple[str, ...]


def choose_options(environment: Mapping[str, str], reports: Path, flavour: str) -> RuntimeOptions:
    """Our options, overridden by the user's.

    Raises:
        UsageError: an option that makes the reports worthless, or a path that none can express.

    """
    users = {name: parse_options(environment.get(name, "")) for name in _OURS}
    main = _MAIN.get(flavour, "ASAN_OPTIONS")
    asan = users["ASAN_OPTIONS"]
    if asan.get("verify_asan_link_order") in {"0", "false", "no"}:
        raise UsageError(LINK_ORDER_REFUSED.what, remedy=LINK_ORDER_REFUSED.remedy)
    notes: list[str] = []
    prefix = str(reports)
    chosen = users[main].get("log_path")
    if chosen in _STREAMS:
        notes.append(f"{main} sends reports to {chosen}; log_path was set to a file, to read them")
    elif chosen is not None:
        prefix = str(Path(chosen).absolute())
        notes.append(f"The reports are where {main} wants them: {prefix}.PID")
    leaks = asan.get("detect_leaks") in {"1", "true", "yes"} and flavour.startswith("asan")
    if leaks:
        notes.append(
            "Leaks are looked for with ptrace, so no tracer watches: no minicore this time"
        )
    if asan.get("abort_on_error") in {"0", "false", "no"} and main == "ASAN_OPTIONS":
        notes.append(
            "abort_on_error=0 in ASAN_OPTIONS: a report ends the process with status "
            f"{asan.get('exitcode', EXIT_STATUS)} and leaves no core"
        )
    variables = tuple(
        (name, options_text({**ours, **users[name], "log_path": prefix}))
        for name, ours in _OURS.items()
    )
    return RuntimeOptions(
        variables=variables, reports=prefix, supervised=not leaks, notes=tuple(notes)
    )
