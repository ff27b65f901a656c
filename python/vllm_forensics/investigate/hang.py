"""Looks at a living process tree that does not get on: snapshots, stacks, waits, a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from vllm_forensics.capture import files
from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.capture.live import watch_tree
from vllm_forensics.capture.supervisor import SupervisedTree, snapshot
from vllm_forensics.diagnosis.hang import find_waits, futex_waiters, judge_hang, waits_for_lock
from vllm_forensics.errors import ForensicsError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.investigate.layered_image import LayeredImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.triage import TriageOptions
from vllm_forensics.model.answer import Known
from vllm_forensics.model.hang import HangReport, LiveProcess, Mutex
from vllm_forensics.model.stack import Stack

WATCHED_S: Final = 1.0
_OWNER_OFFSET: Final = 8  # struct __pthread_mutex_s: __lock, __count, __owner (x86-64)
_MAX_SNAPSHOTS: Final = 32


def look_at(root: int, folder: Path, options: TriageOptions) -> HangReport:
    """Watch a tree, take a snapshot of each of its processes, and judge.

    Every process is stopped only while its snapshot is written. One that cannot be looked into (not
    ours, already traced) is a gap; /proc still tells what it does.

    Raises:
        EvidenceError: there is no such process.

    """
    processes = watch_tree(root, WATCHED_S)
    gaps: list[str] = []
    cores: dict[int, str] = {}
    for process in processes[:_MAX_SNAPSHOTS]:
        try:
            cores[process.pid] = snapshot(process.pid, folder)
        except ForensicsError as error:
            gaps.append(f"process {process.pid}: {error.message} ({error.remedy})")
    return judge_snapshots(processes, cores, options, tuple(gaps))


def look_at_supervised(root: int, tree: SupervisedTree, options: TriageOptions) -> HangReport:
    """The same for a tree under our own supervisor: it writes the snapshots, as their tracer.

    Raises:
        EvidenceError: the program ended meanwhile.

    """
    processes = watch_tree(root, WATCHED_S)
    seen = parse_supervisor_log(tree.take_snapshots(len(processes)))
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
    lost = list(gaps)
    for process in processes:
        core = cores.get(process.pid)
        if core is None:
            continue
        try:
            own, locks = _read_snapshot(core, process, processes, options)
        except ForensicsError as error:
            lost.append(f"process {process.pid}: {error.message} ({error.remedy})")
            continue
        stacks |= own
        mutexes += locks
    waits = find_waits(processes, mutexes, stacks)
    return HangReport(
        processes=processes,
        findings=judge_hang(processes, waits, stacks),
        waits=waits,
        stacks=tuple((pid, stack) for (pid, _), stack in stacks.items()),
        snapshots=tuple(cores.values()),
        gaps=tuple(lost),
    )


def _read_snapshot(
    core: str,
    process: LiveProcess,
    processes: tuple[LiveProcess, ...],
    options: TriageOptions,
) -> tuple[dict[tuple[int, int], Stack], list[Mutex]]:
    store = ModuleStore()
    notes = CoreImage(files.map_core(core), store)
    store.program = notes.process.program
    start_gdb = partial(GdbSession, timeout_s=options.timeout_s) if options.use_gdb else None
    stacks: dict[tuple[int, int], Stack] = {}
    with LayeredImage(notes, store, core, start_gdb=start_gdb) as image:
        for thread in image.threads:
            answer = image.unwind(thread)
            if isinstance(answer, Known):
                stacks[process.pid, thread.tid] = answer.value
        return stacks, _mutexes(image, process, processes, stacks)


def _mutexes(
    image: LayeredImage,
    process: LiveProcess,
    processes: tuple[LiveProcess, ...],
    stacks: Mapping[tuple[int, int], Stack],
) -> list[Mutex]:
    """The locks that this process's threads wait on, with the owner that their memory names."""
    known = {thread.tid for found in processes for thread in found.threads}
    mutexes = []
    for owner_of, thread, address in futex_waiters((process,)):
        stack = stacks.get((owner_of.pid, thread.tid))
        if stack is None or not waits_for_lock(stack):
            continue
        raw = image.read(address + _OWNER_OFFSET, 4)
        owner = int.from_bytes(raw.value, "little") if isinstance(raw, Known) else 0
        if owner in known:
            mutexes.append(Mutex(pid=process.pid, tid=thread.tid, address=address, owner=owner))
    return mutexes
