"""An `Image` of a crash of which only the journal's record is left: a stack, and no memory."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from vllm_forensics.evidence.demangle import demangle
from vllm_forensics.model.answer import Answer, Gap, Known, Tier
from vllm_forensics.model.journal import JournalCrash, JournalFrame, JournalThread
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
from vllm_forensics.model.stack import Frame, Instruction, SourceLine, Stack, Variable

_NULL_PAGE: Final = 1 << 16
_GONE: Final = Gap(what="the core is not here: its memory is not known", tier=Tier.JOURNAL)


class JournalImage:
    """See `Image`: whatever needs memory, registers or debug information is a gap."""

    def __init__(self, record: JournalCrash) -> None:
        """`record` is what systemd-coredump wrote."""
        self._record = record
        self.process = Process(
            pid=record.pid,
            # Nothing is decoded and nothing read, so no rule ever asks what it is.
            architecture=record.architecture or Architecture.X86_64,
            program=record.fact("executable"),
            command=record.fact("command") or "",
        )
        number = record.signal or 0
        self.signal: Answer[Signal] = Known(
            value=Signal(number=number, code=0, is_recorded=False), tier=Tier.JOURNAL
        )
        self.mappings = record.mappings
        self._has_calls = bool(record.threads and record.threads[0].frames)
        stacks = record.threads or (JournalThread(tid=record.pid, frames=()),)
        self.threads = tuple(_thread(stack, crashed=at == 0) for at, stack in enumerate(stacks))

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """Mapped files, where the record has the mappings."""
        builds = dict(self._record.builds)
        found: dict[str, Module] = {}
        for mapping in self.mappings:
            path = mapping.path
            if path is None or not path.startswith("/"):
                continue
            known = found.get(path)
            start = known.start if known else mapping.start - mapping.file_offset
            found[path] = Module(
                path=path,
                start=start,
                end=mapping.end,
                bias=start,
                build_id=builds.get(path) or builds.get(path.rsplit("/", 1)[-1]),
                deleted=mapping.deleted,
            )
        return tuple(found.values())

    def unwind(self, thread: Thread) -> Answer[Stack]:
        """The calls of the record."""
        for stack in self._record.threads:
            if stack.tid == thread.tid and stack.frames:
                frames = (self._frame(at, frame) for at, frame in enumerate(stack.frames))
                return Known(value=Stack(tid=thread.tid, frames=tuple(frames)), tier=Tier.JOURNAL)
        return Gap(what="the journal has no stack of it", tier=Tier.JOURNAL)

    def module_at(self, address: Address) -> Answer[Module]:
        """By the mappings of the record."""
        for module in self.modules:
            if module.start <= address < module.end:
                return Known(value=module, tier=Tier.JOURNAL)
        return _GONE

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        """By the mappings of the record; without these, any place that may have been mapped was.

        A rule takes an unmapped program counter for a wild jump, which nobody proved.
        """
        for mapping in self.mappings:
            if mapping.start <= address < mapping.end:
                return Known(value=mapping, tier=Tier.JOURNAL)
        if self._has_calls and (self.mappings or address < _NULL_PAGE):
            return Gap(what="nothing is mapped there", tier=Tier.JOURNAL)
        return Known(
            value=Mapping(
                start=address, end=address + 1, readable=True, writable=False, executable=True
            ),
            tier=Tier.JOURNAL,
        )

    def demangle(self, name: str) -> Answer[str]:
        """Without a debugger."""
        plain = demangle(name)
        return Known(value=plain) if plain is not None else Gap(what=f"{name} is not understood")

    def signal_frames(self, thread: Thread) -> tuple[SignalFrame, ...]:
        """None: they lie in memory."""
        return ()

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """A gap."""
        return _GONE

    def stack_words(self, thread: Thread) -> Answer[StackWords]:
        """A gap."""
        return _GONE

    def find_text(self, needle: bytes) -> Answer[bytes]:
        """A gap."""
        return _GONE

    def symbol_at(self, address: Address) -> Answer[Symbol]:
        """A gap."""
        return _GONE

    def symbol_named(self, module: Module, name: str) -> Answer[Symbol]:
        """A gap."""
        return _GONE

    def lines(self, pc: Address) -> Answer[tuple[SourceLine, ...]]:
        """A gap."""
        return _GONE

    def variable(self, frame: Frame, name: str) -> Answer[Variable]:
        """A gap."""
        return _GONE

    def instructions(self, pc: Address) -> Answer[tuple[Instruction, ...]]:
        """A gap."""
        return _GONE

    def _frame(self, index: int, frame: JournalFrame) -> Frame:
        module = self.module_at(frame.pc)
        name = frame.function
        return Frame(
            index=index,
            pc=frame.pc,
            function=(demangle(name) or name) if name is not None else None,
            tier=Tier.JOURNAL,
            module=module.value.path if isinstance(module, Known) else frame.module,
            module_offset=frame.offset,
        )


def _thread(stack: JournalThread, *, crashed: bool) -> Thread:
    pc = stack.frames[0].pc if stack.frames else 0
    return Thread(tid=stack.tid, crashed=crashed, registers={}, pc=pc, sp=0)
