"""What the last system calls say about a death: who took the page away, what was refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.address_history import Covering, covering_call
from vllm_forensics.diagnosis.joined.traced_processes import Lineage, lineage_of
from vllm_forensics.diagnosis.wording import size_text
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.syscalls import (
    SignalEvent,
    SyscallFinding,
    SyscallKind,
    SyscallTrace,
    SystemCall,
    ThreadEnd,
)

_SHOWN_S: Final = 1e-6
"""strace shows no shorter time; in a trace without times all are shorter."""
_LAST_MOMENTS_S: Final = 10.0
_FAULTS: Final = {"SIGSEGV", "SIGBUS"}
_SENT: Final = {"SI_USER", "SI_TKILL", "SI_QUEUE"}
_SHM_PATH: Final = re.compile(r"[<\"](/dev/shm/[^>\"]*)[>\"]")
_LIBRARY: Final = re.compile(r'"(?:[^"]*/)?([^"/]*\.so(?:\.[0-9.]+)?)"')
_LIMIT: Final = re.compile(r"rlim_cur=(\d{1,20})(?:\*(\d{1,10}))?")

Rule = Callable[[Lineage, ThreadEnd], Iterator[SyscallFinding]]


def explain_syscalls(trace: SyscallTrace) -> tuple[SyscallFinding, ...]:
    """What is proved about every process that died of a signal or failed, in order of death."""
    lineage = lineage_of(trace)
    return tuple(
        finding
        for end in lineage.ends()
        if end.status != 0
        for rule in RULES
        for finding in rule(lineage, end)
    )


def fault_of(lineage: Lineage, end: ThreadEnd) -> SignalEvent | None:
    """The fault that ended a process: the last that has an address, before a handler's own."""
    if end.status >= 0:
        return None
    return next(
        (
            event
            for event in reversed(lineage.trace.signals)
            if event.name in _FAULTS
            and event.address is not None
            and event.time_s <= end.time_s
            and lineage.process_of(event.tid) == end.tid
        ),
        None,
    )


def _page(lineage: Lineage, end: ThreadEnd) -> Iterator[SyscallFinding]:
    """The fault's page was unmapped or protected, or has no memory behind it."""
    fault = fault_of(lineage, end)
    if fault is None or fault.address is None:
        return
    found = covering_call(lineage.memory_calls(end.tid, fault.time_s), fault.address)
    if found is None:
        return
    call, covering = found
    proof = (call.text, fault.text, end.text)
    by = f"{_ago(fault.time_s - call.time_s)} before by thread {call.tid} with {call.name}"
    page = f"{lineage.name(end.tid)}: the page at {fault.address:#x}"
    if covering is Covering.UNMAPPED:
        sentence = f"{page} was unmapped {by}; it was used after that."
        yield _finding(end, SyscallKind.UNMAPPED, sentence, proof)
    elif covering is Covering.PROTECTED and fault.code != "SEGV_MAPERR":
        rights = call.arguments[2] if len(call.arguments) > 2 else "other rights"
        made = "reserved without rights" if call.name == "mmap" else f"given {rights} only"
        sentence = f"{page} was {made} {by}: what the program did to it is not allowed since."
        yield _finding(end, SyscallKind.PROTECTED, sentence, proof)
    elif fault.name == "SIGBUS":
        yield from _shared_memory(lineage, end, call, fault)


def _shared_memory(
    lineage: Lineage, end: ThreadEnd, mapped: SystemCall, fault: SignalEvent
) -> Iterator[SyscallFinding]:
    path = _shm_path(mapped)
    free = lineage.trace.shm_free
    sized = [
        call
        for call in lineage.trace.calls
        if call.name == "ftruncate" and call.result == 0 and _shm_path(call) == path
        and call.time_s <= fault.time_s
    ]  # fmt: skip
    size = _number(sized[-1].arguments, 1) if sized else None
    if path is None or size is None or free is None or size <= free:
        return
    sentence = (
        f"{lineage.name(end.tid)}: {path} was given {size_text(size)} with ftruncate, but /dev/shm "
        f"had only {size_text(free)} free at the start. ftruncate promises memory that is not "
        "there; the first touch beyond it is SIGBUS. Make /dev/shm larger (docker run --shm-size)."
    )
    proof = (sized[-1].text, mapped.text, fault.text)
    yield _finding(end, SyscallKind.SHARED_MEMORY_FULL, sentence, proof)


