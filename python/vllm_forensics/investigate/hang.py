"""Looks at a living process tree that does not get on: snapshots, stacks, waits, a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from vllm_forensics.capture import files
from vllm_forensics.capture.live import root_of, watch_tree
from vllm_forensics.capture.supervisor import SupervisedTree, snapshot
from vllm_forensics.capture.unwinder import shared_unwinder
from vllm_forensics.diagnosis.hang import judge_hang
from vllm_forensics.diagnosis.waits import (
    find_thread,
    find_waits,
    futex_waiters,
    lock_owner,
    shared_mapping_at,
)
from vllm_forensics.errors import ForensicsError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.python_state import PythonState
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.investigate.layered_image import LayeredImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.python_structures import python_state_of
from vllm_forensics.investigate.triage import TriageOptions, open_image
from vllm_forensics.model.answer import Depth, Known, Tier
from vllm_forensics.model.hang import HangReport, LiveProcess, Mutex
from vllm_forensics.model.stack import Frame, FrameKind, Stack

WATCHED_S: Final = 1.0
_OWNER_OFFSET: Final = 8  # struct __pthread_mutex_s of 64-bit glibc: __lock, __count, __owner
_MAX_SNAPSHOTS: Final = 32
_MAX_PYTHON_FRAMES: Final = 64


def look_at(root: int, folder: Path, options: TriageOptions) -> HangReport:
    """Watch a tree, take a snapshot of each of its processes, and judge.

    Every process is stopped only while its snapshot is written. One that cannot be looked into (not
    ours, already traced) is a gap; /proc still tells what it does.

    Raises:
        EvidenceError: there is no such process.

    """
    processes = watch_tree(root, WATCHED_S)
    gaps: list[str] = list(_unseen(processes))
    cores: dict[int, str] = {}
    inside = [process for process in processes if _can_look_into(process)]
    for process in inside[:_MAX_SNAPSHOTS]:
        try:
            cores[process.pid] = snapshot(process.pid, folder)
        except ForensicsError as error:
            gaps.append(f"process {process.pid}: {error.message} ({error.remedy})")
    if len(inside) > _MAX_SNAPSHOTS:
        gaps.append(f"{len(inside) - _MAX_SNAPSHOTS} more processes: only /proc was read")
    return judge_snapshots(processes, cores, options, tuple(gaps))


def look_at_supervised(root: int, tree: SupervisedTree, options: TriageOptions) -> HangReport:
    """The same for a tree under our own supervisor: it writes the snapshots, as their tracer.

    Raises:
        EvidenceError: the program ended meanwhile.

    """
    processes = watch_tree(root, WATCHED_S)
    count = sum(process.in_tree and not _is_over(process) for process in processes)
    seen = parse_supervisor_log(tree.take_snapshots(count))
    return judge_snapshots(processes, dict(seen.snapshots), options, seen.errors)


def judge_snapshots(
    processes: tuple[LiveProcess, ...],
    cores: Mapping[int, str],
    options: TriageOptions,
    gaps: tuple[str, ...] = (),
) -> HangReport:
    """Stacks and locks out of each process's core, then the wait-for graph and the verdicts."""
    stacks: dict[tuple[int, int], Stack] = {}
    mutexes: list[Mutex] = []
    holders: dict[int, int] = {}
    lost = list(gaps)
    for process in processes:
        core = cores.get(process.pid)
        if core is None:
            continue
        try:
            seen = _read_snapshot(core, process, processes, options)
        except ForensicsError as error:
            lost.append(f"process {process.pid}: {error.message} ({error.remedy})")
            continue
        stacks |= {(process.pid, stack.tid): stack for stack in seen.stacks}
        mutexes += seen.mutexes
        if seen.gil_holder is not None:
            holders[process.pid] = seen.gil_holder
    waits = find_waits(processes, mutexes, stacks, holders)
    return HangReport(
        processes=processes,
        findings=judge_hang(processes, waits, stacks),
        waits=waits,
        stacks=tuple((pid, stack) for (pid, _), stack in stacks.items()),
        snapshots=tuple(cores.values()),
        gaps=tuple(lost),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What one process's snapshot tells."""

    stacks: tuple[Stack, ...]
    mutexes: tuple[Mutex, ...]
    gil_holder: int | None


def _read_snapshot(
    core: str, process: LiveProcess, processes: tuple[LiveProcess, ...], options: TriageOptions
) -> _Seen:
    sysroot = options.sysroot or root_of(process.pid)
    store = ModuleStore(symbols=options.symbols, sysroot=sysroot)
    notes = CoreImage(files.map_core(core), store)
    store.program = notes.process.program
    depth = options.depth or (Depth.STACK if shared_unwinder() is not None else Depth.FULL)
    with open_image(core, notes, store, options, depth) as image:
        stacks: dict[int, Stack] = {}
        for thread in image.threads:
            answer = image.unwind(thread)
            if isinstance(answer, Known):
                stacks[thread.tid] = answer.value
        python = _python_state(image, process)
        return _Seen(
            stacks=tuple(_with_python(stack, python) for stack in stacks.values()),
            mutexes=tuple(_mutexes(image, process, processes, stacks)),
            gil_holder=python.gil_holder if python else None,
        )


def _mutexes(
    image: LayeredImage,
    process: LiveProcess,
    processes: tuple[LiveProcess, ...],
    stacks: Mapping[int, Stack],
) -> Iterator[Mutex]:
    """The locks that this process's threads wait on, with the owner that their memory names."""
    for thread, call in futex_waiters(process):
        address = call.arguments[0]
        raw = image.read(address, _OWNER_OFFSET + 4)
        if not isinstance(raw, Known):
            continue
        word, owner_field = raw.value[:4], raw.value[_OWNER_OFFSET:]
        stack = stacks.get(thread.tid, Stack(tid=thread.tid, frames=()))
        tid = lock_owner(
            call, int.from_bytes(word, "little"), int.from_bytes(owner_field, "little"), stack
        )
        is_shared = shared_mapping_at(process, address) is not None
        owner = tid and find_thread(tid, process, processes, is_shared=is_shared)
        if owner:
            yield Mutex(pid=process.pid, tid=thread.tid, address=address, owner=owner)


def _python_state(image: LayeredImage, process: LiveProcess) -> PythonState | None:
    """The interpreter's own view, with thread ids as they are seen from here."""
    outer = {thread.inner_tid or thread.tid: thread.tid for thread in process.threads}
    state = python_state_of(image, outer, most_frames=_MAX_PYTHON_FRAMES)
    if state is None:
        return None
    return replace(
        state,
        gil_holder=None if state.gil_holder is None else outer[state.gil_holder],
        calls=tuple((outer[tid], calls) for tid, calls in state.calls),
    )


def _with_python(stack: Stack, state: PythonState | None) -> Stack:
    """The stack with the thread's Python calls behind the native ones."""
    calls = dict(state.calls).get(stack.tid, ()) if state else ()
    first = len(stack.frames)
    python = tuple(
        Frame(
            index=first + index,
            pc=0,
            function=call.qualified,
            tier=Tier.NOTES,
            kind=FrameKind.PYTHON,
            file=call.file,
            line=call.line,
        )
        for index, call in enumerate(calls)
    )
    return replace(stack, frames=stack.frames + python)


def _can_look_into(process: LiveProcess) -> bool:
    busy_elsewhere = process.tracer or process.is_kernel or not process.in_tree
    return not busy_elsewhere and not _is_over(process)


def _is_over(process: LiveProcess) -> bool:
    return all(thread.state in "ZX" for thread in process.threads)


def _unseen(processes: tuple[LiveProcess, ...]) -> Iterator[str]:
    """Why some processes have no snapshot, and what to do."""
    kernel = [process.pid for process in processes if process.is_kernel]
    if kernel:
        some = ", ".join(str(pid) for pid in kernel[:4])
        yield f"{len(kernel)} threads of the kernel ({some} …) have no memory to look into"
    for process in processes:
        if _is_over(process):
            yield (
                f"process {process.pid} has ended; its parent {process.parent} has not asked for "
                "its status yet"
            )
        elif process.tracer and process.in_tree:
            yield (
                f"process {process.pid} is traced by process {process.tracer} already (gdb, strace "
                "or a supervisor): end that, or ask it; under forensics run, send it SIGUSR2"
            )
