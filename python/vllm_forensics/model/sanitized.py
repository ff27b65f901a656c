"""A program that ran under a sanitizer or its like: how, and what each report says in full."""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.record import dataclass
from vllm_forensics.model.sanitizer import ExplainedReport


class Method(StrEnum):
    """How the runtime got into the program."""

    LAUNCHER = "launcher"
    """A Python that is linked with it."""
    PRELOAD = "preload"
    """LD_PRELOAD, into code that was built for it."""
    PRELOAD_ONLY = "preload-only"
    """LD_PRELOAD, into code that knows nothing of it."""
    LINKED = "linked"
    """The program itself is linked with it."""
    VALGRIND = "valgrind"
    SAMPLE = "sample"
    """GWP-ASan: a few allocations among many are guarded."""


class PythonThread(StrEnum):
    """Whose Python stack it is."""

    CURRENT = "current"
    """Of the thread that the report is about."""
    MAIN = "main"
    """Of the main thread: the thread of the report runs no Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFrame:
    """One Python function on a stack."""

    function: str
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStack:
    """What Python did at the moment of a report; innermost call first."""

    sanitizer: str | None
    """Whose report; None for the one that ended the process."""
    thread: PythonThread
    frames: tuple[PythonFrame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizedReport:
    """One report of one process, with all that was learned of that moment."""

    report: ExplainedReport
    log: str
    pid: int | None
    python: PythonStack | None = None
    core: str | None = None
    """The core of the same process."""
    conclusion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """How a command is to be run under a sanitizer. Paths on this machine."""

    method: Method
    name: str
    """What watches, as a person calls it: AddressSanitizer."""
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    """Variables that the program gets beside its own."""
    preload: tuple[str, ...] | None = None
    """The libraries of LD_PRELOAD, in order; None leaves it as it is."""
    reports: str = ""
    """What the paths of the reports begin with."""
    launcher: str | None = None
    """What `python` means on the PATH of everything that is started."""
    interpreter: str | None = None
    """The Python that the command starts, where it is one."""
    supervised: bool = True
    """May a tracer watch too?"""
    notes: tuple[str, ...] = ()
    """What was changed of the user's wishes, and what this way cannot see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizedRun:
    """What came of a plan."""

    plan: RunPlan
    reports: tuple[SanitizedReport, ...]
    verdict: str
    """One sentence: how many reports, or what it means that there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A known way in which a sanitizer fails before it finds anything."""

    name: str
    what: str
    remedy: str