def _refused(lineage: Lineage, end: ThreadEnd) -> Iterator[SyscallFinding]:
    """The last refusal of each kind, in the last moments."""
    last: dict[tuple[SyscallKind, str], tuple[SystemCall, int]] = {}
    for call in lineage.calls_of(end.tid, end.time_s):
        kind = _refusal(call)
        if kind is not None and end.time_s - call.time_s <= _LAST_MOMENTS_S:
            times = last.pop((kind, call.name), (call, 0))[1] + 1
            last[kind, call.name] = (call, times)
    for (kind, _), (call, times) in last.items():
        limit, proof = _limit(lineage, end, kind)
        often = f", {times} times in all" if times > 1 else ""
        when = f"{_ago(end.time_s - call.time_s)} before the end{often}"
        sentence = f"{lineage.name(end.tid)}: {_what(kind, call)} {when}. {limit}"
        yield _finding(end, kind, sentence, (call.text, *proof, end.text))


def _refusal(call: SystemCall) -> SyscallKind | None:
    match call.name, call.error:
        case (("mmap" | "mprotect" | "mremap" | "brk" | "madvise"), "ENOMEM"):
            return SyscallKind.MEMORY_REFUSED
        case (("clone" | "clone3" | "fork" | "vfork"), ("EAGAIN" | "ENOMEM")):
            return SyscallKind.THREAD_REFUSED
        case (("openat" | "open"), ("EMFILE" | "ENFILE")):
            return SyscallKind.DESCRIPTORS_EXHAUSTED
        case (("openat" | "open" | "ftruncate" | "fallocate"), ("ENOSPC" | "EFBIG" | "EDQUOT")):
            return SyscallKind.NO_SPACE
        case (("openat" | "open"), ("ENOENT" | "EACCES")) if _shm_path(call) is not None:
            return SyscallKind.FILE_MISSING
        case _:
            return None


def _what(kind: SyscallKind, call: SystemCall) -> str:
    if kind is SyscallKind.MEMORY_REFUSED:
        size = _number(call.arguments, 2 if call.name == "mremap" else 1)
        of = f" of {size_text(size)}" if size is not None else ""
        return f"{call.name}{of} was refused with {call.error}"
    if kind is SyscallKind.THREAD_REFUSED:
        thread = any("CLONE_THREAD" in argument for argument in call.arguments)
        what = "thread" if thread else "process"
        return f"a new {what} was refused ({call.name}: {call.error})"
    path = next((text for text in call.arguments if text.startswith('"')), call.arguments[0])
    return f"{call.name} of {path} failed with {call.error}"


_ADVICE: Final = {
    SyscallKind.MEMORY_REFUSED: (
        "RLIMIT_AS",
        "Usual reasons: ulimit -v, vm.max_map_count, vm.overcommit_memory.",
    ),
    SyscallKind.THREAD_REFUSED: (
        "RLIMIT_NPROC",
        "Usual reasons: ulimit -u (it counts all processes of the user), the cgroup's pids.max.",
    ),
    SyscallKind.DESCRIPTORS_EXHAUSTED: ("RLIMIT_NOFILE", "Usual reason: ulimit -n, or a leak."),
    SyscallKind.NO_SPACE: ("RLIMIT_FSIZE", "df -h shows what is full."),
    SyscallKind.FILE_MISSING: (
        "",
        "Unlinked already, never made, or made in another container or by another user.",
    ),
}


def _limit(lineage: Lineage, end: ThreadEnd, kind: SyscallKind) -> tuple[str, tuple[str, ...]]:
    """Who set the limit that explains a refusal; else the usual reasons."""
    resource, usual = _ADVICE[kind]
    for pid in lineage.ancestry(end.tid):
        for call in reversed(lineage.calls_of(pid, end.time_s)):
            value = _limit_set(call, resource) if resource else None
            if value is not None:
                shown = size_text(value) if resource in {"RLIMIT_AS", "RLIMIT_FSIZE"} else value
                return f"{lineage.name(pid)} had set {resource} to {shown}.", (call.text,)
    return usual, ()


