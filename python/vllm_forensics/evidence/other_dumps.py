"""Dumps that are no ELF core: what they are, what little they say at once, and who reads them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Final

from vllm_forensics.evidence.elf import Bytes
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.signals import signal_name

_MACH_MAGICS: Final = {
    b"\xce\xfa\xed\xfe": "<", b"\xcf\xfa\xed\xfe": "<",
    b"\xfe\xed\xfa\xce": ">", b"\xfe\xed\xfa\xcf": ">",
}  # fmt: skip
_MH_CORE: Final = 4
_MACH_PROCESSORS: Final = {7: "i386", 0x0100_0007: "x86-64", 0x0100_000C: "arm64"}
_BY_MAGIC: Final = (
    (b"KDUMP   ", "is the memory of a whole machine, from kdump (makedumpfile)", "kernel"),
    (b"DISKDUMP", "is the memory of a whole machine, from diskdump", "kernel"),
    (b"makedumpfile", "is the memory of a whole machine, flattened by makedumpfile", "kernel"),
    (b"QEVM", "is the state of a virtual machine of QEMU's, not a core of a process", "machine"),
    (b"LibvirtQemudSave", "is a virtual machine's state, saved by libvirt, no core", "machine"),
    (b"PAGEDUMP", "is the memory of a Windows machine, not a core of a process", "windows"),
    (b"PAGEDU64", "is the memory of a Windows machine, not a core of a process", "windows"),
    (b"MZ", "is a Windows program, not a core that one left", "windows"),
)
_REMEDIES: Final = {
    "kernel": "crash VMLINUX FILE, or drgn -c FILE    # the kernel's debug information is needed",
    "machine": "in the machine: let the process leave a core; of all its memory: virsh dump "
    "--memory-only, then crash or drgn",
    "windows": "it is for Windows and its tools: WinDbg",
}
_MINIDUMP_SYSTEMS: Final = {
    2: "Windows", 0x8101: "macOS", 0x8102: "iOS", 0x8201: "Linux", 0x8203: "Android",
}  # fmt: skip
_LINUX: Final = {0x8201, 0x8203}
_MINIDUMP_PROCESSORS: Final = {0: "i386", 5: "arm", 9: "x86-64", 12: "aarch64", 0x8003: "aarch64"}
_EXCEPTION: Final = 6
_SYSTEM: Final = 7
_MAX_STREAMS: Final = 1024
WHOLE_MACHINE_NOTES: Final = {b"VMCOREINFO": "a Linux kernel", b"QEMU": "a virtual machine"}
"""Owners of notes in ELF cores that hold a machine: kexec's vmcore, QEMU's dump-guest-memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDump:
    """What a file is instead of a core of a Linux process."""

    what: str
    """After the file's name: `is a minidump …`."""
    remedy: str


def whole_machine(owner: bytes) -> OtherDump | None:
    """The same for an ELF core by the owner of one of its notes."""
    kind = WHOLE_MACHINE_NOTES.get(owner)
    if kind is None:
        return None
    return OtherDump(
        what=f"is the memory of {kind} as a whole, not of one process",
        remedy=_REMEDIES["kernel"],
    )


def other_dump(data: Bytes) -> OtherDump | None:
    """Know a dump of another kind by its first bytes; None where they say nothing."""
    head = bytes(data[:64]).ljust(64, b"\0")
    if head.startswith(b"MDMP"):
        return _minidump(data)
    if head[:4] in _MACH_MAGICS:
        return _mach(head)
    for magic, what, kind in _BY_MAGIC:
        if head.startswith(magic):
            return OtherDump(what=what, remedy=_REMEDIES[kind])
    return None


def _mach(head: bytes) -> OtherDump:
    order = _MACH_MAGICS[head[:4]]
    processor, _, kind = struct.unpack_from(f"{order}3I", head, 4)
    machine = _MACH_PROCESSORS.get(processor, f"processor {processor:#x}")
    if kind == _MH_CORE:
        return OtherDump(
            what=f"is a core of macOS ({machine}), which this Linux tool does not read",
            remedy="on that Mac: lldb --core FILE; its own report lies in "
            "~/Library/Logs/DiagnosticReports",
        )
    return OtherDump(
        what=f"is a program or library of macOS ({machine}), not what one left",
        remedy="give the core that the program left, not the program",
    )


def _minidump(data: Bytes) -> OtherDump:
    """Sources: minidumpapiset.h; Breakpad's minidump_format.h for systems that are not Windows."""
    told = []
    try:
        count, table, _, seconds = struct.unpack_from("<4I", data, 8)
        system, cause = _minidump_streams(data, count, table)
        when = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
        told = [text for text in (system, cause, when if seconds else "") if text]
    except (struct.error, OverflowError, ValueError, OSError):
        told = []
    said = f" (it says: {', '.join(told)})" if told else ""
    return OtherDump(
        what=f"is a minidump, as Breakpad, Crashpad or Windows write them, not a core{said}",
        remedy="minidump-stackwalk FILE SYMBOLS (rust-minidump) prints its stacks; minidump-2-core "
        "FILE > core (Breakpad) makes a core of one from Linux",
    )


def _minidump_streams(data: Bytes, count: int, table: int) -> tuple[str, str]:
    system = cause = ""
    platform = 0
    streams = [
        struct.unpack_from("<3I", data, table + 12 * at) for at in range(min(count, _MAX_STREAMS))
    ]
    for kind, _, at in sorted(streams, reverse=True):  # the system is asked for before the cause
        if kind == _SYSTEM:
            (processor,) = struct.unpack_from("<H", data, at)
            (platform,) = struct.unpack_from("<I", data, at + 20)
            name = _MINIDUMP_SYSTEMS.get(platform, f"system {platform:#x}")
            machine = _MINIDUMP_PROCESSORS.get(processor, f"processor {processor:#x}")
            system = f"{name} {machine}"
        elif kind == _EXCEPTION:
            (thread,) = struct.unpack_from("<I", data, at)
            (code,) = struct.unpack_from("<I", data, at + 8)
            (address,) = struct.unpack_from("<Q", data, at + 24)
            name = signal_name(code) if platform in _LINUX else f"exception {code:#x}"
            cause = f"{name} at {address:#x} in thread {thread}"
    return system, cause
