"""An `Image` of two tiers: the core's notes answer what they can, gdb answers the rest."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.gdb_mi import (
    MiFrame,
    MiResult,
    parse_frames,
    parse_line,
    parse_records,
    parse_thread_ids,
    parse_variables,
)
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Answer, Gap, Known, Tier
from vllm_forensics.model.process import (
    Address,
    Architecture,
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

MAX_FRAMES: Final = 64
OTHER_THREADS_FRAMES: Final = 24
_FRAMES_WITH_VARIABLES: Final = 8
_SCAN_WORDS: Final = 32 << 10
_SCAN_OTHER_WORDS: Final = 1 << 10
_MAX_UNWOUND_THREADS: Final = 256
_EXPRESSION: Final = re.compile(r"[A-Za-z_][\w.\->:\[\]*&() ]{0,200}")
_UNWINDER: Final = """
import gdb
from gdb.unwinder import Unwinder, register_unwinder
class Id:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc
class AfterBadCall(Unwinder):
    '''A call to an address without code: the return address is still the top word of the stack.'''
    def __init__(self):
        super().__init__('forensics-bad-call')
    def __call__(self, pending):
        pc = pending.read_register('rip')
        if int(pc) & 0xffffffffffffffff != {pc}:
            return None
        sp = pending.read_register('rsp')
        word = sp.cast(gdb.lookup_type('long').pointer()).dereference()
        info = pending.create_unwind_info(Id(sp, pc))
        info.add_saved_register('rip', word.cast(pc.type))
        info.add_saved_register('rsp', sp + 8)
        for name in ('rbp', 'rbx', 'r12', 'r13', 'r14', 'r15'):
            info.add_saved_register(name, pending.read_register(name))
        return info
