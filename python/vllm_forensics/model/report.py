"""What a triage gives back: crashes, groups of equal ones, and inputs that gave nothing."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from vllm_forensics.model.answer import Depth, Gap
from vllm_forensics.model.cases import Seen
from vllm_forensics.model.finding import Access, FaultKind, Origin
from vllm_forensics.model.process import Address, Architecture, Signal
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.signature import SignaturePart
from vllm_forensics.model.stack import Frame, Instruction, Stack, Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What went wrong at the faulting instruction."""

    kind: FaultKind
    access: Access | None
    address: Address | None
    size: int | None
    instruction: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReport:
    """One thread, its stack, and for the crashing one the machine state at the fault."""

    tid: int
    name: str | None
    crashed: bool
    stack: Stack
    registers: MappingOf[str, int]
    disassembly: tuple[Instruction, ...] = ()
    fault_pc: Address | None = None
    fault_index: int = 0
    """The index of the first frame that belongs to the fault; the ones before are a handler's."""
    gil: str | None = None
    """`holds` or `waits`: what it has to do with Python's interpreter lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleReport:
    """A mapped ELF file, and whether the one on this machine is the same."""

    path: str
    build_id: str | None
    start: Address
    end: Address
    debug_info: bool | None
    matches_core: bool | None
    debug_from: str | None = None
    """The server, or the place of `--symbols`, that debug information came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceExcerpt:
    """A few lines around a place, read from this machine's copy of the source."""

    file: str
    first_line: int
    lines: tuple[str, ...]
    marked_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelCaller:
    """The thread that most likely gave a pool's thread its work, and its Python calls there."""

    tid: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """One core, explained."""

    core: str
    program: str | None
    command: str
    pid: int
    architecture: Architecture | None
    signal: Signal
    delivered: Signal
    fault: Fault
    culprit: Frame | None
    threads: tuple[ThreadReport, ...]
    modules: tuple[ModuleReport, ...]
    explanation: str
    proof: tuple[str, ...]
    next_steps: tuple[str, ...]
    signature: str = ""
    """Empty until all its frames are known: `diagnosis.signature.signed`."""
    signature_parts: tuple[SignaturePart, ...] = ()
    """What the signature is made of."""
    parallel_caller: ParallelCaller | None = None
    """Where the crashing thread is one of OpenMP's, which has no Python of its own."""
    reraised_by: str | None = None
    origin: tuple[Origin, ...] = ()
    objects: tuple[Variable, ...] = ()
    """Variables of the culprit's frame, as the debugger prints them."""
    notable_registers: tuple[str, ...] = ()
    """The registers of the faulting instruction, each with what its value means."""
    excerpt: SourceExcerpt | None = None
    gaps: tuple[Gap, ...] = ()
    depth: Depth = Depth.FULL
    """How deep this core was looked into."""
    keeper: str | None = None
    """Who kept it: `systemd-coredump`, `apport`, `abrt`."""
    kept_facts: tuple[tuple[str, str], ...] = ()
    """What the keeper wrote down."""
    seen: Seen | None = None
    """What was known of the signature before; None where no store was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Crashes with one signature."""

    signature: str
    cores: tuple[str, ...]
    representative: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An input that could not be explained, why, and what to do."""

    path: str
    error: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The answer to one command."""

    crashes: tuple[Crash, ...]
    groups: tuple[Group, ...]
    failures: tuple[Failure, ...]
    store_failure: Failure | None = None
    """Why what was seen before is not known."""
