"""An index of a few addresses, as gdb reads it."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.gdb_index import UnitTable
from vllm_forensics.evidence.modules import ModuleFile, parse_module

FIRST = "int first(int x) {\n  return x + 1;\n}\n"
SECOND = "int first(int);\nint second(int x) {\n  return first(x) * 2;\n}\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("units")
    (folder / "first.c").write_text(FIRST)
    (folder / "second.c").write_text(SECOND)
    command = ("gcc", "-g", "-O0", "-shared", "-fPIC", "first.c", "second.c", "-o", "both.so")
    subprocess.run(command, cwd=folder, check=True)
    return folder / "both.so"


def parse(path: Path) -> ModuleFile:
    return parse_module(memoryview(path.read_bytes()))


def address_of(file: ModuleFile, name: str) -> int:
    symbol = file.symbol_named(name)
    assert symbol is not None
    return symbol.address


def test_each_address_has_its_unit(built: Path) -> None:
    file = parse(built)
    table = UnitTable(file)
    first, second = address_of(file, "first"), address_of(file, "second")

    found = table.at([second, first, second + 1, 0])

    assert sorted(found) == sorted({first, second, second + 1})
    assert found[first].offset == 0
    assert found[second].offset == found[first].size
    assert found[first].size + found[second].size == table.size
    assert found[second] == found[second + 1]


def test_gdb_reads_what_the_index_knows_and_nothing_else(built: Path, tmp_path: Path) -> None:
    file = parse(built)
    table = UnitTable(file)
    first, second = address_of(file, "first"), address_of(file, "second")
    index = table.index([table.at([first])[first]])
    (tmp_path / f"{file.build_id}.gdb-index").write_bytes(index)

    told = subprocess.run(
        ("gdb", "-nx", "-batch", "-iex", f"set index-cache directory {tmp_path}",
         "-iex", "set index-cache enabled on", "-ex", f"info line *{first:#x}",
         "-ex", f"info line *{second:#x}", str(built)),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    assert 'Line 1 of "first.c"' in told
    assert f"No line number information available for address {second:#x}" in told


def test_without_debug_information_there_are_no_units(built: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped.so"
    subprocess.run(("strip", "-o", stripped, built), check=True)
    file = parse(stripped)

    table = UnitTable(file)

    assert table.size == 0
    assert table.at([address_of(file, "first")]) == {}


@pytest.mark.parametrize("flag", ["-gz=zlib", "-fdebug-types-section"])
def test_units_that_cannot_be_told_apart_are_none(flag: str, tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("struct S { int a; };\nint first(S* s) { return s->a; }\n")
    built = tmp_path / "a.so"
    options = ("-g", "-gdwarf-5", flag, "-shared", "-fPIC")
    subprocess.run(("g++", *options, str(tmp_path / "a.cpp"), "-o", built), check=True)
    file = parse(built)

    table = UnitTable(file)

    assert table.size > 0
    assert table.at([address_of(file, "_Z5firstP1S")]) == {}


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damaged_debug_information_raises_nothing(built: Path, data: st.DataObject) -> None:
    raw = bytearray(built.read_bytes())
    sections = {section.name: section for section in parse(built).sections}
    for name in (".debug_info", ".debug_aranges"):
        at = data.draw(st.integers(0, sections[name].size - 1))
        hit = data.draw(st.binary(min_size=1, max_size=8))
        start = sections[name].offset + at
        raw[start : start + len(hit)] = hit
    table = UnitTable(parse_module(memoryview(bytes(raw))))

    found = table.at(range(0x1000, 0x1200, 16))

    table.index(found.values())