register_unwinder(None, AfterBadCall(), True)
"""


class LayeredImage:
    """A core, asked through its notes first and through one gdb where names are needed.

    gdb starts at the first question that needs it and sees only the modules that appear on a stack.
    Use it as a context manager. A gdb that is missing, dies or hangs becomes a gap, once.
    """

    def __init__(
        self,
        notes: CoreImage,
        store: ModuleStore,
        core: str,
        *,
        start_gdb: Callable[[], GdbSession] | None = GdbSession,
    ) -> None:
        """`core` is the file's path; `start_gdb` None means: notes only."""
        self._notes = notes
        self._store = store
        self._core = core
        self._start_gdb = start_gdb
        self._gdb: GdbSession | None = None
        self._gap: Gap | None = None if start_gdb else Gap(what="gdb was not asked", tier=Tier.GDB)
        self._threads: dict[int, str] = {}
        self._stacks: dict[int, Answer[Stack]] = {}
        self._code_ranges = sorted(
            (mapping.start, mapping.end) for mapping in notes.mappings if mapping.executable
        )
        self.loaded: set[str] = set()

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

    @property
    def gdb_gap(self) -> Gap | None:
        """Why gdb gave nothing, if that is so."""
        return self._gap

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

    # Answered by gdb.

    def unwind(self, thread: Thread) -> Answer[Stack]:
        """See `Image.unwind`; the notes' one frame where gdb cannot help."""
        answer = self._stacks.get(thread.tid)
        if answer is None:
            answer = self._stacks[thread.tid] = self._unwind(thread)
        return answer

    def lines(self, pc: Address) -> Answer[tuple[SourceLine, ...]]:
        """See `Image.lines`; without the inlined ones."""
        result = self._console(f"info line *{pc:#x}")
        if isinstance(result, Gap):
            return result
        line = parse_line(result)
        if line is None:
            return Gap(what=f"no debug information has the line of {pc:#x}", tier=Tier.GDB)
        return Known(value=(line,), tier=Tier.GDB)

    def variable(self, frame: Frame, name: str) -> Answer[Variable]:
        """See `Image.variable`; only names and member paths are evaluated, never calls."""
        if not _EXPRESSION.fullmatch(name) or re.search(r"\w\s*\(", name):
            return Gap(what=f"{name!r} is not evaluated: it is no plain expression", tier=Tier.GDB)
        thread = self._gdb_thread(self.threads[0])
        if isinstance(thread, Gap):
            return thread
        where = f"--thread {thread} --frame {frame.index}"
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
        result = self._console(f"demangle -l gnu-v3 -- {symbol}")
        if isinstance(result, Gap) or not result.ok or not result.console.strip():
            return own
        text = result.console.strip().removeprefix("typeinfo for ")
        return own if text == symbol else Known(value=text, tier=Tier.GDB)

    # The session.

    def _unwind(self, thread: Thread) -> Answer[Stack]:
        number = self._gdb_thread(thread)
        if isinstance(number, Gap):
            fallback = self._notes.unwind(thread)
            return fallback if isinstance(fallback, Known) else number
        limit = MAX_FRAMES if thread.crashed else OTHER_THREADS_FRAMES
        result = self._command(f"-stack-list-frames --thread {number} 0 {limit}")
        if isinstance(result, Gap):
            return self._notes.unwind(thread)
        raw = parse_frames(result)
        if not raw:
            # An error in the middle loses the whole list (a truncated core): ask for the first alone.
            result = self._command(f"-stack-list-frames --thread {number} 0 0")
            raw = () if isinstance(result, Gap) else parse_frames(result)
        if not raw:
            return self._notes.unwind(thread)
        frames = [self._frame(found, raw) for found in raw[:limit]]
        if thread.crashed:
            frames = self._with_variables(frames, number)
        return Known(
            value=Stack(tid=thread.tid, frames=tuple(frames), truncated=len(raw) > limit),
            tier=Tier.GDB,
        )

    def _frame(self, found: MiFrame, stack: tuple[MiFrame, ...]) -> Frame:
        kind = FrameKind.NATIVE
        following = stack[found.level + 1] if found.level + 1 < len(stack) else None
        if found.is_signal:
            kind = FrameKind.SIGNAL
        elif following and following.pc == found.pc and following.function != found.function:
            # gdb gives an inlined call the program counter of the function that it became part of.
            kind = FrameKind.INLINED
        module = self.module_at(found.pc)
        known = module.value if isinstance(module, Known) else None
        trusted = known is None or known.path in self.loaded
        return Frame(
            index=found.level,
            pc=found.pc,
            function=found.function,
            tier=Tier.GDB,
            kind=kind,
            file=found.file,
            line=found.line or None,
            module=known.path if known else None,
            module_offset=found.pc - known.bias if known else None,
            names_trusted=trusted,
        )

    def _with_variables(self, frames: list[Frame], thread: str) -> list[Frame]:
        """Add arguments and locals to the innermost own calls; a runtime's tell a person nothing."""
        left = _FRAMES_WITH_VARIABLES
        filled = []
        for frame in frames:
            if left and frame.line is not None and is_own(frame):
                left -= 1
                where = f"--thread {thread} --frame {frame.index}"
                result = self._command(f"-stack-list-variables {where} --all-values")
                if isinstance(result, MiResult) and result.ok:
                    frame = replace(frame, variables=parse_variables(result))  # noqa: PLW2901
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
            self._load(self._gdb)
        except ToolError as error:
            self._fail(error)

    def _load(self, session: GdbSession) -> None:
        program = next((m for m in self.modules if m.path == self.process.program), None)
        wanted = self._modules_on_stacks()
        usable = [m for m in wanted if isinstance(self._store(m), Known)]
        if program is not None and isinstance(self._store(program), Known):
            link = session.link(self._store.path_of(program))
            session.command(f"-file-exec-and-symbols {link}")
            self.loaded.add(program.path)
            usable = [module for module in usable if module.path != program.path]
        opened = parse_records(session.console(f"core-file {session.link(self._core)}"))
        if not opened.ok:
            raise ToolError(
                f"gdb cannot open the core: {opened.error}", remedy="try it by hand: gdb PROGRAM CORE"
            )
        for module in usable:
            link = session.link(self._store.path_of(module))
            session.console(f"add-symbol-file {link} -o {module.bias:#x}")
            self.loaded.add(module.path)
        if any(self._has_debug_info(path) for path in self.loaded):
            session.load_printers()
        if self._is_bad_call():
            code = _UNWINDER.format(pc=self.threads[0].pc)
            session.console(f"python exec({code!r})")
        self._threads = parse_thread_ids(parse_records(session.command("-thread-info")))

    def _has_debug_info(self, path: str) -> bool:
        module = next((m for m in self.modules if m.path == path), None)
        answer = self._store(module) if module else None
        return isinstance(answer, Known) and answer.value.has_debug_info

    def _is_bad_call(self) -> bool:
        """Did the crashing thread jump to where no code is, with a return address left behind?"""
        thread = self.threads[0]
        if self._is_code(thread.pc) or self.process.architecture is not Architecture.X86_64:
            return False
        word = self.read(thread.sp, 8)
        return isinstance(word, Known) and self._is_code(int.from_bytes(word.value, "little"))

    def _modules_on_stacks(self) -> list[Module]:
        """Every module that a program counter or a word on a stack points into, as code.

        It may be more than the true calls (old return addresses remain), never fewer.
        """
        found: dict[str, Module] = {}
        for thread in self.threads[:_MAX_UNWOUND_THREADS]:
            limit = _SCAN_WORDS if thread.crashed else _SCAN_OTHER_WORDS
            words = {thread.pc}
            stack = self.stack_words(thread)
            if isinstance(stack, Known):
                words.update(stack.value.words[:limit])
                words.update(stack.value.words[-_SCAN_OTHER_WORDS:])
            for frame in self.signal_frames(thread) if thread.crashed else ():
                words.add(frame.pc)
                words.update(self._words_at(frame.sp, limit))
            for word in words:
                if self._is_code(word):
                    module = self.module_at(word)
                    if isinstance(module, Known):
                        found.setdefault(module.value.path, module.value)
        return list(found.values())

    def _words_at(self, address: Address, limit: int) -> list[int]:
        mapping = self.mapping_at(address)
        if isinstance(mapping, Gap):
            return []
        start = address & -8
        size = min(limit * 8, mapping.value.end - start) & -8
        raw = self.read(start, size)
        return memoryview(raw.value).cast("Q").tolist() if isinstance(raw, Known) else []

    def _is_code(self, address: Address) -> bool:
        at = bisect_right(self._code_ranges, (address, 1 << 64)) - 1
        return at >= 0 and address < self._code_ranges[at][1]

    def _command(self, text: str) -> MiResult | Gap:
        return self._ask(lambda session: session.command(text))

    def _console(self, text: str) -> MiResult | Gap:
        return self._ask(lambda session: session.console(text))

    def _ask(self, question: Callable[[GdbSession], list[str]]) -> MiResult | Gap:
        if self._gap is None and self._gdb is None:
            self._open()
        if self._gap is not None or self._gdb is None:
            return self._gap or Gap(what="gdb was not asked", tier=Tier.GDB)
        try:
            return parse_records(question(self._gdb))
        except ToolError as error:
            return self._fail(error)

    def _fail(self, error: ToolError) -> Gap:
        self._gap = Gap(what=error.message, remedy=error.remedy, tier=Tier.GDB)
        return self._gap

