"""What a log tells of a death: the clues in it, and the incident that they add up to.

`forensics.incident/1` in JSON. A `Clue` is what one place of the text says, without judgement; an
`Incident` is what was concluded from all of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.locations import Certainty as NameCertainty
from vllm_forensics.model.locations import Symbolization
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Failure
from vllm_forensics.model.stack import FrameKind

UNNAMED: Final = "an unnamed runtime"
"""The source of what was read by a line's form alone: no table knows its words."""
OOPS: Final = "a kernel's oops"
"""The source of a fault in the kernel itself; the process that it ran for ends with it."""
BUGCHECK: Final = "Windows' kernel"
"""The source of a stop of Windows itself."""
NCCL_WATCHDOG: Final = "NCCL's watchdog"
"""The source of a wait for other ranks that it gave up."""
ITSELF: Final = "itself"
"""The sender of a signal that a process sent to itself."""
SHELL: Final = "the shell"
"""The source of what a shell tells of its children, and of what was typed."""
LISTING: Final = "a listing"
"""The source of a row that tells who is down, and not since when."""
MOST_LIVES: Final = 64
"""More incidents of one program are not told one by one."""
SPY: Final = "py-spy"
"""The source of a living process's stack."""


class ClueKind(StrEnum):
    """What a place in the text is about."""

    SIGNAL = "signal"
    """A process, or the kernel, says that a signal ended it."""
    HEAP = "heap"
    """The allocator, or a sanitizer, found the heap damaged."""
    ABORT = "abort"
    """A runtime gave up and says why: terminate, an assertion, a panic, a failed check."""
    MEMORY = "memory"
    """The kernel or a container runtime says that memory ran out."""
    ENVIRONMENT = "environment"
    """What the machine lacks: a library, a symbol, shared memory, a CPU feature, a limit."""
    EXCEPTION = "exception"
    """A Python exception that is told with its traceback or by its type."""
    GPU = "gpu"
    """A GPU runtime reports an error that happened earlier."""
    HANG = "hang"
    """Something waited too long."""
    CHILD = "child"
    """Another process says how this one ended."""
    ECHO = "echo"
    """An error that only another process's death can cause."""
    STACK = "stack"
    """A native stack that stands alone: nothing says why it was printed."""
    HEARSAY = "hearsay"
    """Somebody writes that it crashed."""
    MENTION = "mention"
    """The text speaks of a crash; nobody says that there was one."""
    NOT_MEMORY = "not-memory"
    """A container runtime says that it was not a lack of memory."""
    START = "start"
    """A program, or a worker of it, begins."""


class Follows(StrEnum):
    """How an exception hangs together with the one above it."""

    CAUSED = "caused"
    """`raise … from …`: the one above is the cause."""
    HANDLING = "handling"
    """Raised while the one above was handled: this one ended the process."""
    GROUPED = "grouped"
    """Another one of a group."""


class ProcessRole(StrEnum):
    """What a process does; the values are part of the JSON contract."""

    CLIENT = "client"
    API_SERVER = "api-server"
    ENGINE_CORE = "engine-core"
    WORKER = "worker"
    RAY_ACTOR = "ray-actor"
    MAIN = "main"
    """The only process of the log."""
    UNKNOWN = "unknown"


