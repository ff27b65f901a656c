"""Notes first, then gdb; a gdb that fails is a gap, once."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pytest
from tests.py.support.core_builder import CoreSpec, build_core

from vllm_forensics.capture.gdb import GdbSession
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.investigate.layered_image import LayeredImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Gap, Known, Tier

ANSWERS = {
    "-thread-info": 'threads=[{id="1",target-id="LWP 42"}]',
    "-stack-list-frames": 'stack=[frame={level="0",addr="0x401000",func="work(int)",'
    'file="e.cpp",line="7"}]',
    "-stack-list-variables": 'variables=[{name="this",arg="1",value="0x0"}]',
    "-data-evaluate-expression": 'value="3"',
}


class ScriptedGdb(GdbSession):
    """Answers from a table; fails at the command that it is told to fail at."""

    def __init__(self, fail_at: str | None = None) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.entered = 0
        self._fail_at = fail_at

    def __enter__(self) -> Self:
        self.entered += 1
        if self._fail_at == "start":
            raise ToolError("gdb is not installed", remedy="apt-get install gdb")
        return self

    def link(self, path: str) -> str:
        return path

    def command(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        self.asked.append(text)
        name = text.split()[0]
        if name == self._fail_at:
            raise ToolError("gdb died", remedy="try it by hand")
        answer = ANSWERS.get(name)
        return [f"1^done,{answer}" if answer else "1^done"]


def image_with(gdb: ScriptedGdb, tmp_path: Path) -> LayeredImage:
    path = tmp_path / "core"
    path.write_bytes(build_core(CoreSpec()))
    store = ModuleStore()
    notes = CoreImage(memoryview(path.read_bytes()), store)
    return LayeredImage(notes, store, str(path), start_gdb=lambda: gdb)


def test_gdb_is_not_started_for_what_the_notes_know(tmp_path: Path) -> None:
    gdb = ScriptedGdb()
    image = image_with(gdb, tmp_path)

    assert (image.process.pid, len(image.threads), len(image.mappings)) == (42, 1, 1)
    assert isinstance(image.signal, Known)
    image.read(0, 8)
    image.demangle("_ZN1a1bEv")

    assert gdb.entered == 0


def test_the_stack_is_gdbs_with_plain_names(tmp_path: Path) -> None:
    image = image_with(ScriptedGdb(), tmp_path)

    answer = image.unwind(image.threads[0])

    assert isinstance(answer, Known)
    assert answer.tier is Tier.GDB
    assert (answer.value.frames[0].function, answer.value.frames[0].line) == ("work", 7)


def test_a_stack_is_asked_for_once(tmp_path: Path) -> None:
    gdb = ScriptedGdb()
    image = image_with(gdb, tmp_path)
    image.unwind(image.threads[0])
    before = len(gdb.asked)

    image.unwind(image.threads[0])

    assert len(gdb.asked) == before


@pytest.mark.parametrize("fail_at", ["start", "-thread-info", "-stack-list-frames"])
def test_a_gdb_that_fails_is_a_gap_and_the_notes_answer(tmp_path: Path, fail_at: str) -> None:
    gdb = ScriptedGdb(fail_at)
    image = image_with(gdb, tmp_path)

    answer = image.unwind(image.threads[0])
    image.lines(0x40_1000)

    assert isinstance(answer, Known)
    assert answer.value.frames[0].pc == 0x40_1000
    assert image.gdb_gap is not None
    assert image.gdb_gap.tier is Tier.GDB
    assert gdb.entered == 1


@pytest.mark.parametrize(
    "expression",
    [
        "free(x)",
        "system (0)",
        "x = 3",
        "$_exit",
        "a; b",
        "",
        "x\n",
        "(*f)(1)",
        "t[0](1)",
        "x->f (1)",
    ],
)
def test_only_names_and_members_are_evaluated(tmp_path: Path, expression: str) -> None:
    gdb = ScriptedGdb()
    image = image_with(gdb, tmp_path)
    answer = image.unwind(image.threads[0])
    assert isinstance(answer, Known)

    found = image.variable(answer.value.frames[0], expression)

    assert isinstance(found, Gap)
    assert not any("evaluate" in asked for asked in gdb.asked)


def test_a_member_path_is_evaluated_in_its_frame(tmp_path: Path) -> None:
    gdb = ScriptedGdb()
    image = image_with(gdb, tmp_path)
    answer = image.unwind(image.threads[0])
    assert isinstance(answer, Known)

    found = image.variable(answer.value.frames[0], "this->blocks_[3].id")

    assert isinstance(found, Known)
    assert found.value.value == "3"
    assert any("--frame 0" in asked and "this->blocks_[3].id" in asked for asked in gdb.asked)
