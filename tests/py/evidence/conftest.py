"""A small real library, built once."""

import subprocess
from pathlib import Path

import pytest
from tests.py.support.sample_library import SOURCE, SampleLibrary


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> SampleLibrary:
    folder = tmp_path_factory.mktemp("library")
    source, whole, stripped = folder / "s.c", folder / "whole.so", folder / "stripped.so"
    source.write_text(SOURCE)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-g", "-Wl,-soname,libsample.so.1",
         "-Wl,-z,lazy", "-Wl,--build-id=0xabcdef0123", "-o", str(whole), str(source)],
        check=True,
    )  # fmt: skip
    subprocess.run(["strip", "-o", str(stripped), str(whole)], check=True)
    listed = subprocess.run(["nm", str(whole)], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in listed.splitlines())
    addresses = {row[2]: int(row[0], 16) for row in rows if len(row) == 3}
    return SampleLibrary(whole=Path(whole), stripped=Path(stripped), addresses=addresses)
