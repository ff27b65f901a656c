"""Headers, sections and notes: read where sound, refused or passed over where not."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.support.core_builder import CoreSpec, build_core, note
from tests.py.support.sample_library import SampleLibrary

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.elf import (
    build_id_of,
    has_section,
    parse_header,
    parse_notes,
    parse_sections,
    parse_segments,
    text_at,
)

CORE = build_core()


def damaged(offset: int, value: bytes) -> memoryview:
    return memoryview(CORE[:offset] + value + CORE[offset + len(value) :])


def test_the_header_of_a_core() -> None:
    header = parse_header(memoryview(CORE))

    assert (header.type, header.machine_name, header.phoff, header.phnum) == (4, "x86-64", 64, 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an ELF file"),
        (b"#!/bin/sh\n", "not an ELF file"),
        (b"\x7fELF\2\1", "cut off after 6 of 64 bytes"),
        (bytes(damaged(4, b"\1")[:51]), "cut off after 51 of 52 bytes"),
        (bytes(damaged(4, b"\x09")), r"unknown class \(9\)"),
        (bytes(damaged(5, b"\3")), r"byte order \(3\)"),
    ],
)
def test_what_is_not_read_says_what_it_is(data: bytes, message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        parse_header(memoryview(data))


def test_an_unknown_machine_has_a_number() -> None:
    assert parse_header(damaged(18, b"\x39\x30")).machine_name == "machine 12345"


def test_the_true_number_of_segments_is_in_section_0() -> None:
    data = build_core(CoreSpec(extended_numbering=True))

    header = parse_header(memoryview(data))

    assert header.phnum == 2


@pytest.mark.parametrize("shoff", [1 << 40, (1 << 63) + 1, (1 << 64) - 1])
def test_an_extended_number_beyond_the_end_keeps_what_fits(shoff: int) -> None:
    data = bytearray(build_core(CoreSpec(extended_numbering=True)))
    data[40:48] = struct.pack("<Q", shoff)

    header = parse_header(memoryview(data))

    assert header.phnum == 0xFFFF
    assert len(parse_segments(memoryview(data), header)) <= len(data) // 56


@pytest.mark.parametrize("phoff", [len(CORE), 1 << 40, (1 << 64) - 1])
def test_program_headers_beyond_the_end_are_left_out(phoff: int) -> None:
    data = damaged(32, struct.pack("<Q", phoff))

    assert parse_segments(data, parse_header(data)) == ()


def test_a_cut_table_keeps_the_entries_before_the_cut() -> None:
    data = memoryview(CORE[: 64 + 56 + 20])

    assert len(parse_segments(data, parse_header(data))) == 1


def test_sections_have_their_names(library: SampleLibrary) -> None:
    data = memoryview(library.whole.read_bytes())

    names = {section.name for section in parse_sections(data, parse_header(data))}

    assert {".text", ".dynsym", ".symtab", ".debug_info"} <= names


def test_a_section_is_looked_up_as_all_of_them_are_read(library: SampleLibrary) -> None:
    data = memoryview(library.whole.read_bytes())
    header = parse_header(data)
    names = {section.name for section in parse_sections(data, header)}

    looked_up = {
        name for name in (*names, "info", ".zdebug_info") if has_section(data, header, name)
    }

    assert looked_up == names
    assert has_section(data, header, ".zdebug_info", ".debug_info")


def test_a_section_table_beyond_the_end_is_none(library: SampleLibrary) -> None:
    data = memoryview(library.whole.read_bytes()[:-1])

    assert parse_sections(data, parse_header(data)) == ()
    assert not has_section(data, parse_header(data), ".text")


def test_notes_are_walked_to_their_end() -> None:
    raw = note(1, b"abc") + note(2, b"defgh", b"GNU\0")

    found = [(item.owner, item.type, bytes(item.data)) for item in parse_notes(memoryview(raw))]

    assert found == [(b"CORE", 1, b"abc"), (b"GNU", 2, b"defgh")]


@pytest.mark.parametrize("size", [100, 1 << 31, (1 << 32) - 1])
def test_a_note_that_reaches_beyond_the_end_stops_the_walk(size: int) -> None:
    raw = note(1, b"abc") + struct.pack("<III", 5, size, 2) + b"CORE\0\0\0\0abc"

    assert [item.type for item in parse_notes(memoryview(raw))] == [1]


def test_eight_byte_alignment_is_obeyed() -> None:
    entry = struct.pack("<III", 4, 5, 3) + b"GNU\0" + b"\1\2\3\4\5\0\0\0"
    raw = entry + entry

    assert len(list(parse_notes(memoryview(raw), 8))) == 2


def test_the_build_id_is_the_linkers_note() -> None:
    raw = note(1, b"\xaa", b"GNU\0") + note(3, bytes.fromhex("abcdef"), b"GNU\0")

    assert build_id_of(parse_notes(memoryview(raw))) == "abcdef"


@pytest.mark.parametrize("raw", [note(3, b"\xaa", b"Go\0"), note(3, bytes(65), b"GNU\0"), b""])
def test_another_note_is_no_build_id(raw: bytes) -> None:
    assert build_id_of(parse_notes(memoryview(raw))) is None


def test_a_text_keeps_bytes_that_are_no_utf_8() -> None:
    assert text_at(memoryview(b"xcaf\xe9\0rest"), 1) == "caf\udce9"
    assert text_at(memoryview(b"abc"), 99) == ""


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_raise_anything_but_evidence_error(tail: bytes, is_elf: bool) -> None:
    data = memoryview((b"\x7fELF\2\1\1" if is_elf else b"") + tail)

    try:
        header = parse_header(data)
    except EvidenceError:
        return
    parse_segments(data, header)
    parse_sections(data, header)
    has_section(data, header, "")
    build_id_of(parse_notes(data))
