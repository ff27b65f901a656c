"""Real symbolizers on real modules; what they are handed cannot become an option."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from vllm_forensics.capture.symbolizer import (
    OutputForm,
    SymbolizerProgram,
    installed_symbolizers,
    run_symbolizer,
)
from vllm_forensics.errors import ToolError


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("symbolizer")
    (folder / "a.c").write_text("int one(int n)\n{\n  return n / 3;\n}\n", encoding="utf-8")
    subprocess.run(
        ["gcc", "-g", "-shared", "-fPIC", "-o", "liba.so", "a.c"], cwd=folder, check=True
    )
    return folder / "liba.so"


@pytest.fixture(scope="module")
def start(library: Path) -> int:
    listing = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    return next(int(row.split()[0], 16) for row in listing.splitlines() if row.endswith(" one"))


def script(folder: Path, text: str) -> SymbolizerProgram:
    path = folder / "symbolizer"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return SymbolizerProgram(
        name="symbolizer", path=str(path), form=OutputForm.LINES, arguments=("--obj=",)
    )


def test_all_three_are_here_and_the_best_is_first() -> None:
    names = [program.name for program in installed_symbolizers()]

    assert names[0].startswith("llvm-symbolizer")
    assert names[1:] == ["eu-addr2line", "addr2line"]


@pytest.mark.parametrize("name", ["-x.so", "@x.so", "a b.so", "--obj=.so", "li\nb.so"])
def test_no_name_becomes_an_option(
    name: str, library: Path, start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(library.read_bytes())
    monkeypatch.chdir(tmp_path)

    texts = [
        run_symbolizer(program, Path(name), [start], timeout_s=30)
        for program in installed_symbolizers()
    ]

    assert all("one" in text and "a.c" in text for text in texts)


def test_older_llvm_is_asked_for_lines(library: Path, start: int) -> None:
    llvm = installed_symbolizers()[0]
    style = ("--addresses", "--output-style=GNU", "--obj=")
    older = replace(llvm, form=OutputForm.LINES, arguments=("--inlines", *style))

    text = run_symbolizer(older, library, [start], timeout_s=30)

    assert text.splitlines()[:2] == [f"0x{start:x}", "one"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill -SEGV $$", "died of signal 11"),
        ("echo no such thing >&2; exit 3", r"failed \(3\) on .*: no such thing"),
        ("sleep 1000", "did not finish"),
    ],
)
def test_its_death_and_its_silence_are_errors(
    text: str, said: str, library: Path, tmp_path: Path
) -> None:
    with pytest.raises(ToolError, match=said):
        run_symbolizer(script(tmp_path, text), library, [1], timeout_s=0.5)