class CauseClass(StrEnum):
    """Of what a process died; the values are part of the JSON contract."""

    NATIVE_FAULT = "native-fault"
    HEAP_CORRUPTION = "heap-corruption"
    ABORT_EXCEPTION = "abort-exception"
    OOM_KILLED = "oom-killed"
    ENVIRONMENT = "environment"
    PYTHON_EXCEPTION = "python-exception"
    GPU_ASYNC = "gpu-async"
    HANG = "hang"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """One native frame as a log prints it."""

    function: str | None
    module: str | None
    """The library's name, without its folder."""
    offset: str | None = None
    """Hexadecimal, from the module's start or, with a function, from the function's."""
    build_id: str | None = None
    """Of the module, where the log gives it."""
    file: str | None = None
    """The source, with its line: from symbols, or from an assertion's own words."""
    line: int | None = None
    symbolized: NameCertainty | None = None
    """The names are not the log's: a module here gave them, and this is how sure it is."""
    is_program: bool = False
    """Does its module lie where programs do, and not libraries?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCall:
    """One Python frame as a log prints it."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """What one place in a log says."""

    kind: ClueKind
    source: str
    """Who wrote it: `kernel`, `glibc`, `faulthandler`, `vllm` …"""
    line: int
    text: str
    """The line, without what a log put before it."""
    writer_pid: int | None = None
    """The process that wrote the line, where a prefix says so."""
    writer: str | None = None
    """That process's name, as its prefix gives it."""
    is_tagged: bool = False
    """Does the prefix have the form `(Name pid=1)`, as Ray and vLLM write it?"""
    pid: int | None = None
    """The process that the line speaks of, where it is told."""
    name: str | None = None
    """That process's name, as told."""
    of_another: bool = False
    """Does the writer speak of another process?"""
    time: str | None = None
    since: str | None = None
    """The last time that stands above it, where the line itself has none."""
    signal: str | None = None
    exit: int | None = None
    detail: str | None = None
    native: tuple[NativeCall, ...] = ()
    """Innermost first."""
    python: tuple[PythonCall, ...] = ()
    """Innermost first."""
    follows: Follows | None = None
    """How it hangs together with the exception above it, in the same process."""
    is_root: bool = False
    """Does its writer say that of all the failures that it saw, this was the first?"""
    is_told: bool = False
    """Does it stand in somebody's sentence, and not as it was printed?"""
    sender: str | None = None
    """Who sent it its signal, where that is known: `process 7`."""
    is_caught: bool = False
    """Did a logger, or a thread's last resort, tell of it? The process may have lived on."""
    is_named_elsewhere: bool = False
    """Was its name found in a sentence or a command around it, and not in its own record?"""
    is_matched: bool = False
    """Is its process known by the moment alone?"""
    is_apples: bool = False
    """Is it a bus error of macOS's, where that is a fault like any other?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProcess:
    """A process that a prefix of the log names."""

    pid: int | None
    name: str
    first_line: int
    last_line: int
    last_time: str | None
    other_names: frozenset[str] = frozenset()
    """What else it signs its lines with: a worker of vLLM's begins as `VllmWorker-0`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentReading:
    """What a log says about deaths."""

    clues: tuple[Clue, ...]
    processes: tuple[SeenProcess, ...]
    size_bytes: int
    lines: int
    left_out: int = 0
    """Clues beyond those that are kept."""
    stopped: int | None = None
    """The first line that announces an orderly stop."""
    succeeded: bool = False
    """Does the text end with somebody's word that all went well?"""
    answered: tuple[int, ...] = ()
    """Lines above which, behind the clue before, a server answered somebody as it should."""
    teaches: bool = False
    """Does it explain more than it reports, so that what died in it may be an example?"""
    told_place: NativeCall | PythonCall | None = None
    """Where people say that it died, or what their statement calls or imports."""
    shown_stack: tuple[NativeCall, ...] = ()
    """What may be its stack, in a form that tells no more: for a death without a place."""
    seen_instead: tuple[str, ...] = ()
    """Lines that speak of dying and prove nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """A line of the log."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Of what a process died, and how sure that is."""

    kind: CauseClass
    detail: str
    certainty: Certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathFrame:
    """A frame of the dead process's stack, in native code or in Python."""

    kind: FrameKind
    function: str | None
    module: str | None
    offset: str | None
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The process that died first."""

    pid: int | None
    name: str | None
    role: ProcessRole
    signal: str | None
    exit: int | None
    time: str | None
    module: str | None
    function: str | None
    python_function: str | None
    cause: Cause
    evidence: tuple[EvidenceLine, ...]
    file: str | None = None
    """The source of the place, with its line: symbols, an assertion's words or Python tell it."""
    line: int | None = None
    symbolized: NameCertainty | None = None
    """How sure the names are, where they are not the log's own."""
    name_certainty: Certainty | None = None
    """Proved where a record of the death or a line's prefix names the process; None: no name."""
    place_certainty: Certainty | None = None
    """Proved where the dead one's own stack or words show the place; None: no place."""
    frames: tuple[DeathFrame, ...] = ()
    """Its stack, innermost first: from the fault on what is native, then what is Python's."""

    @property
    def is_name_guessed(self) -> bool:
        """Is the name only likely, and would it look proved beside a cause that is?"""
        return self._is_only_likely(self.name_certainty)

    @property
    def is_place_guessed(self) -> bool:
        """The same of its place; symbols that are another build's are a guess too."""
        is_guess = self.function is not None and self.symbolized is NameCertainty.LIKELY
        return is_guess or self._is_only_likely(self.place_certainty)

    def _is_only_likely(self, certainty: Certainty | None) -> bool:
        return certainty is Certainty.LIKELY and self.cause.certainty is Certainty.PROVED


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentProcess:
    """A process of the incident: its role, its last sign of life and its end."""

    pid: int | None
    name: str | None
    role: ProcessRole
    parent: int | None
    last_seen: str | None
    end: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """A line that only says that another process had died."""

    line: int
    text: str
    of: int | None
    """The process whose death it tells."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One death and what followed from it."""

    log: str
    first_death: Death
    processes: tuple[IncidentProcess, ...]
    visible_error_is_echo: bool
    echoes: tuple[Echo, ...]
    explanation: str
    next_steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAnswer:
    """The answer to `forensics log`."""

    incidents: tuple[Incident, ...]
    failures: tuple[Failure, ...]
    complete: bool
    """Could every input be read to its end?"""
    size_bytes: int = 0
    lines: int = 0
    symbolization: Symbolization | None = None
    """What came of looking offsets up, where that was asked for."""
