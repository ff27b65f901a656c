"""From paths to a report: every core on its own, then equal ones together."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vllm_forensics.capture import files
from vllm_forensics.capture.core_sources import opened_core
from vllm_forensics.capture.gdb import (
    GdbSession,
    gdb_for,
    interactive_arguments,
    offer_debug_file,
)
from vllm_forensics.capture.unwinder import (
    close_shared_unwinder,
    prepare_shared_unwinder,
    shared_unwinder,
)
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.diagnosis.signature import signed
from vllm_forensics.errors import EvidenceError, ForensicsError, own_error
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.other_dumps import other_dump
from vllm_forensics.investigate.core_crash import crash_of, with_core_named
from vllm_forensics.investigate.herd import Explained, Grouping, Hands, Progress, explain_each
from vllm_forensics.investigate.journal import told_crashes
from vllm_forensics.investigate.layered_image import LayeredImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.python_layer import close_python_stacks, with_python
from vllm_forensics.investigate.recorded_crash import with_record
from vllm_forensics.investigate.symbol_index import SymbolIndex, list_place
from vllm_forensics.model.answer import Depth, Gap, Known
from vllm_forensics.model.kept_core import KeptCore
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import (
    Crash,
    Failure,
    Group,
    Report,
)
from vllm_forensics.model.symbols import SymbolPlace

if TYPE_CHECKING:
    from concurrent.futures import Executor

_AHEAD: Final = 512
"""Cores that another's executor, which may be a whole cluster, works on or waits with."""
_SHALLOWER: Final = {Depth.FULL: Depth.STACK, Depth.STACK: Depth.NOTES}
_NO_STACKS: Final = Gap(what="calls were not asked for", remedy="forensics core --depth stack CORE")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageOptions:
    """How deep to look."""

    executable: str | None = None
    """The program on this machine, where it is not at the path that the core names."""
    sysroot: str | None = None
    """A folder that holds the files of the machine that crashed."""
    timeout_s: float = 60.0
    """For each question to gdb."""
    depth: Depth | None = None
    """None: full for one core of each group, stacks for the others."""
    symbols: SymbolIndex | None = None
    """Debug information that the user gave."""
    since_s: float | None = None
    """Leave out cores that were written before, in seconds since the epoch."""
    journal: bool = False
    """Also tell all that this machine's journal knows of, whether or not the cores are there."""
    debuginfod: tuple[str, ...] = ()
    """Servers to fetch what a crashing stack lacks from; nothing is fetched without."""


