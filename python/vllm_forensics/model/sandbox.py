"""A run of a scheduler without a GPU: what it was given, what it did, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from vllm_forensics.model.event import Chain


class Generation(StrEnum):
    """Which design of scheduler and block manager is driven."""

    REFERENCE = "reference"
    """Our own, small, exact; runs anywhere."""
    V0 = "v0"
    """vLLM's first: sequence groups, a block space manager, swapping to the CPU."""
    V1 = "v1"
    """vLLM's second, since 0.8: one block pool, preemption by recomputing."""


class Plant(StrEnum):
    """A fault that the reference engine has on purpose, to see how it is told."""

    EARLY_FREE = "early-free"
    """A block is given back while the request that has it still runs."""
    SECOND_OCCUPANCY = "second-occupancy"
    """Which blocks are taken is noted twice, and swapping updates one of the notes only."""


class CheckWhen(StrEnum):
    """When the invariants are looked at. What the worker uses is always checked."""

    EACH = "each"
    EVERY = "every"
    END = "end"


class Policy(StrEnum):
    """Whose turn it is."""

    FCFS = "fcfs"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmTree:
    """The Python files of one vLLM."""

    root: str
    """The folder that holds `vllm/`."""
    version: str | None
    file: str
    """`vllm.__file__`."""
    generation: Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """One request of a load; lengths in tokens."""

    id: str
    arrival: int = 0
    """The first step that may schedule it."""
    prompt_len: int
    max_tokens: int
    priority: int = 0
    """Lower runs first, where the policy is by priority."""
    prefix: int = 0
    """How many of the prompt's first tokens it shares with every other request that has any."""
    abort_after: int | None = None
    """The step after which the client gives it up."""
    contents: tuple[int, ...] = ()
    """Of a request that was recorded: a number for each full block of prompt and output. Where two
    numbers are the same, so are all tokens up to the end of that block."""
    contents_size: int = 0
    """Tokens of each of these blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a run is built from. Blocks are counted as vLLM counts them: with its null block."""

    gpu_blocks: int = 100
    cpu_blocks: int = 0
    block_size: int = 16
    best_of: int = 1
    """How many sequences each request is continued as (v0 only)."""
    sliding_window: int | None = None
    """In tokens."""
    prefix_caching: bool | None = None
    """None: as this vLLM has it by default."""
    chunked_prefill: bool | None = None
    policy: Policy = Policy.FCFS
    max_batched_tokens: int | None = None
    """Tokens of one step; None: 2048, or where prompts must fit one step, a whole sequence."""
    max_seqs: int = 128
    """Requests of one step."""
    max_model_len: int = 8192
    block_manager: int = 1
    """Of v0: BlockSpaceManagerV1 or V2."""
    max_steps: int = 100_000
    check: CheckWhen = CheckWhen.EACH
    check_every: int = 1
    plant: Plant | None = None
    """Of the reference engine only."""
    async_scheduling: bool = False
    """The next step is scheduled while the last one is still in flight (v1)."""
    spec_tokens: int = 0
    """Drafts for each sequence and step, of which some are accepted (v1)."""
    hybrid: bool = False
    """Layers that see everything besides those that see the window: two groups of blocks (v1)."""
    connector: int | None = None
    """Steps that a transfer takes: half of each prompt is loaded, each end is sent (v1)."""

    def windows(self) -> tuple[int | None, ...]:
        """How far back each group of layers sees, in the order of its block tables."""
        return (None, self.sliding_window) if self.hybrid else (self.sliding_window,)

    def batch(self, *, chunks: bool) -> int:
        """Tokens of one step, for an engine that cuts prompts into chunks or does not."""
        if self.max_batched_tokens is not None:
            return self.max_batched_tokens
        return 2048 if chunks else max(self.max_model_len, 2048)


class WorkItem(NamedTuple):
    """What a step hands the worker for one sequence.

    A tuple: there is one for each sequence and step, and a frozen dataclass takes five times as
    long to make.
    """

    sequence: str
    """Whose block table it is: the request, or of several continuations one: `2.1`."""
    request: str
    start: int
    """The first token that is computed: all before have their keys and values."""
    tokens: int
    """How many are; none where all of a prompt was found in the cache (v0)."""
    blocks: tuple[int, ...]
    """The whole table, or what is appended to the one that the worker has."""
    replaces: bool


