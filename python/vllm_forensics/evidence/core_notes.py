"""The notes of a core dump (core(5)): threads with their registers, the signal, mapped files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vllm_forensics.evidence.elf import Bytes, Note, text_at
from vllm_forensics.evidence.signal_frame import parse_siginfo
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Address, Architecture, Process, Signal, Thread

NT_PRSTATUS: Final = 1
NT_PRPSINFO: Final = 3
NT_AUXV: Final = 6
NT_FILE: Final = 0x46494C45
NT_SIGINFO: Final = 0x53494749
AT_PAGESZ: Final = 6

_MAX_FILES: Final = 1 << 18
_PRSTATUS_TID = struct.Struct("<i")

# user_regs_struct, in the order of the kernel's ELF_GREGSET_T; at offset 112 of elf_prstatus.
_REGISTERS: Final = {
    Architecture.X86_64: (
        "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx",
        "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base",
        "ds", "es", "fs", "gs",
    ),
    Architecture.AARCH64: (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate"),
}  # fmt: skip
_PC_SP: Final = {Architecture.X86_64: ("rip", "rsp"), Architecture.AARCH64: ("pc", "sp")}


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFile:
    """One entry of NT_FILE; `offset` is in bytes, not in pages."""

    start: Address
    end: Address
    offset: int
    path: str


class Notes:
    """The notes of a core, gathered one by one.

    The crashing thread is the first of `threads`; `files` is empty where NT_FILE is missing.
    """

    def __init__(self, architecture: Architecture) -> None:
        """`architecture` decides which registers a thread's note holds."""
        self._architecture = architecture
        self._auxv: dict[int, int] = {}
        self._psinfo: tuple[int, str, str] | None = None
        self.signal: Answer[Signal] = Gap(what="the core holds no signal information")
        self.threads: tuple[Thread, ...] = ()
        self.files: tuple[MappedFile, ...] = ()

    @property
    def process(self) -> Process:
        """Who crashed, without the executable's path."""
        first = self.threads[0].tid
        pid, _, command = self._psinfo or (first, "", "")
        return Process(
            pid=pid,
            architecture=self._architecture,
            program=None,
            command=command,
            page_size=self._auxv.get(AT_PAGESZ, 4096),
            auxv=dict(self._auxv),
        )

    def add_all(self, notes: Iterator[Note]) -> None:
        """Take in one note segment; a note that is too short is passed over."""
        readers = {
            NT_PRSTATUS: self._add_thread,
            NT_PRPSINFO: self._add_psinfo,
            NT_SIGINFO: self._add_signal,
            NT_AUXV: self._add_auxv,
            NT_FILE: self._add_files,
        }
        for note in notes:
            reader = readers.get(note.type)
            if reader is not None and note.owner == b"CORE":
                try:
                    reader(note.data)
                except struct.error:
                    continue

    def _add_thread(self, data: Bytes) -> None:
        names = _REGISTERS[self._architecture]
        values = struct.unpack_from(f"<{len(names)}Q", data, 112)
        registers = dict(zip(names, values, strict=True))
        pc, sp = _PC_SP[self._architecture]
        first = not self.threads
        (tid,) = _PRSTATUS_TID.unpack_from(data, 32)
        self.threads += (
            Thread(
                tid=tid,
                crashed=first,
                registers=registers,
                pc=registers[pc],
                sp=registers[sp],
                name=self._psinfo[1] if self._psinfo and tid == self._psinfo[0] else None,
            ),
        )
        (cursig,) = struct.unpack_from("<h", data, 12)
        if first and cursig and isinstance(self.signal, Gap):
            self.signal = Known(value=Signal(number=cursig, code=0))

    def _add_psinfo(self, data: Bytes) -> None:
        (pid,) = struct.unpack_from("<i", data, 24)
        self._psinfo = (pid, text_at(data, 40, 16), text_at(data, 56, 80).rstrip())

    def _add_signal(self, data: Bytes) -> None:
        if isinstance(self.signal, Known) and self.signal.value.code:
            return
        self.signal = Known(value=parse_siginfo(data))

    def _add_auxv(self, data: Bytes) -> None:
        usable = data[: len(data) // 16 * 16]
        self._auxv = dict(struct.iter_unpack("<QQ", usable))

    def _add_files(self, data: Bytes) -> None:
        count, page_size = struct.unpack_from("<QQ", data)
        count = min(count, _MAX_FILES, max(0, (len(data) - 16) // 24))
        table = data[16 : 16 + 24 * count]
        paths = bytes(data[16 + 24 * count :]).split(b"\0")
        self.files = tuple(
            MappedFile(
                start=start,
                end=end,
                offset=offset * page_size,
                path=path.decode("utf-8", "surrogateescape"),
            )
            for (start, end, offset), path in zip(
                struct.iter_unpack("<QQQ", table), paths, strict=False
            )
            if start < end
        )