def triage(
    paths: Sequence[str],
    options: TriageOptions,
    *,
    executor: Executor | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Explain every core; an unreadable one among many becomes a failure and stops nothing.

    `executor` may be any `concurrent.futures.Executor`; by default two or more threads drive one
    gdb each. `on_progress` is told after each core how far it is.
    """
    found: dict[int, Crash | Failure] = {}
    for each in triage_each(paths, options, executor=executor, on_progress=on_progress):
        found[each.place] = each.result
    results = [found[place] for place in sorted(found)]
    crashes = tuple(result for result in results if isinstance(result, Crash))
    failures = tuple(result for result in results if isinstance(result, Failure))
    return Report(crashes=crashes, groups=group(crashes), failures=failures)


def triage_each(
    paths: Sequence[str],
    options: TriageOptions,
    *,
    executor: Executor | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Generator[Explained]:
    """The same, one core at a time as they are ready: a thousand need not be held at once."""
    threads = max(2, os.cpu_count() or 2)
    own: Executor | None = None
    work = partial(_explain_one, options=options)
    try:
        if executor is None and options.depth is not Depth.NOTES:
            prepare_shared_unwinder()
        told = told_crashes(paths, options.since_s, live=options.journal)
        records = dict(told.records)
        if executor is None and len(told.paths) > 1:
            from concurrent.futures import ThreadPoolExecutor

            own = ThreadPoolExecutor(max_workers=threads)
        hands = Hands(executor or own, 2 * threads if executor is None else _AHEAD)
        found = explain_each(
            told.paths,
            work,
            _depths(options, len(told.paths)),
            hands=hands,
            on_progress=on_progress,
        )
        for each in found:
            if isinstance(each.result, Crash) and each.result.core in records:
                each = replace(each, result=with_record(each.result, records[each.result.core]))
            yield each
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)
        if executor is None:
            close_shared_unwinder()
            close_python_stacks()
    rest: Sequence[Crash | Failure] = (*told.crashes, *told.failures)
    for place, result in enumerate(rest or _nothing(paths, told.paths), len(told.paths)):
        yield Explained(place=place, result=result, is_final=True)


def _nothing(paths: Sequence[str], cores: Sequence[str]) -> tuple[Failure, ...]:
    if cores:
        return ()
    error, where = "no core dump was found", ", ".join(paths) or "in the usual folders"
    remedy = "cat /proc/sys/kernel/core_pattern; ulimit -c    # where would one be, and may it be?"
    return (Failure(path=where, error=error, remedy=remedy),)


def _depths(options: TriageOptions, count: int) -> tuple[Depth, Depth]:
    """How deep to look into every core, and into one of each group.

    By default the first is only as deep as telling them apart needs.
    """
    if options.depth is not None:
        return options.depth, options.depth
    is_sorted = count > 1 and shared_unwinder() is not None
    return Depth.STACK if is_sorted else Depth.FULL, Depth.FULL


def _explain_one(core: str, depth: Depth, *, options: TriageOptions) -> Crash | Failure:
    return triage_one(core, options, depth)


def triage_one(path: str, options: TriageOptions, depth: Depth | None = None) -> Crash | Failure:
    """Explain one core, as deep as is said, or as the options say.

    A mistake of ours on the way is told, and the core looked into less deep.
    """
    depth = depth or options.depth or Depth.FULL
    try:
        with opened_core(path) as kept:
            _refuse_other_dumps(kept.file)
            return _explain_kept(kept, options, depth)
    except ForensicsError as error:
        return Failure(path=path, error=error.message, remedy=error.remedy)
    except Exception as error:  # noqa: BLE001 - one core's must not take the others with it
        mistake = own_error(error)
    shallower = _SHALLOWER.get(depth)
    if shallower is None:
        return Failure(path=path, error=mistake.message, remedy=mistake.remedy)
    result = triage_one(path, options, shallower)
    if isinstance(result, Failure):
        return result
    gap = Gap(what=f"{mistake.message}; it was looked into less deep", remedy=mistake.remedy)
    return replace(result, gaps=(gap, *result.gaps))


def _refuse_other_dumps(file: str) -> None:
    found = other_dump(files.map_file(file))
    if found is not None:
        raise EvidenceError(found.what, remedy=found.remedy)


def _explain_kept(kept: KeptCore, options: TriageOptions, depth: Depth) -> Crash:
    options = with_kept_modules(options, kept)
    fetch_gaps: tuple[Gap, ...] = ()
    if options.debuginfod and depth is not Depth.NOTES:
        from vllm_forensics.investigate.debuginfod import fetched_symbols

        symbols, fetch_gaps = fetched_symbols(
            kept.file, options.debuginfod, partial(_store_of, options), options.symbols
        )
        options = replace(options, symbols=symbols)
    store = _store_of(options, options.symbols)
    with files.mapped_core(kept.file) as data:
        notes = CoreImage(data, store)
        store.program = notes.process.program
        with open_image(kept.file, notes, store, options, depth) as image:
            crash = crash_of(kept.path, notes, store, image)
        if depth is not Depth.NOTES:
            crash = with_python(crash, kept.file, notes, store)
    said = (kept.gap, _NO_STACKS if depth is Depth.NOTES else None)
    return replace(
        signed(crash),
        depth=depth,
        keeper=kept.keeper,
        kept_facts=kept.facts,
        gaps=with_core_named((*filter(None, said), *crash.gaps, *fetch_gaps), kept.path, store),
    )


def _store_of(options: TriageOptions, symbols: SymbolIndex | None) -> ModuleStore:
    return ModuleStore(options.executable, symbols, options.sysroot)


def with_kept_modules(options: TriageOptions, kept: KeptCore) -> TriageOptions:
    """The options for a core that came with modules: a bundle's stand in by their build-ids."""
    if not kept.modules:
        return options
    given = options.symbols or SymbolIndex()
    found = list_place(SymbolPlace(place=kept.path, files=kept.modules))
    return replace(options, symbols=given.joined(SymbolIndex(found.files)))


def open_image(
    path: str, notes: CoreImage, store: ModuleStore, options: TriageOptions, depth: Depth
) -> LayeredImage:
    """The core at `path` with the readers that `depth` allows."""
    gdb = None
    if depth is Depth.FULL:
        program = gdb_for(notes.process.architecture)
        gdb = partial(GdbSession, timeout_s=options.timeout_s, program=program)
    unwinder = shared_unwinder() if depth is not Depth.NOTES else None
    image = LayeredImage(notes, store, path, start_gdb=gdb, unwinder=unwinder)
    if options.depth is Depth.FULL:
        image.ask_for_all()
    return image


def group(crashes: Iterable[Crash]) -> tuple[Group, ...]:
    """Crashes with one signature together, the largest group first.

    The crash that was looked into deepest, with the fewest gaps, stands for its group.
    """
    grouping = Grouping()
    for place, crash in enumerate(crashes):
        grouping.put(place, crash)
    return grouping.groups()


def own_frames(report: Report) -> frozenset[tuple[str, int]]:
    """Which frames of the crashing threads are the user's own code, as (core, index)."""
    return frozenset(
        (crash.core, frame.index)
        for crash in report.crashes
        for thread in crash.threads[:1]
        for frame in thread.stack.frames
        if is_own(frame)
    )


def gdb_command(path: str, options: TriageOptions, debug_folder: Path | None = None) -> list[str]:
    """The command line of an interactive gdb on a core, with all matching symbols.

    `debug_folder` is where links to the user's own debug information are put; it must last as long
    as gdb does.

    Raises:
        EvidenceError: the core cannot be read.

    """
    store = ModuleStore(options.executable, options.symbols, options.sysroot)
    notes = CoreImage(files.map_core(path), store)
    store.program = notes.process.program
    usable = [module for module in notes.modules if isinstance(store(module), Known)]
    program = next((store.path_of(m) for m in usable if m.path == store.program), None)
    others = [(store.path_of(m), m.bias) for m in usable if m.path != store.program]
    for module in usable:
        given = store.given_debug_file(module)
        if debug_folder is not None and given is not None and module.build_id is not None:
            offer_debug_file(debug_folder, module.build_id, given)
    gdb = gdb_for(notes.process.architecture)
    return interactive_arguments(path, program, others, debug_folder, gdb)
