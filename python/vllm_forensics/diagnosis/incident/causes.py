"""Of what a process died: small rules in order, the first that fits decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.faults import allocator, cause, signal_of, trapped
from vllm_forensics.diagnosis.incident.kills import killed
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import (
    BUGCHECK,
    ITSELF,
    NCCL_WATCHDOG,
    OOPS,
    UNNAMED,
    Cause,
    CauseClass,
    Clue,
    ClueKind,
)

_GPU: Final = re.compile(
    r"(?:CUDA|HIP|NCCL|RCCL|cuBLAS|ncclUnhandled|CUDNN)[\w ]{0,20}(?:[Ee]rror|failure)"
    r"(?!: out of memory)"
)
_TIMEOUT: Final = re.compile(r"collective operation timeout|Watchdog caught colle")
_WORDS: Final = {
    "SIGSEGV": "an access to memory that it may not touch",
    "SIGBUS": "memory that is mapped but cannot be supplied",
    "SIGILL": "an instruction that this CPU does not know, or a deliberate trap",
    "SIGFPE": "an arithmetic fault, most often an integer division by zero",
    "SIGTRAP": "a trap instruction",
    "SIGSYS": "a system call that a filter (seccomp) does not let it make",
    "SIGXCPU": "it used up the processor time that it was allowed",
    "SIGXFSZ": "it wrote a file beyond the size that it was allowed",
    "SIGABRT": "abort() was called; the text does not say by whom",
}
_ON_MACOS: Final = "an access to memory that is there and may not be used so"
_FIRST_CHANCE: Final = "Windows fatal exception: "

_UNALIGNED: Final = re.compile(r"(?i)invalid address alignment|\bBUS_ADRALN\b|alignment exception")
_NO_REASON: Final = re.compile(r"Error while creating shared memory segment(?!.{0,200}No space)")
"""What NCCL says whatever was in the way."""
_NIL: Final = "invalid memory address or nil pointer dereference"
_OF_MACHINES: Final = {"systemd", "kernel"}
_OF_RANKS: Final = {NCCL_WATCHDOG, "the GPU runtime"}
"""Their watchdogs wait for what other processes do."""
_HEARD: Final = {ClueKind.HEARSAY, ClueKind.MENTION}

_WAITS: Final = re.compile(
    r"wait(?:_\w{1,60})?|\w{1,60}_wait|join|(?:get_)?result|collective_rpc|launch_core_engines|"
    r"make_\w{0,40}client|poll|recv\w{0,40}|get_output\w{0,40}|check_health"
)
"""Functions in which one process hears of another's end."""
_INNERMOST: Final = 3
"""Of so many calls one may wait: what it raises tells of another's end."""

Rule = Callable[[Clue, Sequence[Clue]], Cause | None]
_OF_A_KILL: Final = {137, -9, 9}
"""Exit statuses of whom the kernel killed."""


