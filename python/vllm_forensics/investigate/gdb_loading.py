"""Prepares a gdb for one core: symbols of what stands on its stacks, printers, an unwinder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Final

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.diagnosis.runtime_frames import is_runtime_module
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.gdb_mi import MiFrame, parse_records, parse_thread_ids
from vllm_forensics.investigate.gdb_budget import GdbBudget
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.process import (
    Address,
    Architecture,
    Module,
    SignalFrame,
    Thread,
)

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
        # As a signal frame has the sp that it restores: the two must not look like one frame.
        info = pending.create_unwind_info(Id(sp + 8, pc))
        info.add_saved_register('rip', word.cast(pc.type))
        info.add_saved_register('rsp', sp + 8)
        for name in ('rbp', 'rbx', 'r12', 'r13', 'r14', 'r15'):
            info.add_saved_register(name, pending.read_register(name))
        return info
register_unwinder(None, AfterBadCall(), True)
"""


def return_address(notes: CoreImage, sp: Address, registers: Mapping[str, int]) -> Address | None:
    """Where a function that was just called returns to: in the link register, or on the stack."""
    machine = notes.process.architecture
    if machine.link_register is not None:
        return registers.get(machine.link_register)
    word = notes.read(sp, machine.word_size)
    return int.from_bytes(word.value, machine.byte_order) if isinstance(word, Known) else None


class GdbLoader:
    """Hands a gdb the core, and the modules of a stack one by one as its frames come to light.

    Reading symbols is most of gdb's work. A frame's caller is found with the unwind tables of the
    frame's own module, so the first frame of a module that gdb does not have yet is still right:
    that module is added, and the list is asked for again.
    """

    def __init__(self, notes: CoreImage, store: ModuleStore, core: str, budget: GdbBudget) -> None:
        """`core` is the file's path."""
        self._notes = notes
        self._store = store
        self._core = core
        self._budget = budget
        self._printers_wanted = True
        self._needed: frozenset[str | None] | None = None
        self.loaded: set[str] = set()
        """Paths of the modules whose symbols gdb was given so far."""

    def needs(self, modules: Iterable[str | None]) -> None:
        """Name the modules of all frames that gdb will be asked about; the program may be none."""
        self._needed = frozenset(modules)

    def load(self, session: GdbSession) -> dict[int, str]:
        """Prepare `session`; returns gdb's number of each thread, by tid.

        Raises:
            ToolError: gdb cannot open the core, or died.

        """
        path = self._notes.process.program
        program = next((m for m in self._notes.modules if m.path == path), None)
        needed = self._needed is None or path in self._needed
        if needed and program is not None and isinstance(self._store(program), Known):
            self._offer_debug_file(session, program)
            with self._index(session, program):
                link = session.link(self._store.path_of(program))
                session.command(f"-file-exec-and-symbols {link}")
            self.loaded.add(program.path)
        opened = parse_records(session.console(f"core-file {session.link(self._core)}"))
        if not opened.ok:
            raise ToolError(
                f"gdb cannot open the core: {opened.error}",
                remedy="try it by hand: gdb PROGRAM CORE",
            )
        is_x86_64 = self._notes.process.architecture is Architecture.X86_64
        for pc in self.bad_calls if is_x86_64 else ():
            session.console(f"python exec({_UNWINDER.format(pc=pc)!r})")
        return parse_thread_ids(parse_records(session.command("-thread-info")))

    def add_module_of(self, frames: tuple[MiFrame, ...], session: GdbSession) -> bool:
        """Add the first frame's module that gdb lacks; False where it has all that can be had."""
        for frame in frames:
            module = self._notes.module_at(frame.pc)
            if isinstance(module, Gap) or module.value.path in self.loaded:
                continue
            if isinstance(self._store(module.value), Gap):
                return False  # what follows was unwound by guesswork; it names no modules to load
            link = session.link(self._store.path_of(module.value))
            self._add(session, link, module.value)
            self.loaded.add(module.value.path)
            return True
        return False

    def _add(self, session: GdbSession, link: str, module: Module) -> None:
        """Add a module's symbols; a runtime's without debug information that the user did not give.

        Indexing libc's takes gdb longer than all the rest, for lines that tell a person nothing.
        Its names are read from the same file without gdb.
        """
        hidden = not self._offer_debug_file(session, module) and is_runtime_module(module.path)
        if hidden:
            session.console("set debug-file-directory /nonexistent")
        with self._index(session, module):
            session.console(f"add-symbol-file {link} -o {module.bias:#x}")
        if hidden:
            session.console(f"set debug-file-directory {session.debug_folders}")

    def _index(self, session: GdbSession, module: Module) -> AbstractContextManager[None]:
        """What the block loads is read by an index, where it is huge."""
        index = self._budget.index_of(module)
        if index is None or module.build_id is None:
            return nullcontext()
        return session.offered_index(module.build_id, index)

    def _offer_debug_file(self, session: GdbSession, module: Module) -> bool:
        """Let gdb find what the user gave for this build; False where nothing was given."""
        path = self._store.given_debug_file(module)
        if path is None or module.build_id is None:
            return False
        session.offer_debug_file(module.build_id, path)
        return True

    def prepare_printers(self, session: GdbSession) -> None:
        """Load the printers of C++ containers, once, before the first variable is printed."""
        if self._printers_wanted:
            self._printers_wanted = False
            session.load_printers()

    @cached_property
    def bad_calls(self) -> frozenset[Address]:
        """Where the crashing thread jumped to without code there, a return address left behind.

        Also before a signal handler ran, which is where the signal's frame goes on.
        """
        thread = self._notes.threads[0]
        frames = self._notes.signal_frames(thread)
        states: tuple[Thread | SignalFrame, ...] = (thread, *frames)
        return frozenset(
            state.pc for state in states if not self._is_code(state.pc) and self._points_back(state)
        )

    def _points_back(self, state: Thread | SignalFrame) -> bool:
        found = return_address(self._notes, state.sp, state.registers)
        return found is not None and self._is_code(found)

    def _is_code(self, address: Address) -> bool:
        mapping = self._notes.mapping_at(address)
        return isinstance(mapping, Known) and mapping.value.executable
