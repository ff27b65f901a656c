"""DT_NEEDED of real libraries, against readelf; and of damaged ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.needed import needed_libraries

LIBRARY = next(Path(sys.prefix).glob("lib/python3.*/site-packages/msgspec/_core*.so"))
DATA = LIBRARY.read_bytes()


@pytest.mark.parametrize("path", [LIBRARY, Path(sys.executable).resolve()])
def test_the_names_are_those_that_readelf_prints(path: Path) -> None:
    printed = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True)
    expected = re.findall(r"\(NEEDED\).*\[(.*)\]", printed.stdout)

    assert list(needed_libraries(memoryview(path.read_bytes()))) == expected
    assert expected


@given(st.integers(0, len(DATA)), st.binary(max_size=64), st.integers(0, 0x400))
def test_damage_gives_fewer_names_and_no_error(end: int, noise: bytes, place: int) -> None:
    damaged = bytearray(DATA[:end])
    damaged[place : place + len(noise)] = noise

    assert len(needed_libraries(memoryview(damaged))) <= 4096


def test_what_is_no_elf_file_needs_nothing() -> None:
    assert needed_libraries(memoryview(b"#!/bin/sh\n")) == ()
