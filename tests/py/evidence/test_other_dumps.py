"""Dumps that are no ELF core of a process are known for what they are."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.support.core_builder import build_core

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.other_dumps import OtherDump, other_dump
from vllm_forensics.model.answer import Gap

LINUX, WINDOWS = 0x8201, 2


def minidump(platform: int, code: int, address: int) -> bytes:
    """The header, then the streams of the exception (6) and of the system (7)."""
    header = struct.pack("<4s4I", b"MDMP", 0xA793, 2, 32, 0) + struct.pack("<IQ", 1772445600, 0)
    exception = struct.pack("<IIIIQQ", 4243, 0, code, 0, 0, address)
    system = struct.pack("<HHHBBIIII", 9, 0, 0, 4, 0, 6, 8, 0, platform)
    at = 32 + 24
    table = struct.pack("<3I", 6, len(exception), at)
    table += struct.pack("<3I", 7, len(system), at + len(exception))
    return header + table + exception + system


def told(data: bytes) -> OtherDump:
    found = other_dump(memoryview(data))
    assert found is not None
    return found


def test_a_minidump_of_linux_says_which_signal_and_when() -> None:
    found = told(minidump(LINUX, 11, 0x48))

    assert "is a minidump" in found.what
    assert "Linux x86-64, SIGSEGV at 0x48 in thread 4243, 2026-03-02T10:00:00" in found.what
    assert "minidump-2-core" in found.remedy


def test_a_minidump_of_windows_says_its_exception() -> None:
    found = told(minidump(WINDOWS, 0xC0000005, 0x10))

    assert "Windows x86-64, exception 0xc0000005 at 0x10" in found.what


def test_a_minidump_that_is_cut_off_is_still_one() -> None:
    assert told(minidump(LINUX, 11, 0)[:60]).what.endswith("not a core")


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (struct.pack("<4I", 0xFEEDFACF, 0x0100_000C, 0, 4), "core of macOS (arm64)"),
        (struct.pack("<4I", 0xFEEDFACF, 0x0100_0007, 3, 2), "program or library of macOS (x86-64)"),
        (b"KDUMP   ", "whole machine"),
        (b"makedumpfile\0\0\0\0", "flattened"),
        (b"QEVM\0\0\0\3", "QEMU"),
        (b"LibvirtQemudSave", "libvirt"),
        (b"PAGEDU64", "Windows"),
        (b"MZ\x90\0", "Windows program"),
    ],
)
def test_other_dumps_are_known_by_how_they_begin(head: bytes, said: str) -> None:
    found = told(head + bytes(64))

    assert said in found.what
    assert found.remedy


@pytest.mark.parametrize("owner", [b"QEMU\0", b"VMCOREINFO\0"])
def test_an_elf_core_of_a_whole_machine_is_no_process(owner: bytes) -> None:
    # Eleven letters need three bytes of padding more than five, so the note grows by seven.
    data = build_core()
    at = data.index(b"CORE\0")
    size, data_size, kind = struct.unpack_from("<III", data, at - 12)
    name = owner.ljust(-(-len(owner) // 4) * 4, b"\0")
    grown = len(name) - 8
    changed = struct.pack("<III", len(owner), data_size - grown, kind) + name
    whole = data[: at - 12] + changed + data[at + 8 + grown :]

    assert size == 5
    with pytest.raises(EvidenceError, match="as a whole, not of one process") as failure:
        CoreImage(memoryview(whole), lambda module: Gap(what=module.path))

    assert "crash VMLINUX" in failure.value.remedy


@pytest.mark.parametrize("data", [b"", b"\x7fELF\2\1\1", b"hello", b"\xcf\xfa\xed"])
def test_what_says_nothing_is_left_to_others(data: bytes) -> None:
    assert other_dump(memoryview(data.ljust(64, b"\0"))) is None


@given(st.sampled_from([b"MDMP", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xce", b""]), st.binary())
def test_nothing_raises(magic: bytes, rest: bytes) -> None:
    found = other_dump(memoryview(magic + rest))

    assert found is None or (found.what and found.remedy)
