"""From paths to a report: every core on its own, then equal ones together."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from vllm_forensics.capture import files
from vllm_forensics.capture.core_sources import opened_core
from vllm_forensics.capture.gdb import (
    GdbSession,
    gdb_for,
    interactive_arguments,
    offer_debug_file,
)
from vllm_forensics.capture.packages import debug_package, wheel_of
from vllm_forensics.capture.unwinder import (
    close_shared_unwinder,
    prepare_shared_unwinder,
    shared_unwinder,
)
from vllm_forensics.diagnosis.calls import fault_frames
from vllm_forensics.diagnosis.context import fault_context
from vllm_forensics.diagnosis.explain import diagnose
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.diagnosis.values import notable_registers
from vllm_forensics.errors import EvidenceError, ForensicsError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.other_dumps import other_dump
from vllm_forensics.evidence.vdso import VDSO
from vllm_forensics.investigate.herd import Explained, Grouping, Hands, Progress, explain_each
from vllm_forensics.investigate.journal import told_crashes
from vllm_forensics.investigate.layered_image import LayeredImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.python_layer import close_python_stacks, with_python
from vllm_forensics.investigate.recorded_crash import with_record
from vllm_forensics.investigate.source_excerpt import excerpt_of
from vllm_forensics.investigate.symbol_index import SymbolIndex, list_place
from vllm_forensics.model.answer import Depth, Gap, Known
from vllm_forensics.model.finding import Diagnosis
from vllm_forensics.model.kept_core import KeptCore
from vllm_forensics.model.process import Module, Thread
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import (
    Crash,
    Failure,
    Fault,
    Group,
    ModuleReport,
    Report,
    ThreadReport,
)
from vllm_forensics.model.stack import Frame, Instruction, Stack, Variable
from vllm_forensics.model.symbols import SymbolPlace

_MAX_THREADS: Final = 256
_AROUND_PC: Final = 6
_AHEAD: Final = 512
"""Cores that another's executor, which may be a whole cluster, works on or waits with."""
_NO_STACKS: Final = Gap(what="calls were not asked for", remedy="forensics core --depth stack")


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
    pool = executor or ThreadPoolExecutor(max_workers=threads)
    hands = Hands(pool, 2 * threads if executor is None else _AHEAD)
    work = partial(_explain_one, options=options)
    try:
        if executor is None and options.depth is not Depth.NOTES:
            prepare_shared_unwinder()
        told = told_crashes(paths, options.since_s, live=options.journal)
        records = dict(told.records)
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
        if executor is None:
            pool.shutdown(cancel_futures=True)
            close_shared_unwinder()
            close_python_stacks()
    rest: Sequence[Crash | Failure] = (*told.crashes, *told.failures)
    for place, result in enumerate(rest or _nothing(paths, told.paths), len(told.paths)):
        yield Explained(place=place, result=result, is_final=True)


