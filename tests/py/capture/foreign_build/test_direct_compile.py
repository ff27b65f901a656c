"""The rules that are written for ninja, for files and options with any characters in them."""

import subprocess
import sys
from pathlib import Path

from vllm_forensics.capture.foreign_build.direct_compile import Extension, ninja_file


def test_odd_names_reach_compiler_and_linker_whole(tmp_path: Path) -> None:
    folder = tmp_path / "a $folder: with all"
    folder.mkdir()
    source, target = folder / "one file.cpp", folder / "out $1:.so"
    source.write_text("const char* said() { return SAID; }\n")
    extension = Extension(
        target=target,
        sources=(source,),
        options=("-fPIC", '-DSAID="$HOME it\'s"'),
        links=("-Wl,-soname,a $b",),
    )
    (tmp_path / "build.ninja").write_text(ninja_file(extension, "g++"))
    ninja = Path(sys.executable).parent / "ninja"

    subprocess.run([ninja, "-C", tmp_path], check=True, capture_output=True)
    again = subprocess.run([ninja, "-C", tmp_path], check=True, capture_output=True)

    assert b"$HOME it's" in target.read_bytes()
    assert b"a $b" in target.read_bytes()
    assert b"no work to do" in again.stdout