def gpu(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`CUDA error: an illegal memory access was encountered`, alone or in what()."""
    of_gpu = next((one for one in (first, *account) if one.kind is ClueKind.GPU), None)
    if of_gpu is not None:
        sure = "unhandled system error" not in (of_gpu.detail or "")
        return cause(
            CauseClass.GPU_ASYNC,
            of_gpu.detail or of_gpu.text,
            Certainty.PROVED if sure else Certainty.LIKELY,
        )
    if first.kind is ClueKind.STACK and first.source == "the GPU runtime":
        return cause(CauseClass.GPU_ASYNC, first.detail or first.text, Certainty.LIKELY)
    told = _what(first, account, _GPU)
    return cause(CauseClass.GPU_ASYNC, told, Certainty.PROVED) if told is not None else None


def _what(first: Clue, account: Sequence[Clue], pattern: re.Pattern[str]) -> str | None:
    """What an uncaught exception says, where it fits; threads may print theirs into each other."""
    if first.kind is not ClueKind.ABORT:
        return None
    details = (one.detail for one in (first, *account) if one.kind is ClueKind.ABORT)
    return next((one for one in details if one is not None and pattern.search(one)), None)


def sent(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`kill(42, SIGKILL)` in a trace, another process's number in a core, a failed probe."""
    told = next((one for one in (first, *account) if one.sender is not None), None)
    if told is None or any(one.kind is ClueKind.MEMORY for one in account):
        return None
    if told.sender == ITSELF:
        return cause(
            CauseClass.ABORT_EXCEPTION, f"{told.signal}, which it sent to itself", Certainty.PROVED
        )
    if told.signal is None:  # by which signal is not told
        detail = f"{told.sender} ended it: {told.detail}"
    else:
        detail = f"{told.signal}, which {told.sender} sent: it did not fail by itself"
    return cause(CauseClass.UNKNOWN, detail, Certainty.PROVED)


def memory(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`Out of memory: Killed process 4242 (python)`, `Reason: OOMKilled`."""
    kills = [clue for clue in (first, *account) if clue.kind is ClueKind.MEMORY]
    if not kills:
        return None
    told = next((clue for clue in kills if "illed process" in (clue.detail or "")), kills[0])
    exits = (clue.exit for clue in (first, *account) if clue.exit is not None)
    left = next((status for status in exits if status not in _OF_A_KILL), None)
    if left is not None:  # a container's own process lived on: a child of it was killed
        words = f"{told.detail or told.text}; its own process left with exit status {left}"
        return cause(CauseClass.OOM_KILLED, words, Certainty.LIKELY)
    return cause(CauseClass.OOM_KILLED, told.detail or told.text, Certainty.PROVED)


def heap(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`double free or corruption (!prev)`; the damage was done earlier."""
    told = next((clue for clue in (first, *account) if clue.kind is ClueKind.HEAP), None)
    if told is None:
        return None
    return cause(CauseClass.HEAP_CORRUPTION, told.detail or told.text, Certainty.PROVED)


def hang(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`Watchdog caught collective operation timeout`, or the stack below it."""
    told = _what(first, account, _TIMEOUT)
    is_cut = first.kind is ClueKind.STACK and first.source == NCCL_WATCHDOG
    if first.kind is not ClueKind.HANG and told is None and not is_cut:
        return None
    # who waited for the others' work is not who kept it
    others = (one for one in account if one.kind is ClueKind.HANG and one.writer != first.writer)
    sure = "atchdog" in first.text and first.source not in _OF_RANKS and not any(others)
    return cause(
        CauseClass.HANG,
        told or first.detail or first.text,
        Certainty.PROVED if sure else Certainty.LIKELY,
    )


def environment(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`error while loading shared libraries`, a full /dev/shm."""
    told = next((clue for clue in (first, *account) if clue.kind is ClueKind.ENVIRONMENT), None)
    if told is None:
        return None
    sure = told.signal is None and _NO_REASON.match(told.detail or "") is None
    return cause(
        CauseClass.ENVIRONMENT,
        told.detail or told.text,
        Certainty.PROVED if sure else Certainty.LIKELY,
    )


def dereferenced(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`panic: runtime error: invalid memory address or nil pointer dereference`: Go's SIGSEGV."""
    told = next((one for one in (first, *account) if _NIL in (one.detail or "")), None)
    if told is None or told.kind is not ClueKind.ABORT:
        return None
    words = f"SIGSEGV, which Go's runtime tells as a {told.detail}"
    return cause(CauseClass.NATIVE_FAULT, words, Certainty.PROVED)


def given_up(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`terminate called after throwing an instance of 'std::runtime_error'`, a panic."""
    told = next((clue for clue in (first, *account) if clue.kind is ClueKind.ABORT), None)
    if told is None or first.kind not in {ClueKind.ABORT, ClueKind.SIGNAL, ClueKind.CHILD}:
        return None
    if first.signal not in {None, "SIGABRT"}:
        return None
    return cause(CauseClass.ABORT_EXCEPTION, told.detail or told.text, Certainty.PROVED)


def machine_signal(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """SIGBUS, SIGILL, a limit's: mostly the machine's doing, which no text alone can prove."""
    signal = signal_of(first, account)
    if signal == "SIGBUS" and any(clue.source in _OF_MACHINES for clue in (first, *account)):
        # only in a container /dev/shm is small, and no kernel logs what comes of that
        words = f"SIGBUS: {_WORDS[signal]}, or that is not aligned"
        return cause(CauseClass.NATIVE_FAULT, words, Certainty.LIKELY)
    if signal == "SIGBUS" and any(_UNALIGNED.search(one.text) for one in (first, *account)):
        words = "SIGBUS: an access to an address that is not aligned as it has to be"
        return cause(CauseClass.NATIVE_FAULT, words, Certainty.PROVED)
    if signal == "SIGBUS" and not any(clue.is_apples for clue in (first, *account)):
        words = f"SIGBUS: {_WORDS[signal]}, such as a full /dev/shm or a file that was cut"
    elif signal in {"SIGILL", "SIGXCPU", "SIGXFSZ"}:
        words = f"{signal}: {_WORDS[signal]}"
    else:
        return None
    return cause(CauseClass.ENVIRONMENT, words, Certainty.LIKELY)


def fault(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`Fatal Python error: Segmentation fault`, `exit code: -11`, a kernel's line.

    Only likely under somebody's sentence that the program segfaults, and where Python on Windows
    alone tells it: it hears of an exception before those who may catch it.
    """
    signal = signal_of(first, account)
    if signal not in {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGTRAP", "SIGSYS"}:
        return None
    told = (first, *account)
    in_order = (
        *(one.detail for one in told if one.source == "kernel"),
        *(one.detail for one in told if one.kind in _HEARD and one.signal == signal),
        *(one.detail for one in told if first.kind is one.kind is ClueKind.SIGNAL),
    )
    words = next(filter(None, in_order), None)
    if signal == "SIGBUS":
        words = words or _ON_MACOS
    sure = signal != "SIGBUS" and any(
        (one.exit is None or one.exit < 0) and _FIRST_CHANCE not in one.text
        for one in told
        if one.signal and one.kind not in _HEARD
    )
    return cause(
        CauseClass.NATIVE_FAULT,
        f"{signal}: {words or _WORDS.get(signal, 'a fatal signal')}",
        Certainty.PROVED if sure else Certainty.LIKELY,
    )


def crashed(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """A crash handler's stack, or `Thread 0 Crashed`: no signal is named."""
    if first.kind is not ClueKind.SIGNAL or signal_of(first, account) is not None:
        return None
    words = "a fatal signal, which is not named"
    if first.source in {OOPS, BUGCHECK} and first.detail is not None:
        ran = ", while it ran for this process" if first.name is not None else ""
        words = f"a fault of the kernel itself{ran}: {first.detail}"
    return cause(CauseClass.NATIVE_FAULT, words, Certainty.LIKELY)


def aborted(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """SIGABRT and no word of why."""
    if signal_of(first, account) != "SIGABRT":
        return None
    return cause(CauseClass.ABORT_EXCEPTION, f"SIGABRT: {_WORDS['SIGABRT']}", Certainty.LIKELY)


def raised(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """A Python exception that no other death explains; of a traceback without its end, some."""
    if first.kind is ClueKind.STACK and first.source == "python":
        waits = any(_WAITS.fullmatch(call.function) for call in first.python[:_INNERMOST])
        told = None if waits else first.detail
        return cause(CauseClass.PYTHON_EXCEPTION, told, Certainty.LIKELY) if told else None
    if first.kind is not ClueKind.EXCEPTION:
        return None
    return cause(CauseClass.PYTHON_EXCEPTION, first.detail or first.text, Certainty.PROVED)


RULES: Final[tuple[Rule, ...]] = (
    hang, sent, gpu, memory, heap, environment, dereferenced, given_up, allocator, trapped,
    machine_signal, killed, fault, crashed, aborted, raised,
)  # fmt: skip


def cause_of(first: Clue, account: Sequence[Clue]) -> Cause:
    """The cause; `unknown` is an answer."""
    for rule in RULES:
        found = rule(first, account)
        if found is not None:
            return _as_told(found, first, account)
    detail = "the text tells that it ended and not of what"
    if any(one.exit == 0 for one in (first, *account)):
        detail = "it left with exit status 0: no signal ended it, and it named no error"
    if first.kind is ClueKind.STACK and first.python:
        detail = first.detail or detail
    if first.kind is ClueKind.ECHO:
        detail = "the text holds only what other processes noticed"
    return cause(CauseClass.UNKNOWN, detail, Certainty.UNKNOWN)


def _as_told(found: Cause, first: Clue, account: Sequence[Clue]) -> Cause:
    """What only somebody's sentence tells, or a line's form, is not proved."""
    told = (first, *account)
    named = [clue for clue in told if clue.signal is not None] or told
    is_printed = any(clue.kind is first.kind and not clue.is_told for clue in told)
    is_weak = not is_printed or all(clue.source == UNNAMED or clue.is_matched for clue in named)
    if not is_weak or found.certainty is not Certainty.PROVED:
        return found
    return replace(found, certainty=Certainty.LIKELY)
