"""What is told of one core: the diagnosis, with threads, modules, objects, and what is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from vllm_forensics.capture import files
from vllm_forensics.capture.packages import debug_package, wheel_of
from vllm_forensics.diagnosis.calls import fault_frames
from vllm_forensics.diagnosis.context import fault_context
from vllm_forensics.diagnosis.explain import diagnose
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.diagnosis.values import notable_registers
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.vdso import VDSO
from vllm_forensics.investigate.gdb_budget import READ_VALUES
from vllm_forensics.investigate.layered_image import LayeredImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.source_excerpt import excerpt_of
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.finding import Diagnosis
from vllm_forensics.model.process import Module, Thread
from vllm_forensics.model.report import Crash, Fault, ModuleReport, ThreadReport
from vllm_forensics.model.stack import Frame, Instruction, Stack, Variable

_MAX_THREADS: Final = 256
_AROUND_PC: Final = 6
_OF_CORE: Final = re.compile(r"(forensics core --(?:gdb|depth \w{1,8}) )CORE\b")


def crash_of(path: str, notes: CoreImage, store: ModuleStore, image: LayeredImage) -> Crash:
    """All that is told of one core: what was diagnosed, the threads, the modules, what is missing.

    It is not signed yet: Python's frames may come to it.

    Raises:
        EvidenceError: the core holds no thread.

    """
    diagnosis = diagnose(image)
    if diagnosis is None:
        raise EvidenceError("a core without threads", remedy="look for another copy of it")
    finding = diagnosis.finding
    threads = tuple(
        _thread_report(image, thread, diagnosis) for thread in image.threads[:_MAX_THREADS]
    )
    named = _named(path, store)
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
        next_steps=tuple(step.replace("CORE", named) for step in _steps(diagnosis, image)),
        reraised_by=diagnosis.reraised_by,
        origin=diagnosis.origin,
        objects=_objects(image, culprit),
        notable_registers=notable_registers(
            image, diagnosis.instruction, dict(diagnosis.context_registers)
        ),
        excerpt=excerpt_of(culprit, before=2) if culprit is not None else None,
        gaps=_gaps(path, notes, store, image),
    )


def _steps(diagnosis: Diagnosis, image: LayeredImage) -> tuple[str, ...]:
    """What to type next; the values that were left out tell more, and sooner, than a rebuild."""
    left_out = image.gdb_gap is not None and image.gdb_gap.remedy == READ_VALUES
    return (READ_VALUES, *diagnosis.next_steps) if left_out else diagnosis.next_steps


def with_core_named(gaps: Iterable[Gap], path: str, store: ModuleStore) -> tuple[Gap, ...]:
    """The gaps, each with a remedy that can be pasted: our own commands name the core."""
    named = _named(path, store)
    return tuple(
        replace(gap, remedy=_OF_CORE.sub(lambda match: match[1] + named, gap.remedy))
        for gap in gaps
    )


def _named(path: str, store: ModuleStore) -> str:
    """The core for a command of ours, with the symbols that were given."""
    given = (f"--symbols {shlex.quote(place)}" for place in store.symbols.places)
    return " ".join([*given, shlex.quote(path)])


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
                remedy="df -h; ulimit -c unlimited    # was the disk full, or the limit lower?",
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
        "headers and dynamic section alone, as far as the core holds them",
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