def _limit_set(call: SystemCall, resource: str) -> int | None:
    """The new soft limit, where this call set one. -1 and infinity are no limit."""
    if call.result != 0 or call.name not in {"prlimit64", "setrlimit"}:
        return None
    at = 1 if call.name == "prlimit64" else 0
    if len(call.arguments) < at + 2 or call.arguments[at] != resource:
        return None
    match = _LIMIT.search(call.arguments[at + 1])
    return int(match.group(1)) * int(match.group(2) or 1) if match else None


def _missing_libraries(lineage: Lineage, end: ThreadEnd) -> Iterator[SyscallFinding]:
    """A library that was looked for and never found. Searching in several folders is normal."""
    wanted: dict[str, list[SystemCall]] = {}
    found = set()
    for call in lineage.calls_of(end.tid, end.time_s):
        match = _LIBRARY.search(" ".join(call.arguments[:2])) if "open" in call.name else None
        if match is None:
            continue
        if call.result is not None and call.result >= 0:
            found.add(match.group(1))
        elif call.error == "ENOENT" and end.time_s - call.time_s <= _LAST_MOMENTS_S:
            wanted.setdefault(match.group(1), []).append(call)
    for name, calls in wanted.items():
        # Python tries module.cpython-311.so, module.abi3.so … in turn; the next name may do.
        if name in found or ".cpython-" in name or ".abi3." in name:
            continue
        sentence = (
            f"{lineage.name(end.tid)}: {name} was looked for in {len(calls)} places and not found, "
            f"last {_ago(end.time_s - calls[-1].time_s)} before the end."
        )
        yield _finding(end, SyscallKind.FILE_MISSING, sentence, (calls[-1].text, end.text))


def _killed(lineage: Lineage, end: ThreadEnd) -> Iterator[SyscallFinding]:
    """Who sent the signal that ended a process."""
    if end.status >= 0 or fault_of(lineage, end) is not None:
        return
    name = signal_name(-end.status)
    event = next(
        (
            event
            for event in reversed(lineage.trace.signals)
            if event.name == name and event.code in _SENT and event.time_s <= end.time_s
            and lineage.process_of(event.tid) == end.tid
        ),
        None,
    )  # fmt: skip
    call = _kill_call(lineage, end, name)
    sender = lineage.process_of(call.tid) if call else event.sender if event else None
    if sender is None:
        return
    known = sender in lineage.calls
    if sender == end.tid:
        by = "by itself (abort, raise or kill)"
    else:
        by = f"by {lineage.name(sender)}" + ("" if known else ", which was not started here")
    sentence = f"{lineage.name(end.tid)} was ended with {name} {by}."
    proof = (*((call.text,) if call else ()), *((event.text,) if event else ()), end.text)
    found = _finding(end, SyscallKind.KILLED, sentence, proof)
    yield replace(found, sender=sender if sender != end.tid else None)


def _kill_call(lineage: Lineage, end: ThreadEnd, name: str) -> SystemCall | None:
    """The last kill or tgkill of this signal to this process, or to the group that it leads."""
    for call in reversed(lineage.trace.calls):
        is_own = call.result is None and lineage.process_of(call.tid) == end.tid  # no return
        if call.name not in {"kill", "tgkill", "tkill"} or not (call.result == 0 or is_own):
            continue
        target = _number(call.arguments, 0)
        if target is None or call.time_s > end.time_s or name not in call.arguments:
            continue
        if lineage.process_of(target) == end.tid or target == -end.tid:
            return call
    return None


def _shm_path(call: SystemCall) -> str | None:
    match = _SHM_PATH.search(" ".join(call.arguments))
    return match.group(1) if match else None


def _number(arguments: tuple[str, ...], index: int) -> int | None:
    try:
        return int(arguments[index], 0)
    except (ValueError, IndexError):
        return None


def _ago(seconds: float) -> str:
    if seconds < _SHOWN_S:
        return "some time"
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s"


def _finding(
    end: ThreadEnd, kind: SyscallKind, sentence: str, proof: tuple[str, ...]
) -> SyscallFinding:
    return SyscallFinding(
        pid=end.tid, kind=kind, sentence=sentence, proof=tuple(dict.fromkeys(proof))
    )


RULES: Final[tuple[Rule, ...]] = (_page, _refused, _missing_libraries, _killed)
