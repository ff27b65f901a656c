"""The kernel's own code page (vdso(7)), which cores hold whole and no NT_FILE lists.

On i386 every system call goes through its __kernel_vsyscall, so abort() ends there: without its
unwind tables such a stack has one frame. On aarch64 and riscv64 signal handlers return through it.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.elf import PT_LOAD
from vllm_forensics.evidence.modules import ModuleFile, parse_module
from vllm_forensics.model.process import Address, Module
from vllm_forensics.model.record import dataclass

AT_SYSINFO_EHDR: Final = 33
VDSO: Final = "[vdso]"
MAX_VDSO: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Vdso:
    """The page as a module, and its contents as the core holds them."""

    module: Module
    file: ModuleFile


def parse_vdso(raw: bytes, start: Address, page_size: int) -> Vdso | None:
    """Read the image that lies at `start`; None where it is none."""
    try:
        file = parse_module(memoryview(raw))
    except EvidenceError:
        return None
    first = next((segment for segment in file.segments if segment.type == PT_LOAD), None)
    if first is None:
        return None
    module = Module(
        path=VDSO,
        start=start,
        end=start + len(raw),
        bias=start - (first.address & -page_size),
        build_id=file.build_id,
    )
    return Vdso(module=module, file=file)