class TransferKind(StrEnum):
    """Which way a connector moves blocks."""

    LOAD = "load"
    """Into blocks that a request waits for."""
    SEND = "send"
    """Out of blocks that a request left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Blocks that a connector reads or writes at a time of its own, beside the steps."""

    kind: TransferKind
    request: str
    blocks: tuple[int, ...]
    first: int
    """The place of the first one in the request's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStep:
    """All that the worker is told for one step."""

    number: int
    items: tuple[WorkItem, ...] = ()
    finished: tuple[str, ...] = ()
    """Sequences whose tables the worker may forget."""
    preempted: tuple[str, ...] = ()
    """Requests that lost their place in this step."""
    swapped_in: tuple[tuple[int, int], ...] = ()
    """(block on the CPU, block on the GPU)"""
    swapped_out: tuple[tuple[int, int], ...] = ()
    """(block on the GPU, block on the CPU)"""
    copies: tuple[tuple[int, int], ...] = ()
    """(source, target), both on the GPU."""
    further: tuple[tuple[WorkItem, ...], ...] = ()
    """The same items with the tables of each further group of layers."""
    transfers: tuple[Transfer, ...] = ()
    """Those that begin with this step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What came of one step."""

    finished: tuple[str, ...] = ()
    """Requests that ended with it."""
    refused: tuple[str, ...] = ()
    """Requests that the engine gave up because they can never fit; nothing is raised."""
    tokens: int = 0
    """How many tokens came out that were not there before."""
    transfers: tuple[Transfer, ...] = ()
    """Those that begin now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """One allocator, as it sees itself between two steps."""

    name: str
    total: int
    reserved: tuple[int, ...]
    """Never handed out: v1's null block."""
    free: tuple[int, ...]
    """In the order in which they would be handed out."""
    references: tuple[int, ...]
    """By block id."""
    contents: tuple[tuple[int, str], ...] = ()
    """Block and hash, of those that can be found by their content; only in snapshots to keep."""
    occupied: tuple[bool, ...] | None = None
    """By block id, where the allocator notes it a second time."""
    counted_free: int | None = None
    """How many are free by the allocator's own count, where it keeps one besides the list."""
    misfiled: tuple[int, ...] = ()
    """Blocks whose own hash and the one under which they are found are not the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """One unfinished request between two steps."""

    id: str
    state: str
    """waiting, running, swapped or preempted."""
    tokens: int
    """Prompt and output so far."""
    prompt_len: int
    computed: int
    """Tokens that have keys and values."""
    pool: str
    """Where its blocks are."""
    tables: tuple[tuple[int, ...], ...]
    """One for each sequence, or for each group of layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The whole state between two steps."""

    step: int
    pools: tuple[PoolState, ...]
    requests: tuple[RequestState, ...]


class ViolationKind(StrEnum):
    """What must never be, and was."""

    USE_AFTER_FREE = "use-after-free"
    DOUBLE_FREE = "double-free"
    TWO_WRITERS = "two-writers"
    ALIASED_BLOCK = "aliased-block"
    TABLE_MISMATCH = "table-mismatch"
    SHORT_TABLE = "short-table"
    OUT_OF_RANGE = "out-of-range"
    CONSERVATION = "conservation"
    REFERENCE_COUNT = "reference-count"
    FREE_LIST = "free-list"
    OCCUPANCY = "occupancy"
    HASH = "hash"
    WRONG_CONTENT = "wrong-content"
    LEAK = "leak"
    STALL = "stall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule, with the life of the block that it is about."""

    step: int
    kind: ViolationKind
    message: str
    request: str | None = None
    block: int | None = None
    pool: str | None = None
    chain: Chain | None = None
    times: int = 1
    """How many steps broke the same rule for the same block and request in a row."""
    last_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A block from its allocation to its last release."""

    pool: str
    block: int
    request: str | None
    first: int
    """The step that allocated it."""
    last: int | None
    """The step that released it; None: it was held to the end."""


class MemoryUse(NamedTuple):
    """What was done with real memory, where a run had any."""

    written: int
    """Tokens."""
    read: int
    """Tokens: each step reads all that a sequence sees."""
    moved: int
    """Blocks that were copied or swapped."""
    sanitized: bool
    """Under AddressSanitizer."""


class Outcome(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    RAISED = "raised"
    STALLED = "stalled"
    VIOLATION = "violation"
    CUT = "cut"
    """What is known ends before the run does: a trace of a process that died, or still runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step, in numbers."""

    number: int
    scheduled_tokens: int
    running: int
    waiting: int
    swapped: int
    preempted: tuple[str, ...]
    gpu_used: int
    cpu_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCounts:
    """One pool when the run ended."""

    pool: str
    total: int
    usable: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first step in which two runs differ."""

    step: int
    kind: str
    """A `DifferenceKind`."""
    request: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRun:
    """All that is told of one run."""

    engine: Generation
    tree: VllmTree | None
    parameters: Parameters
    load: tuple[RequestSpec, ...]
    outcome: Outcome
    error: str | None
    """What was raised, as Python prints its last line."""
    raised_at: tuple[str, ...]
    """The calls inside of the engine that led to it, outermost first: `file:line function`."""
    steps: tuple[StepRecord, ...]
    """Those that were completed, from 0: a run that raised died in the next one."""
    finished: tuple[str, ...]
    refused: tuple[str, ...]
    """Given up by the engine without an error: they could never fit."""
    preemptions: int
    violations: tuple[Violation, ...]
    unshown_violations: int
    chains: tuple[Chain, ...]
    """Lives that explain the end where no violation names a block."""
    why: str
    """One sentence: what happened."""
    healthy_with: tuple[str, ...] = ()
    """Options of which one alone makes the same run finish without a violation."""
    healthy_parts: Parting | None = None
    """Where the run parts from the one with the first of these changes."""
    blocks: tuple[BlockCounts, ...]
    requests: tuple[RequestState, ...]
    """What was not done at the end."""
    events: int
    snapshots: tuple[Snapshot, ...] = ()
    """Those that were asked for."""
    unkept_snapshots: int = 0
    """Asked for, and one too many for memory."""
    memory: MemoryUse | None = None
    """None: the scheduler ran over no real memory."""
    lives: tuple[Life, ...] = ()
    """Which blocks were held when; none where that is not known, or would be too many."""

    @property
    def last_step(self) -> int:
        """The last one that held a block: of a run that raised, the one in which it did."""
        return len(self.steps) - (self.error is None)
