"""A stripped library must load like the whole one."""

import subprocess
from pathlib import Path

from tests.py.support.sample_library import SampleLibrary

from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.evidence.stripping import loads_the_same


def test_a_stripped_copy_loads_the_same(library: SampleLibrary) -> None:
    assert loads_the_same(library.parse(), library.parse(stripped=True))


def test_one_changed_byte_of_code_is_noticed(library: SampleLibrary) -> None:
    whole = library.parse()
    code = next(section for section in whole.sections if section.name == ".text")
    data = bytearray(library.stripped.read_bytes())
    data[code.offset] ^= 1

    assert not loads_the_same(whole, parse_module(memoryview(data)))


def test_a_lost_section_is_noticed(library: SampleLibrary, tmp_path: Path) -> None:
    poorer = tmp_path / "poorer.so"
    subprocess.run(["objcopy", "-R", ".gnu.hash", str(library.whole), str(poorer)], check=True)

    assert not loads_the_same(library.parse(), parse_module(memoryview(poorer.read_bytes())))


def test_the_debug_file_alone_is_no_module(library: SampleLibrary, tmp_path: Path) -> None:
    debug = tmp_path / "only.debug"
    command = ["objcopy", "--only-keep-debug", str(library.whole), str(debug)]
    subprocess.run(command, check=True)

    module = parse_module(memoryview(debug.read_bytes()))

    assert not loads_the_same(library.parse(), module)
    assert not module.has_code
    assert module.has_lines
    assert module.build_id == library.parse().build_id


def test_elfutils_debug_file_is_known_by_its_build_id(
    library: SampleLibrary, tmp_path: Path
) -> None:
    debug = tmp_path / "elfutils.debug"
    command = ["eu-strip", "-g", "-f", str(debug), "-o", str(tmp_path / "rest.so")]
    subprocess.run([*command, str(library.whole)], check=True)

    module = parse_module(memoryview(debug.read_bytes()))

    assert module.build_id == "abcdef0123"
    assert module.has_lines
    assert not module.has_code
