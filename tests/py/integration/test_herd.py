"""Many cores of a few bugs: sorted by their stacks, one of each bug looked into in full."""

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.py.integration.crashes import HERD, compile_program, leave_core
from tests.py.integration.tool import Json, forensics_core

from vllm_forensics.capture.files import map_core
from vllm_forensics.capture.unwinder import Unwinder
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.walked_stacks import WalkedStacks
from vllm_forensics.model.answer import Answer, Known
from vllm_forensics.model.stack import Stack
from vllm_forensics.model.unwind import MappedFile, Walk, WalkStart

pytestmark = pytest.mark.gdb

DEATHS = {0: signal.SIGSEGV, 1: signal.SIGABRT, 2: signal.SIGABRT, 3: signal.SIGSEGV}


@pytest.fixture(scope="module")
def herd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cores of each of four bugs."""
    folder = tmp_path_factory.mktemp("herd")
    program = compile_program(HERD, folder / "herd", "-fno-optimize-sibling-calls")
    cores = folder / "cores"
    cores.mkdir()
    for bug, number in DEATHS.items():
        core = leave_core([program, str(bug)], folder / f"run{bug}", dies_of=number)
        for copy in range(3):
            shutil.copy(core, cores / f"core.{bug}.{copy}")
    return cores


def crashes_of(report: Json) -> dict[str, Json]:
    return {Path(crash["core"]).name: crash for crash in report["crashes"]}


def test_each_bug_is_a_group_and_one_core_of_it_is_told_in_full(herd: Path) -> None:
    answer = forensics_core(herd)

    crashes = crashes_of(answer.report)
    groups = [sorted(Path(core).name for core in g["cores"]) for g in answer.report["groups"]]
    assert sorted(groups) == [[f"core.{bug}.{copy}" for copy in range(3)] for bug in DEATHS]
    for group in answer.report["groups"]:
        members = {Path(core).name for core in group["cores"]}
        depths = {name: crashes[name]["depth"] for name in members}
        assert sorted(depths.values()) == ["full", "stack", "stack"]
        assert depths[Path(group["representative"]).name] == "full"


def test_a_signature_is_the_same_at_every_depth(herd: Path) -> None:
    core = herd / "core.0.0"

    full = forensics_core("--depth", "full", core).crash
    stack = forensics_core("--depth", "stack", core).crash

    assert full["signature"] == stack["signature"]
    assert full["culprit"] == stack["culprit"]
    assert full["fault"] == stack["fault"]
    places = [
        [
            (frame["function"], frame["file"], frame["line"])
            for frame in crash["threads"][0]["frames"]
        ]
        for crash in (full, stack)
    ]
    assert places[0] == places[1]
    assert any(found["name"] == "depth" for found in full["objects"])
    assert stack["objects"] == []


class CountingUnwinder(Unwinder):
    """Knows how often it was asked for walks."""

    walks = 0

    def walk(
        self, core: str, files: Sequence[MappedFile], starts: Sequence[WalkStart]
    ) -> tuple[Walk, ...]:
        self.walks += 1
        return super().walk(core, files, starts)


def walked(core: Path, unwinder: CountingUnwinder) -> tuple[Answer[Stack], int]:
    """The crashing thread's stack, and how many walks it took."""
    store = ModuleStore()
    notes = CoreImage(map_core(core), store)
    store.program = notes.process.program
    before = unwinder.walks
    stacks = WalkedStacks(notes, store, str(core), unwinder, frozenset())
    return stacks.stack(notes.threads[0]), unwinder.walks - before


def test_the_next_core_of_a_program_is_walked_at_once(tmp_path: Path) -> None:
    program = compile_program(HERD, tmp_path / "fresh", "-fno-optimize-sibling-calls")
    core = leave_core([program, "1"], tmp_path / "run", dies_of=signal.SIGABRT)

    with CountingUnwinder() as unwinder:
        first, rounds = walked(core, unwinder)
        second, at_once = walked(core, unwinder)

    assert isinstance(first, Known)
    assert first == second
    assert (rounds > 1, at_once) == (True, 1)


def test_every_fact_of_a_stack_says_its_tier(herd: Path) -> None:
    stack = forensics_core("--depth", "stack", herd / "core.1.0").crash
    notes = forensics_core("--depth", "notes", herd / "core.1.0").crash

    assert {frame["tier"] for frame in stack["threads"][0]["frames"]} == {"libdw"}
    assert {frame["tier"] for frame in notes["threads"][0]["frames"]} == {"notes"}
    assert "--depth stack" in " ".join(gap["remedy"] for gap in notes["gaps"])
