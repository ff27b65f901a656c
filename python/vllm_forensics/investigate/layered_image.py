"""An `Image` of three tiers: the core's notes, its modules' unwind tables, and gdb."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.capture.unwinder import Unwinder
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.gdb_mi import parse_line
from vllm_forensics.investigate.gdb_budget import GdbBudget
from vllm_forensics.investigate.gdb_loading import GdbLoader
from vllm_forensics.investigate.gdb_stacks import FRAMES_WITH_VARIABLES, GdbStacks
from vllm_forensics.investigate.lazy_gdb import LazyGdb
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.walked_stacks import WalkedStacks
from vllm_forensics.model.answer import Answer, Gap, Known, Tier
from vllm_forensics.model.process import (
    Address,
    Mapping,
    Module,
    Process,
    Signal,
    SignalFrame,
    StackWords,
    Symbol,
    Thread,
)
from vllm_forensics.model.stack import Frame, Instruction, SourceLine, Stack, Variable

_EXPRESSION: Final = re.compile(r"\*?[A-Za-z_][\w.\->:\[\]*& ]{0,200}")


class LayeredImage:
    """A core, asked through its notes first, then its unwind tables, and one gdb for values.

    gdb starts at the first question that needs it and sees only the modules that stand on a stack.
    Use it as a context manager. A gdb that is missing, dies or hangs becomes a gap, once.
    """

    def __init__(
        self,
        notes: CoreImage,
        store: ModuleStore,
        core: str,
        *,
        start_gdb: Callable[[], GdbSession] | None = GdbSession,
        unwinder: Unwinder | None = None,
    ) -> None:
        """`core` is the file's path; a reader that is None is not asked."""
        self._notes = notes
        self._budget = GdbBudget(notes, store)
        self._loader = GdbLoader(notes, store, core, self._budget)
        self._walks = (
            WalkedStacks(notes, store, core, unwinder, self._loader.bad_calls) if unwinder else None
        )
        self._gdb = LazyGdb(self._loader, start_gdb)
        self._stacks = GdbStacks(notes, self._gdb, self._loader, self.demangle)
        self._unwound: dict[int, Answer[Stack]] = {}
        self._walked: tuple[Frame, ...] = ()
        self._levels: dict[int, int] = {}

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End gdb, if it was started."""
        self._gdb.close(kind, error, trace)

    def ask_for_all(self) -> None:
        """Have gdb read huge debug information too, for values that it else leaves out."""
        self._budget.is_limited = False

    @property
    def gdb_gap(self) -> Gap | None:
        """Why gdb gave nothing, or not all, if that is so and was not wanted."""
        return self._gdb.failure or self._budget.gap

    @property
    def unwinder_gap(self) -> Gap | None:
        """Why there are no walks along unwind tables, if they were wanted."""
        return self._walks.gap if self._walks is not None else None

    # Answered by the notes.

    @property
    def process(self) -> Process:
        """See `Image.process`."""
        return self._notes.process

    @property
    def signal(self) -> Answer[Signal]:
        """See `Image.signal`."""
        return self._notes.signal

    @property
    def threads(self) -> tuple[Thread, ...]:
        """See `Image.threads`."""
        return self._notes.threads

    @property
    def modules(self) -> tuple[Module, ...]:
        """See `Image.modules`."""
        return self._notes.modules

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """See `Image.mappings`."""
        return self._notes.mappings

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """See `Image.read`."""
        return self._notes.read(address, size)

    def module_at(self, address: Address) -> Answer[Module]:
        """See `Image.module_at`."""
        return self._notes.module_at(address)

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        """See `Image.mapping_at`."""
        return self._notes.mapping_at(address)

    def symbol_at(self, address: Address) -> Answer[Symbol]:
        """See `Image.symbol_at`."""
        return self._notes.symbol_at(address)

    def symbol_named(self, module: Module, name: str) -> Answer[Symbol]:
        """See `Image.symbol_named`."""
        return self._notes.symbol_named(module, name)

    def signal_frames(self, thread: Thread) -> tuple[SignalFrame, ...]:
        """See `Image.signal_frames`."""
        return self._notes.signal_frames(thread)

    def stack_words(self, thread: Thread) -> Answer[StackWords]:
        """See `Image.stack_words`."""
        return self._notes.stack_words(thread)

    def find_text(self, needle: bytes) -> Answer[bytes]:
        """See `Image.find_text`."""
        return self._notes.find_text(needle)

    def instructions(self, pc: Address) -> Answer[tuple[Instruction, ...]]:
        """See `Image.instructions`."""
        return self._notes.instructions(pc)

    # Answered by unwind tables, or by gdb.

    def unwind(self, thread: Thread) -> Answer[Stack]:
        """See `Image.unwind`; the notes' one frame where nobody else can help."""
        if thread.tid not in self._unwound:
            self._unwound[thread.tid] = self._unwind(thread)
        return self._unwound[thread.tid]

    def lines(self, pc: Address) -> Answer[tuple[SourceLine, ...]]:
        """See `Image.lines`; gdb's are without the inlined ones."""
        if self._walks is not None and isinstance(walked := self._walks.lines(pc), Known):
            found = tuple(
                SourceLine(file=line.file, line=line.line, function=line.function)
                for line in walked.value
                if line.file is not None and line.line is not None
            )
            return Known(value=found, tier=walked.tier)
        result = self._gdb.console(f"info line *{pc:#x}")
        if isinstance(result, Gap):
            return result
        line = parse_line(result)
        if line is None:
            return Gap(what=f"no debug information has the line of {pc:#x}", tier=Tier.GDB)
        return Known(value=(line,), tier=Tier.GDB)

    def variable(self, frame: Frame, name: str) -> Answer[Variable]:
        """See `Image.variable`; only names and member paths are evaluated, never calls."""
        if not _EXPRESSION.fullmatch(name):
            return Gap(what=f"{name!r} is not evaluated: it is no plain expression", tier=Tier.GDB)
        if not self._budget.allows(frame):
            return Gap(what=f"gdb is not asked for {name}: that takes long", tier=Tier.GDB)
        number = self._gdb.thread(self.threads[0])
        if isinstance(number, Gap):
            return number
        if self._walked and frame.index not in self._levels:
            self._levels |= self._stacks.levels([frame], number)
        where = f"--thread {number} --frame {self._levels.get(frame.index, frame.index)}"
        result = self._gdb.command(f'-data-evaluate-expression {where} "{name}"')
        if isinstance(result, Gap):
            return result
        if not result.ok:
            return Gap(what=f"{name}: {result.error}", tier=Tier.GDB)
        value = str(result.payload.get("value", ""))
        return Known(value=Variable(name=name, value=value), tier=Tier.GDB)

    def demangle(self, name: str) -> Answer[str]:
        """See `Image.demangle`; a type_info name is asked for as the type_info that it names."""
        own = self._notes.demangle(name)
        if isinstance(own, Known) or not re.fullmatch(r"[\w.$]{1,4096}", name):
            return own
        symbol = name if name.startswith("_Z") else f"_ZTI{name}"
        result = self._gdb.console(f"demangle -l c++ -- {symbol}")
        if isinstance(result, Gap) or not result.ok or not result.console.strip():
            return own
        text = result.console.strip().removeprefix("typeinfo for ")
        return own if text == symbol else Known(value=text, tier=Tier.GDB)

    def _unwind(self, thread: Thread) -> Answer[Stack]:
        """Walk by the best unwinder that answers; the notes have one frame at least."""
        walked = self._walks.stack(thread) if self._walks is not None else None
        if isinstance(walked, Known):
            return self._with_values(thread, walked)
        answer = self._stacks.unwind(thread)
        if isinstance(answer, Known):
            return answer
        own = self._notes.unwind(thread)
        return own if isinstance(own, Known) else answer

    def _with_values(self, thread: Thread, walked: Known[Stack]) -> Known[Stack]:
        """Add the variables of the innermost own calls of the crashing thread, as gdb has them."""
        if not thread.crashed:
            return walked
        self._walked = frames = walked.value.frames
        wanted = [frame for frame in frames if frame.line is not None and is_own(frame)]
        wanted = wanted[:FRAMES_WITH_VARIABLES]
        if self._gdb.gap is None:
            wanted = self._budget.affordable(wanted)
        if not wanted:
            return walked
        self._loader.needs(frame.module for frame in frames[: wanted[-1].index + 1])
        number = self._gdb.thread(thread)
        if isinstance(number, Gap):
            return walked
        self._levels |= self._stacks.levels(wanted, number)
        filled = self._stacks.with_variables(frames, self._levels, number)
        return Known(value=replace(walked.value, frames=filled), tier=walked.tier)
