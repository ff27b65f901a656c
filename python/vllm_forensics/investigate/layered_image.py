"""An `Image` of three tiers: the core's notes, its modules' unwind tables, and gdb."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.capture.unwinder import Unwinder
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.gdb_mi import (
    MiFrame,
    MiResult,
    parse_frames,
    parse_line,
    parse_records,
    parse_variables,
)
from vllm_forensics.investigate.gdb_budget import GdbBudget
from vllm_forensics.investigate.gdb_loading import GdbLoader
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.walked_stacks import WalkedStacks
from vllm_forensics.model.answer import Answer, Gap, Known, Tier
from vllm_forensics.model.function_name import plain_name
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
from vllm_forensics.model.stack import Frame, FrameKind, Instruction, SourceLine, Stack, Variable

T = TypeVar("T")

MAX_FRAMES: Final = 64
_MAX_MODULES: Final = 128
OTHER_THREADS_FRAMES: Final = 24
_FRAMES_WITH_VARIABLES: Final = 8
_NOT_ASKED: Final = Gap(what="gdb was not asked", tier=Tier.GDB)
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
        self._levels: dict[int, int] = {}
        self._walked: tuple[Frame, ...] = ()
        self._start_gdb = start_gdb
        self._gdb: GdbSession | None = None
        self._gap: Gap | None = None if start_gdb else _NOT_ASKED
        self._threads: dict[int, str] = {}
        self._stacks: dict[int, Answer[Stack]] = {}

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
        if self._gdb is not None:
            self._gdb.__exit__(kind, error, trace)

    def ask_for_all(self) -> None:
        """Have gdb read huge debug information too, for values that it else leaves out."""
        self._budget.is_limited = False

    @property
    def gdb_gap(self) -> Gap | None:
        """Why gdb gave nothing, or not all, if that is so and was not wanted."""
        return self._budget.gap if self._gap in {None, _NOT_ASKED} else self._gap

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
        answer = self._stacks.get(thread.tid)
        if answer is None:
            walked = self._walks.stack(thread) if self._walks is not None else self._gap
            if isinstance(walked, Known):
                answer = self._with_values(thread, walked)
            else:
                answer = self._unwind(thread)
            self._stacks[thread.tid] = answer
        return answer

    def lines(self, pc: Address) -> Answer[tuple[SourceLine, ...]]:
        """See `Image.lines`; gdb's are without the inlined ones."""
        if self._walks is not None and isinstance(walked := self._walks.lines(pc), Known):
            found = tuple(
                SourceLine(file=line.file, line=line.line, function=line.function)
                for line in walked.value
                if line.file is not None and line.line is not None
            )
            return Known(value=found, tier=walked.tier)
        result = self._console(f"info line *{pc:#x}")
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
        thread = self._gdb_thread(self.threads[0])
        if isinstance(thread, Gap):
            return thread
        if self._walked and frame.index not in self._levels:
            self._match([frame], thread)
        where = f"--thread {thread} --frame {self._levels.get(frame.index, frame.index)}"
        result = self._command(f'-data-evaluate-expression {where} "{name}"')
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
        result = self._console(f"demangle -l c++ -- {symbol}")
        if isinstance(result, Gap) or not result.ok or not result.console.strip():
            return own
        text = result.console.strip().removeprefix("typeinfo for ")
        return own if text == symbol else Known(value=text, tier=Tier.GDB)

    # The session.

    def _with_values(self, thread: Thread, walked: Known[Stack]) -> Known[Stack]:
        """Add the variables of the innermost own calls of the crashing thread, as gdb has them."""
        frames = walked.value.frames
        wanted = [frame for frame in frames if frame.line is not None and is_own(frame)]
        wanted = wanted[:_FRAMES_WITH_VARIABLES]
        if thread.crashed:
            self._walked = frames
        if thread.crashed and self._gap is None:
            wanted = self._budget.affordable(wanted)
        if not thread.crashed or not wanted:
            return walked
        self._loader.needs(frame.module for frame in frames[: wanted[-1].index + 1])
        number = self._gdb_thread(thread)
        if isinstance(number, Gap):
            return walked
        self._match(wanted, number)
        filled = self._with_variables(list(frames), number)
        return Known(value=replace(walked.value, frames=tuple(filled)), tier=walked.tier)

    def _match(self, wanted: list[Frame], thread: str) -> None:
        """Find gdb's levels of some of a thread's frames, with no more modules than that needs."""
        last = wanted[-1]
        raw = self._list_frames(thread, last.index + 1, last.pc)
        self._levels |= _matched(wanted, raw)

    def _unwind(self, thread: Thread) -> Answer[Stack]:
        number = self._gdb_thread(thread)
        if isinstance(number, Gap):
            fallback = self._notes.unwind(thread)
            return fallback if isinstance(fallback, Known) else number
        limit = MAX_FRAMES if thread.crashed else OTHER_THREADS_FRAMES
        raw = self._list_frames(number, limit)
        if not raw:
            return self._notes.unwind(thread)
        reliable = self._reliable(raw)
        frames = [self._frame(raw, level) for level in range(min(reliable, limit))]
        if thread.crashed:
            frames = self._with_variables(frames, number)
        return Known(
            value=Stack(tid=thread.tid, frames=tuple(frames), truncated=len(raw) > len(frames)),
            tier=Tier.GDB,
        )

    def _reliable(self, raw: tuple[MiFrame, ...]) -> int:
        """How many frames were unwound by tables: up to the first whose module gdb does not have.

        Beyond it gdb guesses. An address without any code is passed over only where it was called:
        the unwinder for bad calls knows its caller.
        """
        for level, found in enumerate(raw):
            module = self.module_at(found.pc)
            known = isinstance(module, Known) and module.value.path in self._loader.loaded
            bad_call = found.pc in self._loader.bad_calls
            if not (known or bad_call or found.is_signal):
                return level + 1
        return len(raw)

    def _list_frames(
        self, number: str, limit: int, last: Address | None = None
    ) -> tuple[MiFrame, ...]:
        """One more frame than `limit`, if there is one; asked again after each module added.

        Modules of frames beyond the one at `last` are not added.
        """
        raw: tuple[MiFrame, ...] = ()
        for _ in range(_MAX_MODULES):
            result = self._command(f"-stack-list-frames --thread {number} 0 {limit}")
            raw = () if isinstance(result, Gap) else parse_frames(result)
            if not raw:
                # An error in the middle (a truncated core) loses the whole list: ask for the first.
                result = self._command(f"-stack-list-frames --thread {number} 0 0")
                raw = () if isinstance(result, Gap) else parse_frames(result)
            pcs = [frame.pc for frame in raw]
            inner = raw[: pcs.index(last) + 1] if last in pcs else raw
            if not self._with_session(partial(self._loader.add_module_of, inner)):
                break
        return raw

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
        module = self.module_at(found.pc)
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
        symbol = self.symbol_at(found.pc - 1 if is_caller else found.pc)
        if isinstance(symbol, Gap) or not symbol.value.name:
            return found.function
        name = self.demangle(symbol.value.name)
        return plain_name(name.value if isinstance(name, Known) else symbol.value.name)

    def _with_variables(self, frames: list[Frame], thread: str) -> list[Frame]:
        """Add arguments and locals to the innermost own calls; a runtime's tell nobody anything."""
        left = _FRAMES_WITH_VARIABLES
        filled = []
        for frame in frames:
            level = self._levels.get(frame.index, None if self._walks else frame.index)
            if left and level is not None and frame.line is not None and is_own(frame):
                left -= 1
                self._with_session(self._loader.prepare_printers)
                where = f"--thread {thread} --frame {level}"
                result = self._command(f"-stack-list-variables {where} --all-values")
                if isinstance(result, MiResult) and result.ok:
                    frame = replace(frame, variables=parse_variables(result))
            filled.append(frame)
        return filled

    def _gdb_thread(self, thread: Thread) -> str | Gap:
        if self._gap is None and self._gdb is None:
            self._open()
        if self._gap is not None:
            return self._gap
        number = self._threads.get(thread.tid)
        return number or Gap(what=f"gdb does not list thread {thread.tid}", tier=Tier.GDB)

    def _open(self) -> None:
        """Start gdb on the core, with the symbols of the modules that stand on a stack."""
        if self._start_gdb is None:
            return
        session = self._start_gdb()
        try:
            self._gdb = session.__enter__()
            self._threads = self._loader.load(self._gdb)
        except ToolError as error:
            self._fail(error)

    def _command(self, text: str) -> MiResult | Gap:
        return self._ask(lambda session: session.command(text))

    def _console(self, text: str) -> MiResult | Gap:
        return self._ask(lambda session: session.console(text))

    def _ask(self, question: Callable[[GdbSession], list[str]]) -> MiResult | Gap:
        if self._gap is None and self._gdb is None:
            self._open()
        lines = self._with_session(question)
        if lines is None:
            return self._gap or Gap(what="gdb was not asked", tier=Tier.GDB)
        return parse_records(lines)

    def _with_session(self, action: Callable[[GdbSession], T]) -> T | None:
        """Do something with gdb; None, and a gap from then on, where it fails or is not there."""
        if self._gap is not None or self._gdb is None:
            return None
        try:
            return action(self._gdb)
        except ToolError as error:
            self._fail(error)
            return None

    def _fail(self, error: ToolError) -> None:
        self._gap = Gap(what=error.message, remedy=error.remedy, tier=Tier.GDB)


def _matched(wanted: list[Frame], raw: tuple[MiFrame, ...]) -> dict[int, int]:
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
