"""Stacks as gdb unwinds them, and the values of the variables of their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.gdb_mi import MiFrame, MiResult, parse_frames, parse_variables
from vllm_forensics.investigate.gdb_loading import GdbLoader
from vllm_forensics.investigate.lazy_gdb import LazyGdb
from vllm_forensics.model.answer import Answer, Gap, Known, Tier
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.process import Address, Thread
from vllm_forensics.model.stack import Frame, FrameKind, Stack

MAX_FRAMES: Final = 64
OTHER_THREADS_FRAMES: Final = 24
FRAMES_WITH_VARIABLES: Final = 8
_MAX_MODULES: Final = 128


class GdbStacks:
    """Asks one gdb for the calls of a core's threads, adding modules as they come to light."""

    def __init__(
        self,
        notes: CoreImage,
        gdb: LazyGdb,
        loader: GdbLoader,
        demangle: Callable[[str], Answer[str]],
    ) -> None:
        """Nothing is asked yet."""
        self._notes = notes
        self._gdb = gdb
        self._loader = loader
        self._demangle = demangle

    def unwind(self, thread: Thread) -> Answer[Stack]:
        """A thread's stack, as far as unwind tables carry it; with values if it crashed."""
        number = self._gdb.thread(thread)
        if isinstance(number, Gap):
            return number
        limit = MAX_FRAMES if thread.crashed else OTHER_THREADS_FRAMES
        raw = self._list(number, limit)
        if not raw:
            return self._gdb.gap or Gap(what="gdb sees no frame", tier=Tier.GDB)
        count = min(self._reliable(raw), limit)
        frames = tuple(self._frame(raw, level) for level in range(count))
        if thread.crashed:
            frames = self.with_variables(frames, {one.index: one.index for one in frames}, number)
        stack = Stack(tid=thread.tid, frames=frames, truncated=len(raw) > len(frames))
        return Known(value=stack, tier=Tier.GDB)

    def levels(self, wanted: Sequence[Frame], number: str) -> dict[int, int]:
        """Gdb's levels of frames that somebody else unwound, by their index, as far as it agrees.

        No more modules are read than that needs. `number` is gdb's of the thread.
        """
        last = wanted[-1]
        return _matched(wanted, self._list(number, last.index + 1, last.pc))

    def with_variables(
        self, frames: Sequence[Frame], levels: Mapping[int, int], number: str
    ) -> tuple[Frame, ...]:
        """Add arguments and locals to the innermost own calls; a runtime's tell nobody anything.

        Frames whose index has no level in gdb stay as they are.
        """
        left = FRAMES_WITH_VARIABLES
        filled = []
        for frame in frames:
            level = levels.get(frame.index)
            if left and level is not None and frame.line is not None and is_own(frame):
                left -= 1
                self._gdb.do(self._loader.prepare_printers)
                where = f"--thread {number} --frame {level}"
                result = self._gdb.command(f"-stack-list-variables {where} --all-values")
                if isinstance(result, MiResult) and result.ok:
                    frame = replace(frame, variables=parse_variables(result))
            filled.append(frame)
        return tuple(filled)

    def _list(self, number: str, limit: int, last: Address | None = None) -> tuple[MiFrame, ...]:
        """One more frame than `limit`, if there is one; asked again after each module added.

        Modules of frames beyond the one at `last` are not added.
        """
        raw: tuple[MiFrame, ...] = ()
        for _ in range(_MAX_MODULES):
            # An error in the middle (a truncated core) loses the whole list: then only the first.
            raw = self._list_to(number, limit) or self._list_to(number, 0)
            pcs = [frame.pc for frame in raw]
            inner = raw[: pcs.index(last) + 1] if last in pcs else raw
            if not self._gdb.do(partial(self._loader.add_module_of, inner)):
                break
        return raw

    def _list_to(self, number: str, level: int) -> tuple[MiFrame, ...]:
        result = self._gdb.command(f"-stack-list-frames --thread {number} 0 {level}")
        return () if isinstance(result, Gap) else parse_frames(result)

    def _reliable(self, raw: tuple[MiFrame, ...]) -> int:
        """How many frames were unwound by tables: up to the first whose module gdb does not have.

        Beyond it gdb guesses. An address without any code is passed over only where it was called:
        the unwinder for bad calls knows its caller.
        """
        for level, found in enumerate(raw):
            module = self._notes.module_at(found.pc)
            known = isinstance(module, Known) and module.value.path in self._loader.loaded
            bad_call = found.pc in self._loader.bad_calls
            if not (known or bad_call or found.is_signal):
                return level + 1
        return len(raw)

    def _frame(self, stack: tuple[MiFrame, ...], level: int) -> Frame:
        found = stack[level]
        kind = FrameKind.NATIVE
        following = stack[level + 1] if level + 1 < len(stack) else None
        if found.is_signal:
            kind = FrameKind.SIGNAL
        elif following and following.pc == found.pc and following.function != found.function:
            # gdb gives an inlined call the program counter of the function that it became part of.
            kind = FrameKind.INLINED
        is_caller = level > 0 and not stack[level - 1].is_signal
        module = self._notes.module_at(found.pc)
        known = module.value if isinstance(module, Known) else None
        trusted = known is None or known.path in self._loader.loaded
        return Frame(
            index=found.level,
            pc=found.pc,
            function=self._named(found, is_caller=is_caller),
            tier=Tier.GDB,
            kind=kind,
            file=found.file,
            line=found.line or None,
            module=known.path if known else None,
            module_offset=found.pc - known.bias if known else None,
            names_trusted=trusted,
        )

    def _named(self, found: MiFrame, *, is_caller: bool) -> str | None:
        """Gdb's name, or the symbol table's where gdb has none or only half of one.

        gdb is not given the runtimes' separate debug files, which name their local functions. And
        DWARF calls every lambda `operator()`; its symbol knows the function that it is in.
        """
        if found.function not in {None, "operator()"}:
            return found.function
        # A return address may already belong to the next function, after a call that never returns.
        symbol = self._notes.symbol_at(found.pc - 1 if is_caller else found.pc)
        if isinstance(symbol, Gap) or not symbol.value.name:
            return found.function
        name = self._demangle(symbol.value.name)
        return plain_name(name.value if isinstance(name, Known) else symbol.value.name)


def _matched(wanted: Sequence[Frame], raw: tuple[MiFrame, ...]) -> dict[int, int]:
    """Level in gdb of each frame, by index: the same pc, and the same function where several are.

    Both count inlined calls as frames, but need not agree on how many there are.
    """
    levels: dict[int, int] = {}
    taken: set[int] = set()
    for frame in wanted:
        same = [found for found in raw if found.pc == frame.pc and found.level not in taken]
        named = [found for found in same if found.function == frame.function]
        found = next(iter(named or (same if len(same) == 1 else ())), None)
        if found is not None:
            levels[frame.index] = found.level
            taken.add(found.level)
    return levels
