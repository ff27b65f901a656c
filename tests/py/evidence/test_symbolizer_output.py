"""What llvm-symbolizer 14.0.6, addr2line 2.40 and eu-addr2line 0.188 print, read into locations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.symbolizer_output import (
    parse_symbolizer_json,
    parse_symbolizer_lines,
)
from vllm_forensics.model.locations import Location

LLVM = (
    '[{"Address":"0x1428","ModuleName":"/app/a","Symbol":['
    '{"Column":19,"Discriminator":0,"FileName":"/app/main.cpp","FunctionName":'
    '"app::Pool::get(int) const","Line":11,"StartAddress":"","StartFileName":"","StartLine":9},'
    '{"Column":17,"Discriminator":0,"FileName":"/app/main.cpp","FunctionName":"main","Line":36,'
    '"StartAddress":"","StartFileName":"","StartLine":34}]},'
    '{"Address":"0x1","ModuleName":"/app/a","Symbol":[{"Column":0,"Discriminator":0,"FileName":"",'
    '"FunctionName":"","Line":0,"StartAddress":"","StartFileName":"","StartLine":0}]},'
    '{"Address":"0x2","Error":{"Message":"No such file or directory"},"ModuleName":"/app/a"},'
    '{"Address":"0x11c3","ModuleName":"/app/a","Symbol":[{"Column":0,"Discriminator":0,'
    '"FileName":"crtstuff.c","FunctionName":"deregister_tm_clones","Line":0,'
    '"StartAddress":"0x11b0","StartFileName":"","StartLine":0}]}]\n'
)
GNU = """\
0x0000000000001428
app::Pool::get(int) const
/app/main.cpp:11 (discriminator 2)
main
/app/main.cpp:36
0x00000000000011a0
_start
??:?
0x0000000000000001
??
??:0
"""
ELFUTILS = """\
0x0000000000001428
app::Pool::get(int) const inlined at /app/main.cpp:20:17 in main
/app/main.cpp:11:19
main
/app/main.cpp:36:14
0x00000000000011a0
_start
??:0
"""
GET = Location(function="app::Pool::get(int) const", file="/app/main.cpp", line=11)
MAIN = Location(function="main", file="/app/main.cpp", line=36)


def test_json_gives_inlined_functions_innermost_first() -> None:
    found = parse_symbolizer_json(LLVM)

    assert [(spot.function, spot.line, spot.column) for spot in found[0x1428]] == [
        ("app::Pool::get(int) const", 11, 19),
        ("main", 36, 17),
    ]
    assert 1 not in found
    assert 2 not in found


def test_a_symbol_tables_file_name_is_no_place() -> None:
    assert parse_symbolizer_json(LLVM)[0x11C3] == (Location(function="deregister_tm_clones"),)


def test_one_json_value_a_line_is_read_too() -> None:
    lines = "\n".join(json.dumps(entry) for entry in json.loads(LLVM))

    assert parse_symbolizer_json(lines) == parse_symbolizer_json(LLVM)


def test_binutils_lines() -> None:
    found = parse_symbolizer_lines(GNU, [0x1428, 0x11A0, 0x1])

    assert found == {0x1428: (GET, MAIN), 0x11A0: (Location(function="_start"),)}


def test_elfutils_lines_have_columns_and_say_where_inlined() -> None:
    (get, main) = parse_symbolizer_lines(ELFUTILS, [0x1428, 0x11A0])[0x1428]

    assert (get.function, get.line, get.column) == ("app::Pool::get(int) const", 11, 19)
    assert (main.function, main.line, main.column) == ("main", 36, 14)


def test_an_address_in_a_name_does_not_start_a_block() -> None:
    text = "0x10\n0x99\n/a.c:1\n0x20\nf\n/a.c:2\n"

    found = parse_symbolizer_lines(text, [0x10, 0x20])

    assert found[0x10] == (Location(function="0x99", file="/a.c", line=1),)
    assert found[0x20] == (Location(function="f", file="/a.c", line=2),)


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "null", '[{"Address":5}]', '{"a":1}'])
def test_what_is_no_answer_gives_nothing(text: str) -> None:
    assert parse_symbolizer_json(text) == {}
    assert parse_symbolizer_lines(text, [1, 2]) == {}


@given(st.text(), st.lists(st.integers(min_value=0, max_value=1 << 64)))
def test_no_text_makes_the_parsers_raise(text: str, offsets: list[int]) -> None:
    parse_symbolizer_json(text)
    found = parse_symbolizer_lines(text, offsets)

    assert set(found) <= set(offsets)
