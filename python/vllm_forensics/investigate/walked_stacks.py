"""Stacks of one core by its modules' unwind tables (tier `libdw`), with lines where they are known.

Only files whose build-id matches are handed to the unwinder, and only those that a stack comes to:
a process maps hundreds. A walk that ends at a module that it was not given is made again with it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from vllm_forensics.capture.memory_file import memory_file
from vllm_forensics.capture.unwinder import Unwinder
from vllm_forensics.diagnosis.runtime_frames import is_runtime_module
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.dwarf_registers import dwarf_registers
from vllm_forensics.evidence.gdb_mi import SIGNAL_FRAME
from vllm_forensics.evidence.machines import MACHINES
from vllm_forensics.evidence.vdso import VDSO
from vllm_forensics.investigate.gdb_loading import return_address
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Answer, Gap, Known, Tier
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.process import Address, Module, Thread
from vllm_forensics.model.stack import Frame, FrameKind, Stack
from vllm_forensics.model.unwind import (
    MappedFile,
    Walk,
    WalkedFrame,
    WalkedLine,
    WalkEnd,
    WalkStart,
)

_CRASHING_FRAMES: Final = 64
_OTHER_FRAMES: Final = 24
_MAX_THREADS: Final = 256
_MAX_ROUNDS: Final = 128
_MAX_LINES: Final = 65_536
_MAX_PROGRAMS: Final = 256
_MAX_MET: Final = 64
"""Modules of one program; each must be looked up and checked in each of its cores."""

_SYMBOL_VERSION: Final = re.compile(r"@@?[A-Z][\w.]*$")
"""Of a .symtab: `pthread_mutex_lock@@GLIBC_2.2.5`."""

Place = tuple[Address, bool]
"""A pc, and whether it is a return address."""


class _LineMemory:
    """Lines by build-id and offset: a thousand cores of one bug ask for the same few."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, bool], tuple[WalkedLine, ...]] = {}

    def get(self, key: tuple[str, int, bool]) -> tuple[WalkedLine, ...] | None:
        return self._known.get(key)

    def put(self, key: tuple[str, int, bool], lines: tuple[WalkedLine, ...]) -> None:
        if len(self._known) >= _MAX_LINES:
            self._known.clear()
        self._known[key] = lines


