"""Walks of real cores by libdwfl, and children that do not survive them."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.py.integration.crashes import compile_program, leave_core

from vllm_forensics.capture import unwinder
from vllm_forensics.capture.files import map_core
from vllm_forensics.capture.unwinder import Unwinder
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.dwarf_registers import dwarf_registers
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Known
from vllm_forensics.model.unwind import MappedFile, Walk, WalkEnd, WalkStart

SOURCE = """
#include <csignal>
namespace shop {
static inline int taken(int* from) {
  int sum = 0;
  for (int at = 0; at < 3; ++at) sum += from[at];
  return sum;
}
struct Till { __attribute__((noinline)) int count(int* coins) { return taken(coins) + 1; } };
__attribute__((noinline)) int deep(int left, int* coins) {
  if (left == 0) return Till().count(coins);
  return deep(left - 1, coins) + 1;
}
}
int main(int argc, char** argv) { return shop::deep(argc > 1 ? 20000 : 3, nullptr); }
"""


class Core:
    """A core, and what the notes say of it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        store = ModuleStore()
        self.notes = CoreImage(map_core(path), store)
        usable = [module for module in self.notes.modules if isinstance(store(module), Known)]
        self.files = [
            MappedFile(path=store.path_of(module), start=module.start, end=module.end)
            for module in usable
        ]

    def start(self, innermost: int = 64, outermost: int = 0) -> WalkStart:
        thread = self.notes.threads[0]
        return WalkStart(
            pc=thread.pc,
            registers=dwarf_registers(self.notes.process.architecture, thread.registers),
            innermost=innermost,
            outermost=outermost,
        )

    def walk(self, walker: Unwinder, innermost: int = 64, outermost: int = 0) -> Walk:
        (found,) = walker.walk(self.path, self.files, [self.start(innermost, outermost)])
        return found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unwinder")
    return compile_program(SOURCE, folder / "till", "-O1", "-g", "-fno-optimize-sibling-calls")


@pytest.fixture(scope="module")
def core(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Core:
    return Core(leave_core([str(program)], tmp_path_factory.mktemp("core")))


@pytest.fixture
def walker() -> Iterator[Unwinder]:
    with Unwinder() as started:
        yield started


def test_a_walk_names_what_eu_stack_names(core: Core, program: Path, walker: Unwinder) -> None:
    shown = subprocess.run(
        ["eu-stack", "--core", core.path, "--executable", program], capture_output=True, check=False
    ).stdout.decode()

    walk = core.walk(walker)

    pcs = [int(pc, 16) for pc in re.findall(r"#\d+ +(0x[0-9a-f]+)", shown)]
    assert [frame.pc for frame in walk.frames] == pcs
    named = [frame.function for frame in walk.frames[:6]]
    assert named == [
        "shop::Till::count(int*)",
        *["shop::deep(int, int*)"] * 4,
        "main",
    ]
    assert walk.end is WalkEnd.OUTERMOST


def test_an_inlined_call_stands_before_its_function(core: Core, walker: Unwinder) -> None:
    walk = core.walk(walker)

    ((inner, outer), *_) = walker.lines(core.path, core.files, [(walk.frames[0].pc, False)])

    assert (inner.function, inner.line) == ("shop::taken", 6)
    assert (outer.function, outer.line) == ("shop::Till::count(int*)", 9)
    assert inner.file is not None
    assert inner.file.endswith("planted.cpp")


def test_a_deep_stack_keeps_its_two_ends(program: Path, tmp_path: Path, walker: Unwinder) -> None:
    deep = Core(leave_core([str(program), "deep"], tmp_path))

    walk = deep.walk(walker, innermost=3, outermost=3)

    assert walk.depth > 20_000
    assert [frame.level for frame in walk.frames[:3]] == [0, 1, 2]
    assert walk.frames[-1].level == walk.depth - 1
    assert walk.frames[-1].function == "_start"


def test_a_walk_ends_where_no_file_is_known(core: Core, program: Path, walker: Unwinder) -> None:
    only_program = [file for file in core.files if file.path == str(program)]

    (walk,) = walker.walk(core.path, only_program, [core.start()])
    (nothing,) = walker.walk(core.path, [], [core.start()])

    assert walk.end is WalkEnd.NO_TABLE
    assert walk.frames[-2].function == "main"
    assert len(nothing.frames) == 1


def test_a_core_that_is_none_is_an_answer_and_costs_no_child(
    core: Core, tmp_path: Path, walker: Unwinder
) -> None:
    text = tmp_path / "text"
    text.write_text("no core")

    with pytest.raises(ToolError, match="no core file"):
        walker.walk(str(text), [], [core.start()])

    assert core.walk(walker).depth > 5


def test_a_killed_child_costs_nothing_but_a_retry(core: Core, walker: Unwinder) -> None:
    before = core.walk(walker)
    for child in children_of(os.getpid()):
        os.kill(child, signal.SIGKILL)

    after = core.walk(walker)

    assert after == before


def test_a_core_that_kills_its_child_twice_has_no_second_tier(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "worker.py"
    dying.write_text("import os, sys\nsys.stdin.buffer.read(4)\nos.abort()\n")
    monkeypatch.setattr(unwinder, "_WORKER", dying)

    with Unwinder() as walker, pytest.raises(ToolError, match=r"did not survive it: signal 6"):
        core.walk(walker)


@pytest.mark.parametrize(
    ("says", "seen"),
    [
        ("sys.stdout.buffer.write(b'\\x00\\x00\\x00\\x02{]')", "nonsense"),
        ("sys.stdout.buffer.write(b'\\xff\\xff\\xff\\xff')", "no end"),
        ("sys.stdout.buffer.write(b'\\x00\\x00\\x00\\x02{}{}')", "more than it was asked"),
        ("time.sleep(60)", "in time"),
    ],
)
def test_what_a_child_says_is_not_trusted(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, seen: str
) -> None:
    lying = tmp_path / "worker.py"
    lying.write_text(f"import sys, time\n{says}\nsys.stdout.flush()\ntime.sleep(60)\n")
    monkeypatch.setattr(unwinder, "_WORKER", lying)

    with Unwinder(timeout_s=1) as walker, pytest.raises(ToolError, match=seen):
        core.walk(walker)


def test_the_children_end_with_the_unwinder(core: Core) -> None:
    others = set(children_of(os.getpid()))  # an earlier test's shared one may still be there
    with Unwinder() as walker:
        core.walk(walker)
        (child,) = [pid for pid in children_of(os.getpid()) if is_worker(pid) and pid not in others]

    assert not Path(f"/proc/{child}").exists()


def children_of(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in text.split()]


def is_worker(pid: int) -> bool:
    return b"unwind_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
