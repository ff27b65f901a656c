"""`forensics core --why A B`, and that a signature does not depend on how a core is read."""

import json
import shutil
import signal
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.crashes import compile_program, leave_core
from tests.py.integration.tool import REPOSITORY, Json, forensics, forensics_core

pytestmark = pytest.mark.gdb

PROGRAM = """\
#include <cstdlib>
#include <thread>
struct Block { long header; int id; };
__attribute__((noinline)) int read_id(Block* volatile block) { return block->id; }
__attribute__((noinline)) int descend(Block* block, int depth) {
  return depth > 0 ? descend(block, depth - 1) + 1 : read_id(block) + 1;
}
__attribute__((noinline)) int fail(int code) { if (code) abort(); return code; }
int main(int, char** arguments) {
  const int depth = atoi(arguments[2]);
  switch (arguments[1][0]) {
    case 'n': return descend(nullptr, depth);
    case 'w': return descend(reinterpret_cast<Block*>(0x7000000000), depth);
    case 't': std::thread([&] { descend(nullptr, depth); }).join(); return 0;
    default: return fail(depth);
  }
}
"""


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("why")
    program = compile_program(PROGRAM, folder / "program", "-fno-optimize-sibling-calls")
    found = {}
    for name, mode, depth in (
        ("null", "n", 3), ("deep", "n", 40), ("wild", "w", 3), ("thread", "t", 3),
        ("abort", "a", 1),
    ):  # fmt: skip
        dies_of = signal.SIGABRT if name == "abort" else signal.SIGSEGV
        found[name] = leave_core([program, mode, str(depth)], folder / name, dies_of=dies_of)
    return found


def signature(*arguments: str | Path) -> str:
    return str(forensics_core("--no-store", *arguments).crash["signature"])


def why(*arguments: str | Path) -> tuple[int, Json]:
    answer = forensics("core", "--format", "json", "--why", *arguments)
    schema = REPOSITORY / "docs" / "schemas" / "forensics.why.1.json"
    jsonschema.validate(answer.report, json.loads(schema.read_text(encoding="utf-8")))
    return answer.status, answer.report


def test_a_signature_does_not_depend_on_the_depth_or_on_gdb(
    cores: dict[str, Path], tmp_path: Path
) -> None:
    without_gdb = tmp_path / "bin"
    without_gdb.mkdir()
    environment = {"PATH": str(without_gdb)}

    for core in (cores["null"], cores["abort"], cores["thread"]):
        wanted = signature("--depth", "stack", core)
        bare = forensics(
            "core", "--format", "json", "--no-store", core, environment=environment
        ).crash

        assert signature("--depth", "full", core) == wanted
        assert bare["signature"] == wanted
        assert any("gdb" in gap["what"] for gap in bare["gaps"])


def test_two_bugs_of_python_code_alone_are_told_apart(tmp_path: Path) -> None:
    signatures = set()
    for name in ("serve", "load"):
        script = tmp_path / "app.py"
        script.write_text(
            f"import ctypes\ndef {name}():\n    ctypes.string_at(8)\n{name}()\n", encoding="utf-8"
        )
        core = leave_core([sys.executable, script], tmp_path / name)
        stack = forensics_core("--no-store", "--depth", "stack", core).crash
        full = forensics_core("--no-store", "--depth", "full", core).crash
        assert stack["signature"] == full["signature"]
        assert f"{name} (app.py)" in [part["value"] for part in full["signature_parts"]]
        signatures.add(full["signature"])

    assert len(signatures) == 2


def test_null_and_wild_deep_and_shallow_are_one_bug(cores: dict[str, Path]) -> None:
    for other in ("wild", "deep"):
        status, answer = why(cores["null"], cores[other])

        assert (status, answer["same"]) == (0, True)
        assert answer["a"]["core"] == str(cores["null"])
    assert "kind of the fault" in {
        part["part"] for part in why(cores["null"], cores["wild"])[1]["dropped"]
    }


def test_two_bugs_differ_in_what_is_said(cores: dict[str, Path]) -> None:
    answer = forensics("core", "--why", cores["null"], cores["abort"])

    assert answer.status == 1
    assert answer.stdout.startswith("two bugs\n")
    assert "≠  signal   memory-access  abort" in answer.stdout


def test_a_signature_is_known_from_the_store(cores: dict[str, Path]) -> None:
    known = forensics_core(cores["null"]).crash["signature"]

    status, answer = why(known, cores["wild"])

    assert (status, answer["same"]) == (0, True)
    assert {part["part"] for part in answer["parts"]} >= {"signal", "frame 1"}
    assert answer["a"]["core"] is None


def test_a_signature_that_nobody_knows_is_compared_by_its_hash(cores: dict[str, Path]) -> None:
    status, answer = why("v1:abort:f:000000000000", cores["null"])

    assert status == 1
    assert {part["part"] for part in answer["parts"]} == {"version", "kind", "name", "hash"}
    assert "in no store here" in answer["explanation"]


def test_what_is_no_core_is_refused(cores: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    shutil.copy(cores["null"], tmp_path / "core.1")
    shutil.copy(cores["null"], tmp_path / "core.2")

    for bad, said in ((tmp_path / "text", "text file"), (tmp_path, "2 cores"), ("no", "opened")):
        answer = forensics("core", "--why", cores["null"], bad)

        assert answer.status == 2
        assert said in answer.stderr
    assert forensics("core", "--why", "a", "b", cores["null"]).status == 2
