"""A real library's identity, symbols and function starts."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.support.core_builder import build_core
from tests.py.support.sample_library import SampleLibrary

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.modules import parse_module


def test_identity_and_soname(library: SampleLibrary) -> None:
    module = library.parse()

    assert module.build_id == "abcdef0123"
    assert module.soname == "libsample.so.1"


def test_what_a_strip_takes_away_is_known(library: SampleLibrary) -> None:
    whole, stripped = library.parse(), library.parse(stripped=True)

    assert (whole.has_debug_info, whole.has_symbol_table) == (True, True)
    assert (stripped.has_debug_info, stripped.has_symbol_table) == (False, False)
    assert stripped.build_id == whole.build_id


@pytest.mark.parametrize("name", ["answer", "the_answer", "helper", "counter"])
def test_a_symbol_is_found_by_name_also_as_the_tail_of_another(
    library: SampleLibrary, name: str
) -> None:
    found = library.parse().symbol_named(name)

    assert found is not None
    assert found.address == library.addresses[name]


def test_linkers_do_share_tails(library: SampleLibrary) -> None:
    data = library.whole.read_bytes()

    assert b"\0the_answer\0" in data
    assert b"\0answer\0" not in data


@pytest.mark.parametrize("name", ["swer", "strlen", "no_such"])
def test_an_imported_or_partial_name_is_not_defined(library: SampleLibrary, name: str) -> None:
    assert library.parse().symbol_named(name) is None


def test_a_static_function_is_not_in_a_stripped_file(library: SampleLibrary) -> None:
    stripped = library.parse(stripped=True)

    assert stripped.symbol_named("helper") is None
    assert stripped.symbol_named("answer") is not None


@pytest.mark.parametrize("name", ["answer", "the_answer", "helper"])
def test_every_byte_of_a_function_leads_to_it(library: SampleLibrary, name: str) -> None:
    module = library.parse()
    start = library.addresses[name]
    size = next(s.size for s in [module.symbol_named(name)] if s is not None)

    first, last = module.function_at(start), module.function_at(start + size - 1)

    assert first is not None
    assert (first.name, first.address, first) == (name, start, last)


def test_of_two_names_the_plain_one_is_given(library: SampleLibrary) -> None:
    found = library.parse().function_at(library.addresses["plain"])

    assert found is not None
    assert found.name == "plain"


def test_a_variable_is_no_function(library: SampleLibrary) -> None:
    found = library.parse().function_at(library.addresses["counter"])

    assert found is None or found.name != "counter"


def test_without_a_symbol_the_unwind_table_gives_the_start(library: SampleLibrary) -> None:
    start = library.addresses["helper"]

    found = library.parse(stripped=True).function_at(start + 1)

    assert found is not None
    assert (found.name, found.address) == ("", start)


def test_an_address_before_all_code_is_in_no_function(library: SampleLibrary) -> None:
    assert library.parse(stripped=True).function_at(1) is None


def test_imports_are_named_by_their_slot(library: SampleLibrary) -> None:
    assert "strlen" in library.parse(stripped=True).imports_by_slot.values()


def test_bytes_are_read_by_address(library: SampleLibrary) -> None:
    module = library.parse()

    assert module.read(0, 4) == b"\x7fELF"
    assert module.read(library.addresses["counter"], 4) == b"\7\0\0\0"
    assert module.read(1 << 40, 4) is None
    assert module.read(0, 1 << 40) is None


def test_separate_debug_information_lends_its_symbols(library: SampleLibrary) -> None:
    stripped = library.parse(stripped=True)
    joined = replace(stripped, debug=library.parse())

    found = joined.function_at(library.addresses["helper"])

    assert joined.has_debug_info
    assert found is not None
    assert found.name == "helper"


def test_an_object_file_is_refused_with_a_remedy() -> None:
    data = bytearray(build_core())
    data[56:58] = struct.pack("<H", 0)

    with pytest.raises(EvidenceError, match="without program headers") as caught:
        parse_module(memoryview(data))

    assert "linked" in caught.value.remedy


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_library_raises_nothing_else(library: SampleLibrary, data: st.DataObject) -> None:
    raw = bytearray(library.stripped.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        # The headers and tables lie at both ends.
        low = data.draw(st.booleans())
        span = (0, 0x800) if low else (len(raw) - 0x800, len(raw) - 8)
        at = data.draw(st.integers(*span))
        raw[at : at + 8] = data.draw(st.binary(min_size=8, max_size=8))

    try:
        module = parse_module(memoryview(raw))
    except EvidenceError:
        return
    for address in (0, library.addresses["helper"], 1 << 63):
        module.function_at(address)
        module.read(address, 16)
    assert module.symbol_named("answer") is None or module.segments
    assert (module.build_id, module.soname, module.imports_by_slot) is not None
