"""Prepares a gdb for one core: symbols of what stands on its stacks, printers, an unwinder."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.gdb_mi import parse_records, parse_thread_ids
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.process import Address, Architecture, Module

_SCAN_WORDS: Final = 32 << 10
_SCAN_OTHER_WORDS: Final = 1 << 10
_MAX_UNWOUND_THREADS: Final = 256
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


class GdbLoader:
    """Hands a gdb the core and only those modules that a stack leads into."""

    def __init__(self, notes: CoreImage, store: ModuleStore, core: str) -> None:
        """`core` is the file's path."""
        self._notes = notes
        self._store = store
        self._core = core
        self._code_ranges = sorted(
            (mapping.start, mapping.end) for mapping in notes.mappings if mapping.executable
        )
        self.loaded: set[str] = set()
        """Paths of the modules whose symbols gdb was given so far."""

    def load(self, session: GdbSession) -> dict[int, str]:
        """Prepare `session`; returns gdb's number of each thread, by tid.

        Raises:
            ToolError: gdb cannot open the core, or died.

        """
        path = self._notes.process.program
        program = next((m for m in self._notes.modules if m.path == path), None)
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
                f"gdb cannot open the core: {opened.error}",
                remedy="try it by hand: gdb PROGRAM CORE",
            )
        for module in usable:
            link = session.link(self._store.path_of(module))
            session.console(f"add-symbol-file {link} -o {module.bias:#x}")
            self.loaded.add(module.path)
        if any(self._has_debug_info(path) for path in self.loaded):
            session.load_printers()
        if self._is_bad_call():
            code = _UNWINDER.format(pc=self._notes.threads[0].pc)
            session.console(f"python exec({code!r})")
        return parse_thread_ids(parse_records(session.command("-thread-info")))

    def _has_debug_info(self, path: str) -> bool:
        module = next((m for m in self._notes.modules if m.path == path), None)
        answer = self._store(module) if module else None
        return isinstance(answer, Known) and answer.value.has_debug_info

    def _is_bad_call(self) -> bool:
        """Did the crashing thread jump to where no code is, with a return address left behind?"""
        thread = self._notes.threads[0]
        if self._is_code(thread.pc) or self._notes.process.architecture is not Architecture.X86_64:
            return False
        word = self._notes.read(thread.sp, 8)
        return isinstance(word, Known) and self._is_code(int.from_bytes(word.value, "little"))

    def _modules_on_stacks(self) -> list[Module]:
        """Every module that a program counter or a word on a stack points into, as code.

        It may be more than the true calls (old return addresses remain), never fewer.
        """
        found: dict[str, Module] = {}
        for thread in self._notes.threads[:_MAX_UNWOUND_THREADS]:
            limit = _SCAN_WORDS if thread.crashed else _SCAN_OTHER_WORDS
            words = {thread.pc}
            stack = self._notes.stack_words(thread)
            if isinstance(stack, Known):
                words.update(stack.value.words[:limit])
                words.update(stack.value.words[-_SCAN_OTHER_WORDS:])
            for frame in self._notes.signal_frames(thread) if thread.crashed else ():
                words.add(frame.pc)
                words.update(self._words_at(frame.sp, limit))
            for word in words:
                if self._is_code(word):
                    module = self._notes.module_at(word)
                    if isinstance(module, Known):
                        found.setdefault(module.value.path, module.value)
        return list(found.values())

    def _words_at(self, address: Address, limit: int) -> list[int]:
        mapping = self._notes.mapping_at(address)
        if isinstance(mapping, Gap):
            return []
        start = address & -8
        size = min(limit * 8, mapping.value.end - start) & -8
        raw = self._notes.read(start, size)
        return memoryview(raw.value).cast("Q").tolist() if isinstance(raw, Known) else []

    def _is_code(self, address: Address) -> bool:
        at = bisect_right(self._code_ranges, (address, 1 << 64)) - 1
        return at >= 0 and address < self._code_ranges[at][1]