class _ModuleMemory:
    """The modules that stood on the stacks of a program's cores: the next core's are likely there.

    A module that is handed over at once saves a walk that ends at it, and changes no walk.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, None]] = {}

    def of(self, program: str) -> tuple[str, ...]:
        """The paths that were met, a few."""
        return tuple(self._known.get(program, ()))

    def add(self, program: str, paths: Iterable[str]) -> None:
        """Remember more of them."""
        if program not in self._known and len(self._known) >= _MAX_PROGRAMS:
            self._known.clear()
        known = self._known.setdefault(program, {})
        known |= dict.fromkeys(path for path in paths if path != VDSO)
        for path in tuple(known)[_MAX_MET:]:
            del known[path]


_LINES: Final = _LineMemory()
_MET: Final = _ModuleMemory()


class WalkedStacks:
    """The stacks of one core, walked once for all of its threads at the first question."""

    def __init__(
        self,
        notes: CoreImage,
        store: ModuleStore,
        core: str,
        unwinder: Unwinder,
        bad_calls: frozenset[Address],
    ) -> None:
        """`core` is the file's path; `bad_calls` are addresses without code that were called."""
        self._notes = notes
        self._store = store
        self._core = core
        self._unwinder = unwinder
        self._bad_calls = bad_calls
        self._files: dict[str, MappedFile] = {}
        self._stacks: dict[int, Stack] | None = None
        self.gap: Gap | None = None
        """Why there are no walks, if that is so."""

    def stack(self, thread: Thread) -> Answer[Stack]:
        """The thread's frames, inlined calls among them."""
        if self._stacks is None and self.gap is None:
            try:
                self._stacks = self._walk_all()
            except ToolError as error:
                self.gap = Gap(what=error.message, remedy=error.remedy, tier=Tier.LIBDW)
        found = (self._stacks or {}).get(thread.tid)
        if found is None:
            return self.gap or Gap(what=f"thread {thread.tid} was not walked", tier=Tier.LIBDW)
        return Known(value=found, tier=Tier.LIBDW)

    def lines(self, pc: Address) -> Answer[tuple[WalkedLine, ...]]:
        """The source places of an instruction, the innermost inlined call first."""
        try:
            found = self._lines_of([(pc, False)])[pc, False]
        except ToolError as error:
            return Gap(what=error.message, remedy=error.remedy, tier=Tier.LIBDW)
        if not found:
            return Gap(what=f"no debug information has the line of {pc:#x}", tier=Tier.LIBDW)
        return Known(value=found, tier=Tier.LIBDW)

    # Walking.

    def _walk_all(self) -> dict[int, Stack]:
        threads = self._notes.threads[:_MAX_THREADS]
        program = self._notes.process.program or ""
        self._add_met(program)
        walks = self._walk([self._start(thread) for thread in threads])
        walks = [
            self._beyond_bad_calls(thread, self._beyond_trampoline(thread, walk))
            for thread, walk in zip(threads, walks, strict=True)
        ]
        _MET.add(program, self._files)
        places = [(frame.pc, frame.is_call) for walk in walks for frame in walk.frames]
        lines = self._lines_of(places)
        return {
            thread.tid: self._stack(thread.tid, walk, lines)
            for thread, walk in zip(threads, walks, strict=True)
        }

    def _start(self, thread: Thread) -> WalkStart:
        registers = dwarf_registers(self._notes.process.architecture, thread.registers)
        return WalkStart(
            pc=thread.pc,
            registers=registers,
            innermost=_CRASHING_FRAMES if thread.crashed else _OTHER_FRAMES,
        )

    def _walk(self, starts: list[WalkStart]) -> list[Walk]:
        walks: tuple[Walk, ...] = ()
        for _ in range(_MAX_ROUNDS):
            walks = self._unwinder.walk(self._core, tuple(self._files.values()), starts)
            ends = [walk.frames[-1] for walk in walks if walk.end is WalkEnd.NO_TABLE]
            # A list, not a generator: every module that is missing is added in one round.
            if not any([self._add_module_of(frame) for frame in ends]):  # noqa: C419
                break
        return list(walks)

    def _add_met(self, program: str) -> None:
        """Hand over what other cores of the program came to, as far as this one maps it."""
        met = _MET.of(program)
        for module in self._notes.modules if met else ():
            if module.path in met and module.path not in self._files:
                self._add(module)

    def _add_module_of(self, frame: WalkedFrame) -> bool:
        """Hand over the file of a frame's module; False where that changes nothing."""
        found = self._notes.module_at(frame.pc)
        if isinstance(found, Gap) or found.value.path in self._files:
            return False
        return self._add(found.value)

    def _add(self, module: Module) -> bool:
        file = self._notes.module_file(module)
        if isinstance(file, Gap):
            return False
        if module.path == VDSO:
            path = memory_file(bytes(file.value.data))
            self._files[VDSO] = MappedFile(
                path=path, debug_path="", start=module.start, end=module.end
            )
            return True
        self._files[module.path] = MappedFile(
            path=self._store.path_of(module),
            debug_path=self._store.debug_path_of(module) or "",
            start=module.start,
            end=module.end,
        )
        return True

    def _beyond_trampoline(self, thread: Thread, walk: Walk) -> Walk:
        """Go on at what a signal interrupted, where no table leads through the handler's return.

        On x86-64 the C library's tables do; aarch64's kernel and qemu-user have none for theirs.
        """
        machine = MACHINES[self._notes.process.architecture]
        if walk.end is not WalkEnd.NO_TABLE or machine.architecture.link_register is None:
            return walk
        frame = next(iter(self._notes.signal_frames(thread)), None)
        last = walk.frames[-1]
        module = self._notes.module_at(last.pc)
        is_kernels = isinstance(module, Gap) or module.value.path == VDSO
        if frame is None or not last.level or frame.pc == last.pc or not is_kernels:
            return walk
        start = WalkStart(
            pc=frame.pc,
            registers=dwarf_registers(machine.architecture, frame.registers),
            innermost=_CRASHING_FRAMES,
        )
        (rest,) = self._walk([start])
        frames = [replace(found, level=last.level + 1 + found.level) for found in rest.frames]
        return Walk(frames=(*walk.frames, *frames), depth=walk.depth + rest.depth, end=rest.end)

    def _beyond_bad_calls(self, thread: Thread, walk: Walk) -> Walk:
        """Go on behind a call to an address without code: the return address is still there."""
        states = {
            frame.pc: (frame.sp, frame.registers) for frame in self._notes.signal_frames(thread)
        }
        walk = self._with_interrupted(thread, walk)
        states.setdefault(thread.pc, (thread.sp, thread.registers))
        last = walk.frames[-1]
        if walk.end is not WalkEnd.NO_TABLE or last.pc not in self._bad_calls & states.keys():
            return walk
        sp, registers = states[last.pc]
        back = return_address(self._notes, sp, registers)
        if back is None:
            return walk
        machine = MACHINES[self._notes.process.architecture]
        pushed = 0 if machine.architecture.link_register else machine.architecture.word_size
        after = {**registers, machine.sp: sp + pushed}
        start = WalkStart(
            pc=back,
            registers=dwarf_registers(self._notes.process.architecture, after),
            innermost=_CRASHING_FRAMES,
        )
        (rest,) = self._walk([start])
        frames = [
            replace(frame, level=last.level + 1 + frame.level, is_call=frame.is_call or at == 0)
            for at, frame in enumerate(rest.frames)
        ]
        return Walk(frames=(*walk.frames, *frames), depth=walk.depth + rest.depth, end=rest.end)

    def _with_interrupted(self, thread: Thread, walk: Walk) -> Walk:
        """Add what a signal interrupted at address 0, which libdwfl takes for the stack's end."""
        last = walk.frames[-1]
        for frame in self._notes.signal_frames(thread) if walk.end is WalkEnd.OUTERMOST else ():
            # The frame begins with the handler's return address, which is the trampoline's.
            trampoline = self._notes.read(frame.address, 8)
            if frame.pc in self._bad_calls and trampoline == Known(
                value=last.pc.to_bytes(8, "little")
            ):
                interrupted = WalkedFrame(
                    level=last.level + 1, pc=frame.pc, is_call=False, function=None
                )
                return Walk(
                    frames=(*walk.frames, interrupted), depth=walk.depth + 1, end=WalkEnd.NO_TABLE
                )
        return walk

    # Naming.

    def _lines_of(self, places: Iterable[Place]) -> dict[Place, tuple[WalkedLine, ...]]:
        """Lines of all places; what was asked before, of this core or another, is remembered."""
        found: dict[Place, tuple[WalkedLine, ...]] = {}
        missing: dict[Place, tuple[str, int, bool]] = {}
        for place in dict.fromkeys(places):
            key = self._key(place)
            known = () if key is None else _LINES.get(key)
            if known is None and key is not None:
                missing[place] = key
            else:
                found[place] = known or ()
        if missing:
            files = tuple(self._files.values())
            answers = self._unwinder.lines(self._core, files, tuple(missing))
            for (place, key), lines in zip(missing.items(), answers, strict=True):
                _LINES.put(key, lines)
                found[place] = lines
        return found

    def _key(self, place: Place) -> tuple[str, int, bool] | None:
        """The place in its file, whatever the addresses were; None where no line can be known."""
        module = self._notes.module_at(place[0])
        if isinstance(module, Gap) or module.value.path not in self._files:
            return None
        file = self._store(module.value)
        if isinstance(file, Gap) or not file.value.has_debug_info:
            return None
        if is_runtime_module(module.value.path) and self._files[module.value.path].debug_path:
            return None  # libc's own lines tell nobody anything
        build = module.value.build_id or self._files[module.value.path].path
        return build, place[0] - module.value.bias, place[1]

    def _stack(self, tid: int, walk: Walk, lines: dict[Place, tuple[WalkedLine, ...]]) -> Stack:
        frames: list[Frame] = []
        trampolines = trampolines_of(walk.frames)
        for at, found in enumerate(walk.frames):
            if at in trampolines:
                frames.append(self._frame(len(frames), found, None, FrameKind.SIGNAL))
                continue
            known = lines.get((found.pc, found.is_call), ())
            for line in known[:-1]:
                frames.append(self._frame(len(frames), found, line, FrameKind.INLINED))
            last = known[-1] if known else None
            frames.append(self._frame(len(frames), found, last, FrameKind.NATIVE))
        return Stack(tid=tid, frames=tuple(frames), truncated=walk.depth > len(walk.frames))

    def _frame(
        self, index: int, found: WalkedFrame, line: WalkedLine | None, kind: FrameKind
    ) -> Frame:
        answer = self._notes.module_at(found.pc)
        module = answer.value if isinstance(answer, Known) else None
        name = found.function
        if kind is FrameKind.SIGNAL:
            name = SIGNAL_FRAME
        elif line is not None and (name is None or kind is FrameKind.INLINED):
            name = line.function
        return Frame(
            index=index,
            pc=found.pc,
            function=_plain(name) if name is not None else None,
            tier=Tier.LIBDW,
            kind=kind,
            file=posixpath.normpath(line.file) if line is not None and line.file else None,
            line=line.line if line is not None else None,
            module=module.path if module else None,
            module_offset=found.pc - module.bias if module else None,
            names_trusted=module is None or self._is_trusted(module),
        )

    def _is_trusted(self, module: Module) -> bool:
        return module.path in self._files or isinstance(self._store(module), Known)


def trampolines_of(frames: tuple[WalkedFrame, ...]) -> frozenset[int]:
    """Which frames are the kernel's, between a handler and what the signal interrupted.

    What was interrupted stands at its own pc, behind no call. So does a trampoline that a table
    marks as one (the C library's and the vDSO's); one without a table looks like a call.
    """
    found: set[int] = set()
    for at, frame in enumerate(frames):
        if at - 1 in found or not _is_interrupted(frames, at + 1):
            continue
        if (at and not frame.is_call) or not _is_interrupted(frames, at + 2):
            found.add(at)
    return frozenset(found)


def _is_interrupted(frames: tuple[WalkedFrame, ...], at: int) -> bool:
    """Does the frame stand at its own pc, right behind the one before?"""
    if at >= len(frames):
        return False
    return not frames[at].is_call and frames[at].level == frames[at - 1].level + 1


@lru_cache(maxsize=65_536)
def _plain(name: str) -> str:
    return plain_name(_SYMBOL_VERSION.sub("", name))
