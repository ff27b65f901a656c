"""The notes of a core dump (core(5)): threads with their registers, the signal, mapped files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from vllm_forensics.evidence.elf import Bytes, Note, text_at
from vllm_forensics.evidence.machines import MACHINES
from vllm_forensics.evidence.signal_frame import parse_siginfo
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Address, Architecture, Process, Signal, Thread
from vllm_forensics.model.record import dataclass

NT_PRSTATUS: Final = 1
NT_PRPSINFO: Final = 3
NT_AUXV: Final = 6
NT_FILE: Final = 0x46494C45
NT_SIGINFO: Final = 0x53494749
AT_PAGESZ: Final = 6

_MAX_FILES: Final = 1 << 18
_MAX_PAGE: Final = 1 << 20
_ARGUMENTS_SIZE: Final = 80


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
        self._machine = MACHINES[architecture]
        self._int = struct.Struct(f"{self._machine.order}i")
        self._short = struct.Struct(f"{self._machine.order}h")
        self._auxv: dict[int, int] = {}
        self._psinfo: tuple[int, str, str] | None = None
        self.signal: Answer[Signal] = Gap(what="the core holds no signal information")
        self.threads: tuple[Thread, ...] = ()
        self.files: tuple[MappedFile, ...] = ()
        self.owners: set[bytes] = set()

    @property
    def process(self) -> Process:
        """Who crashed, without the executable's path."""
        first = self.threads[0].tid
        pid, _, command = self._psinfo or (first, "", "")
        return Process(
            pid=pid,
            architecture=self._machine.architecture,
            program=None,
            command=command,
            page_size=self._page_size,
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
            self.owners.add(bytes(note.owner))
            reader = readers.get(note.type)
            if reader is not None and note.owner == b"CORE":
                try:
                    reader(note.data)
                except struct.error:
                    continue

    @property
    def _page_size(self) -> int:
        told = self._auxv.get(AT_PAGESZ, 0)
        is_sound = told.bit_count() == 1 and told <= _MAX_PAGE
        return told if is_sound else self._machine.page_size

    def _add_thread(self, data: Bytes) -> None:
        machine = self._machine
        registers = self._registers(data)
        if machine.pc not in registers or machine.sp not in registers:
            return
        first = not self.threads
        (tid,) = self._int.unpack_from(data, machine.offsets.tid)
        self.threads += (
            Thread(
                tid=tid,
                crashed=first,
                registers=registers,
                pc=registers[machine.pc],
                sp=registers[machine.sp],
                name=self._psinfo[1] if self._psinfo and tid == self._psinfo[0] else None,
            ),
        )
        if first and isinstance(self.signal, Gap):
            # The kernel writes pr_info.si_signo and pr_cursig, qemu-user 7.2 the first alone:
            # si_signo 11, pr_cursig 0.
            (written,) = self._int.unpack_from(data)
            (current,) = self._short.unpack_from(data, 12)
            if number := current or written:
                self.signal = Known(value=Signal(number=number, code=0, is_recorded=False))

    def _registers(self, data: Bytes) -> dict[str, int]:
        """All that the note holds, before its last field, pr_fpvalid.

        gdb 13 on x86-64 writes cores of riscv64 with its own machine's elf_prstatus: 336 bytes
        with 27 of the 32 registers, from pc to s10.
        """
        machine = self._machine
        start, size = machine.offsets.registers, machine.words.size
        end = len(data) - machine.address.size
        if end >= start + size:
            values: Iterable[int] = machine.words.unpack_from(data, start)
        else:
            held = max(0, end - start) // machine.address.size * machine.address.size
            values = (value for (value,) in machine.address.iter_unpack(data[start:][:held]))
        return dict(zip(machine.registers, values, strict=False))

    def _add_psinfo(self, data: Bytes) -> None:
        at = self._machine.offsets
        (pid,) = self._int.unpack_from(data, at.pid)
        command = _command(text_at(data, at.arguments, _ARGUMENTS_SIZE))
        self._psinfo = (pid, text_at(data, at.name, 16), command)

    def _add_signal(self, data: Bytes) -> None:
        if isinstance(self.signal, Known) and self.signal.value.is_recorded:
            return
        self.signal = Known(value=parse_siginfo(data, self._machine))

    def _add_auxv(self, data: Bytes) -> None:
        pair = self._machine.pair
        self._auxv = dict(pair.iter_unpack(data[: len(data) // pair.size * pair.size]))

    def _add_files(self, data: Bytes) -> None:
        head, row = self._machine.pair, self._machine.triple
        count, page_size = head.unpack_from(data)
        count = min(count, _MAX_FILES, max(0, (len(data) - head.size) // row.size))
        table = data[head.size : head.size + row.size * count]
        paths = bytes(data[head.size + row.size * count :]).split(b"\0")
        self.files = tuple(
            MappedFile(
                start=start,
                end=end,
                offset=offset * page_size,
                path=path.decode("utf-8", "surrogateescape"),
            )
            for (start, end, offset), path in zip(row.iter_unpack(table), paths, strict=False)
            if start < end
        )


def _command(arguments: str) -> str:
    """The kernel keeps 79 bytes of the arguments, a space for the NUL behind each.

    What is as long and does not end in such a space was cut: `python -m vllm.entrypoi…`.
    """
    raw = arguments.encode("utf-8", "surrogateescape")
    is_cut = len(raw) >= _ARGUMENTS_SIZE - 1 and not raw.endswith(b" ")
    return f"{arguments}…" if is_cut else arguments.rstrip()