def _nothing(paths: Sequence[str], cores: Sequence[str]) -> tuple[Failure, ...]:
    if cores:
        return ()
    error, where = "no core dump was found", ", ".join(paths) or "."
    remedy = "cat /proc/sys/kernel/core_pattern; ulimit -c   (where would one be, and may it be?)"
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
    """Explain one core, as deep as is said, or as the options say."""
    depth = depth or options.depth or Depth.FULL
    try:
        with opened_core(path) as kept:
            _refuse_other_dumps(kept.file)
            return _explain_kept(kept, options, depth)
    except ForensicsError as error:
        return Failure(path=path, error=error.message, remedy=error.remedy)


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
            crash = _explain(kept.path, notes, store, image)
        if depth is not Depth.NOTES:
            crash = with_python(crash, kept.file, notes, store)
    said = (kept.gap, _NO_STACKS if depth is Depth.NOTES else None)
    return replace(
        crash,
        depth=depth,
        keeper=kept.keeper,
        kept_facts=kept.facts,
        gaps=(*(gap for gap in said if gap is not None), *crash.gaps, *fetch_gaps),
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


def _explain(path: str, notes: CoreImage, store: ModuleStore, image: LayeredImage) -> Crash:
    diagnosis = diagnose(image)
    if diagnosis is None:
        raise EvidenceError("a core without threads", remedy="look for another copy of it")
    finding = diagnosis.finding
    threads = tuple(
        _thread_report(image, thread, diagnosis) for thread in image.threads[:_MAX_THREADS]
    )
    given = (f"--symbols {shlex.quote(place)}" for place in store.symbols.places)
    named = " ".join([*given, shlex.quote(path)])
    culprit = diagnosis.culprit
    return Crash(
        core=path,
        program=image.process.program,
        command=image.process.command,
        pid=image.process.pid,
        architecture=image.process.architecture,
        signal=diagnosis.signal,
        delivered=diagnosis.delivered,
        fault=Fault(
            kind=finding.kind,
            access=finding.access,
            address=finding.address,
            size=finding.size,
            instruction=diagnosis.instruction.text if diagnosis.instruction else None,
            message=finding.message,
        ),
        culprit=culprit,
        threads=threads,
        modules=tuple(_module_report(module, store) for module in image.modules),
        explanation=diagnosis.explanation,
        proof=finding.proof,
        next_steps=tuple(step.replace("CORE", named) for step in diagnosis.next_steps),
        signature=diagnosis.signature,
        signature_parts=diagnosis.signature_parts,
        reraised_by=diagnosis.reraised_by,
        origin=diagnosis.origin,
        objects=_objects(image, culprit),
        notable_registers=notable_registers(
            image, diagnosis.instruction, dict(diagnosis.context_registers)
        ),
        excerpt=excerpt_of(culprit, before=2) if culprit is not None else None,
        gaps=_gaps(path, notes, store, image),
    )


def _objects(image: LayeredImage, culprit: Frame | None) -> tuple[Variable, ...]:
    """The culprit's variables, and the object that its member function worked on."""
    if culprit is None:
        return ()
    visible = tuple(found for found in culprit.variables if not found.name.startswith("__"))
    if not any(found.name == "this" for found in visible):
        return visible
    itself = image.variable(culprit, "*this")
    return (*visible, itself.value) if isinstance(itself, Known) else visible


def _thread_report(image: LayeredImage, thread: Thread, diagnosis: Diagnosis) -> ThreadReport:
    answer = image.unwind(thread)
    stack = answer.value if isinstance(answer, Known) else Stack(tid=thread.tid, frames=())
    if not thread.crashed:
        return ThreadReport(
            tid=thread.tid, name=thread.name, crashed=False, stack=stack, registers=thread.registers
        )
    context = fault_context(image)
    belonging = fault_frames(image, context) if context else ()
    return ThreadReport(
        tid=thread.tid,
        name=thread.name,
        crashed=True,
        stack=Stack(
            tid=stack.tid,
            frames=(*stack.frames, *(f for f in belonging if f not in stack.frames)),
            truncated=stack.truncated,
            recursion=diagnosis.recursion,
        ),
        registers=diagnosis.context_registers,
        disassembly=_around(image, diagnosis.context_pc),
        fault_pc=diagnosis.context_pc,
        fault_index=belonging[0].index if belonging else 0,
    )


def _around(image: LayeredImage, pc: int) -> tuple[Instruction, ...]:
    decoded = image.instructions(pc)
    if isinstance(decoded, Gap):
        return ()
    at = next((i for i, found in enumerate(decoded.value) if found.address == pc), 0)
    return decoded.value[max(0, at - _AROUND_PC) : at + _AROUND_PC]


def _module_report(module: Module, store: ModuleStore) -> ModuleReport:
    answer = store(module)
    file = answer.value if isinstance(answer, Known) else None
    matches: bool | None = file is not None
    if file is None and isinstance(store.unchecked(module), Gap):
        matches = None
    has_debug = file.has_debug_info if file else None
    return ModuleReport(
        path=module.path,
        build_id=module.build_id,
        start=module.start,
        end=module.end,
        debug_info=has_debug,
        matches_core=matches,
        debug_from=store.debug_place_of(module) if has_debug else None,
    )


def _gaps(path: str, notes: CoreImage, store: ModuleStore, image: LayeredImage) -> tuple[Gap, ...]:
    """What is not known, each with what would close it: the core's losses, gdb's, the modules'."""
    gaps = []
    if notes.is_truncated:
        held, whole = notes.truncated_at or 0, notes.expected_size
        gaps.append(
            Gap(
                what=f"the core is truncated: {held / 1e6:.1f} of {whole / 1e6:.1f} MB are there; "
                "memory and stacks beyond are lost",
                remedy="df -h; ulimit -c unlimited   (was the disk full, or the limit lower?)",
            )
        )
    gaps += [gap for gap in (image.unwinder_gap, image.gdb_gap) if gap is not None]
    for module in _modules_of_fault(image):
        if module.path == VDSO:
            continue  # the core itself holds it
        answer = store(module)
        if isinstance(answer, Gap):
            gaps.append(answer)
            continue
        if module.is_unlisted and module.build_id is None:
            gaps.append(_unproved(store.path_of(module)))
        if not answer.value.has_debug_info:
            gaps.append(_no_debug_info(module, answer.value.has_symbol_table, store))
    newer = _source_newer_than(path, image)
    return tuple(dict.fromkeys([*gaps, *newer]))


def _unproved(path: str) -> Gap:
    return Gap(
        what=f"the core holds no build-id: that {path} is the build that crashed is shown by its "
        "headers and dynamic section alone",
        remedy="if lines look wrong, compare the file with the one on the machine that crashed",
    )


def _modules_of_fault(image: LayeredImage) -> list[Module]:
    """The modules of the innermost frames: only their gaps matter to the reader."""
    answer = image.unwind(image.threads[0])
    frames = answer.value.frames[:12] if isinstance(answer, Known) else ()
    own = [frame for position, frame in enumerate(frames) if position < 2 or is_own(frame)]
    found = [image.module_at(frame.pc) for frame in own]
    return list(dict.fromkeys(module.value for module in found if isinstance(module, Known)))


def _no_debug_info(module: Module, has_symbols: bool, store: ModuleStore) -> Gap:  # noqa: FBT001
    wheel = wheel_of(module.path)
    if store.symbols.places and module.build_id is not None:
        remedy = f"--symbols has none of its build, {module.build_id}: forensics symbols list PLACE"
    elif wheel is not None:
        remedy = (
            f"the wheel {wheel} ships none: give its publisher's with --symbols, or build it from "
            "source with CXXFLAGS=-g"
        )
    else:
        remedy = debug_package(module.path) or "rebuild it with -g (RelWithDebInfo)"
    what = "no debug information" if has_symbols else "neither debug information nor a symbol table"
    return Gap(what=f"{module.name} has {what}: no lines, no variables", remedy=remedy)


def _source_newer_than(path: str, image: LayeredImage) -> list[Gap]:
    answer = image.unwind(image.threads[0])
    frames = answer.value.frames[:12] if isinstance(answer, Known) else ()
    try:
        written = Path(path).stat().st_mtime
        for file in dict.fromkeys(frame.file for frame in frames if frame.file and is_own(frame)):
            if files.is_regular_file(file) and Path(file).stat().st_mtime > written:
                return [
                    Gap(
                        what=f"{file} was edited after the crash: the lines shown may have moved",
                        remedy="look at the revision that was built",
                    )
                ]
    except OSError:
        return []
    return []
