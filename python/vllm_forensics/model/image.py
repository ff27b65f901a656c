"""The one question-and-answer surface between evidence and diagnosis."""

from __future__ import annotations

from typing import Protocol

from vllm_forensics.model.answer import Answer
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


class Image(Protocol):
    """A process that can be asked: a core, a minicore, a live process.

    Diagnosis asks as it reasons, so nothing is read that no rule needs. Every method answers with a
    `Known` value and its tier, or with a `Gap` that says why not; none raises on damaged evidence.
    The same image always gives the same answers.
    """

    @property
    def process(self) -> Process:
        """Who it is."""

    @property
    def signal(self) -> Answer[Signal]:
        """The signal that ended the process, as delivered; a handler may have sent it."""

    @property
    def threads(self) -> tuple[Thread, ...]:
        """All threads that the image holds, the one that took the signal first."""

    @property
    def modules(self) -> tuple[Module, ...]:
        """The ELF files that were mapped, by address."""

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """The address space as far as the image describes it, by address."""

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """Exactly `size` bytes at `address`."""

    def unwind(self, thread: Thread) -> Answer[Stack]:
        """The thread's calls, innermost first, bounded in number."""

    def signal_frames(self, thread: Thread) -> tuple[SignalFrame, ...]:
        """The kernel's signal frames on the thread's stack, the most recent first."""

    def stack_words(self, thread: Thread) -> Answer[StackWords]:
        """The thread's stack memory from its stack pointer on, bounded."""

    def find_text(self, needle: bytes) -> Answer[bytes]:
        """The surroundings of the first occurrence of `needle` in writable memory; bounded."""

    def demangle(self, name: str) -> Answer[str]:
        """A C++ symbol or type_info name as people write it."""

    def module_at(self, address: Address) -> Answer[Module]:
        """The module that covers `address`."""

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        """The mapping that covers `address`."""

    def symbol_at(self, address: Address) -> Answer[Symbol]:
        """The function that covers `address`; its name is empty where only its start is known."""

    def symbol_named(self, module: Module, name: str) -> Answer[Symbol]:
        """Where `module` defines a function or object of that name."""

    def lines(self, pc: Address) -> Answer[tuple[SourceLine, ...]]:
        """The source lines of the instruction at `pc`, the innermost inlined one first."""

    def variable(self, frame: Frame, name: str) -> Answer[Variable]:
        """A variable, or an expression in the frame's language, such as `this->blocks_`."""

    def instructions(self, pc: Address) -> Answer[tuple[Instruction, ...]]:
        """The instructions of the function around `pc`, from its start to a few beyond `pc`."""
