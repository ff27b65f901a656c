"""A module's own bytes: what is code, where calls end, which function covers an offset."""

import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from vllm_forensics.evidence.code_offsets import covered_by_symbols, ends_a_call, is_code
from vllm_forensics.evidence.modules import ModuleFile, parse_module

SOURCE = """
int (*pointer)(int);
struct table { int (*f[99])(int); } *tables;
__attribute__((noinline)) int leaf(int n) { return n * 3; }
int caller(int n, struct table* t, int (*g)(int)) {
  return leaf(n) + pointer(n) + t->f[2](n) + t->f[90](n) + g(n) + tables[n].f[n](n) + 1;
}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offsets")
    (folder / "a.c").write_text(SOURCE, encoding="utf-8")
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-o", "liba.so", "a.c"], cwd=folder, check=True
    )
    return folder / "liba.so"


@pytest.fixture(scope="module")
def module(path: Path) -> ModuleFile:
    return parse_module(memoryview(path.read_bytes()))


def instructions(path: Path, function: str) -> list[tuple[int, str]]:
    """Address and text of each, as objdump has them."""
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.findall(r"^\s+([0-9a-f]+):\t(.*)$", text, re.MULTILINE)
    return [(int(address, 16), words) for address, words in found]


def test_every_call_is_known_by_its_end(path: Path, module: ModuleFile) -> None:
    listing = instructions(path, "caller")
    ends = [
        (following[0] if module.header.machine == 62 else at[0] + 1) - 1
        for at, following in pairwise(listing)
        if re.match(r"call|blr?\b", at[1])
    ]

    assert len(ends) == 6
    assert all(ends_a_call(module, end) for end in ends)


def test_most_other_places_are_no_calls(path: Path, module: ModuleFile) -> None:
    start = instructions(path, "leaf")[0][0]

    assert ends_a_call(module, start) is False
    assert ends_a_call(module, 1 << 40) is None


def test_only_executable_parts_are_code(path: Path, module: ModuleFile) -> None:
    start = instructions(path, "leaf")[0][0]

    assert is_code(module, start)
    assert not is_code(module, 0)
    assert not is_code(module, 1 << 60)


def test_a_symbol_covers_its_function_and_no_more(path: Path, module: ModuleFile) -> None:
    listing = instructions(path, "leaf")
    symbol = module.symbol_named("leaf")
    assert symbol is not None
    inside, behind = listing[-1][0], symbol.address + symbol.size

    covered = covered_by_symbols(module, [inside, behind - 1, 1, 1 << 63])

    assert covered == {inside, behind - 1}
