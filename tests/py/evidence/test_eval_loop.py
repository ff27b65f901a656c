"""The seldom part of an exported function, found without its name."""

import subprocess
from pathlib import Path

import pytest

from vllm_forensics.evidence.eval_loop import loop_part
from vllm_forensics.evidence.modules import ModuleFile, parse_module

# gcc moves what leads to a cold function to a part of its own, NAME.cold.
SOURCE = """
__attribute__((cold, noinline)) int complain(int x) { volatile int y = x; return y * 3; }
#define SELDOM(N) if (x > N) { x += complain(N); y ^= complain(x); }
#define BODY SELDOM(10) x += y; SELDOM(20) x *= 3; SELDOM(30) y += x; SELDOM(40) return x + y;
int _PyEval_EvalFrameDefault(int x, int y) { BODY }
int another(int x, int y) { BODY }
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loop")
    (folder / "loop.c").write_text(SOURCE)
    library = folder / "libpython3.99.so"
    command = (
        "gcc",
        "-O2",
        "-fno-ipa-icf",
        "-shared",
        "-fPIC",
        str(folder / "loop.c"),
        "-o",
        str(library),
    )
    subprocess.run(command, check=True)
    return library


def parse(path: Path) -> ModuleFile:
    return parse_module(memoryview(path.read_bytes()))


def test_the_seldom_part_of_the_loop_is_found_in_a_stripped_interpreter(
    whole: Path, tmp_path: Path
) -> None:
    listed = subprocess.run(("nm", whole), check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    addresses = {row[2]: int(row[0], 16) for row in rows if len(row) == 3}
    stripped = tmp_path / whole.name
    subprocess.run(("strip", "-o", stripped, whole), check=True)

    part = loop_part(parse(stripped))

    assert part == addresses["_PyEval_EvalFrameDefault.cold"]
    assert part != addresses["another.cold"]


def test_a_part_that_has_a_name_needs_none(whole: Path) -> None:
    assert loop_part(parse(whole)) is None


def test_what_is_no_interpreter_has_no_loop(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int answer(void) { return 42; }\n")
    library = tmp_path / "a.so"
    subprocess.run(("gcc", "-shared", "-fPIC", str(tmp_path / "a.c"), "-o", library), check=True)

    assert loop_part(parse(library)) is None
