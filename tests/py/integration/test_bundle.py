"""A crash is packed, and explained where nothing of it is left."""

import io
import json
import shutil
import signal
import sys
import sysconfig
import tarfile
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.crashes import compile_program, leave_core
from tests.py.integration.tool import REPOSITORY, Json, forensics, forensics_core
from tests.py.integration.victim_cases import run_tool

from vllm_forensics.capture.core_sources import opened_core

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.gdb

LIBRARY = """\
struct Node { long header; long value; };
extern "C" __attribute__((noinline)) long read_value(Node* volatile node, long scale) {
  return node->value * scale;  // line 3
}
"""
PROGRAM = """\
#include <cstring>
#include <vector>
struct Node;
extern "C" long read_value(Node* volatile node, long scale);
std::vector<char> memory(8 << 20, 'x');
__attribute__((noinline)) long walk(Node* node, long scale) {
  return read_value(node, scale) + 1;
}
int main() { return walk(nullptr, 7) + memory[9]; }
"""
CANARY = "canary-5f2d"


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A core in a folder with the program and the library that it is of."""
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "library.cpp").write_text(LIBRARY, encoding="utf-8")
    library = folder / "libwalk.so"
    run_tool(
        ("g++", "-g", "-O1", "-shared", "-fPIC", str(folder / "library.cpp"), "-o", str(library))
    )
    program = compile_program(PROGRAM, folder / "program", "-Wl,--no-as-needed", str(library))
    debug = folder / "libwalk.debug"
    run_tool(("objcopy", "--only-keep-debug", str(library), str(debug)))
    run_tool(("strip", "--strip-debug", str(library)))
    return leave_core(
        [program, f"--password={CANARY}"],
        folder / "run",
        environment={"PASSWORD": CANARY},
        dies_of=signal.SIGSEGV,
    )


def make(crash: Path, target: Path, *arguments: str) -> Json:
    symbols = crash.parent.parent / "libwalk.debug"
    answer = forensics(
        "bundle", "--format", "json", "--output", target, "--symbols", symbols, *arguments, crash
    )
    assert answer.status == 0, answer.stderr
    schema = REPOSITORY / "docs" / "schemas" / "forensics.bundle.1.json"
    jsonschema.validate(answer.report, json.loads(schema.read_text(encoding="utf-8")))
    return answer.report


def told(crash: Json) -> Json:
    """What a person reads, without the places on this machine."""
    frames = [
        {name: value for name, value in frame.items() if name != "pc"}
        for frame in crash["threads"][0]["frames"]
    ]
    kept = ("signature", "signature_parts", "fault", "culprit", "origin", "objects", "explanation")
    return {name: crash[name] for name in kept} | {"frames": frames}


def test_a_bundle_is_explained_where_program_and_libraries_are_gone(
    crash: Path, tmp_path: Path
) -> None:
    home = crash.parent.parent
    wanted = forensics_core("--no-store", "--symbols", home / "libwalk.debug", crash).crash
    made = make(crash, tmp_path / "crash.tar.zst")
    away = home.rename(home.with_name("away"))

    try:
        found = forensics_core("--no-store", tmp_path / "crash.tar.zst").crash
    finally:
        away.rename(home)

    assert told(found) == told(wanted)
    assert found["culprit"]["line"] == 3
    assert any(frame["arguments"] == "node=0x0, scale=7" for frame in found["threads"][0]["frames"])
    assert made["signature"] == found["signature"]
    assert {file["kind"] for file in made["files"]} >= {"module", "debug"}


def test_secrets_are_taken_out_unless_they_are_wanted(crash: Path, tmp_path: Path) -> None:
    assert CANARY.encode() in crash.read_bytes()

    make(crash, tmp_path / "a")
    make(crash, tmp_path / "b", "--include-secrets")

    with opened_core(str(tmp_path / "a")) as kept:
        assert CANARY.encode() not in Path(kept.file).read_bytes()
    with opened_core(str(tmp_path / "b")) as kept:
        assert Path(kept.file).read_bytes() == crash.read_bytes()


def test_a_small_budget_cuts_the_core_down_and_leaves_large_files_out(
    crash: Path, tmp_path: Path
) -> None:
    target = tmp_path / "small"

    made = make(crash, target, "--budget", "2")

    assert made["minified"] is True
    assert made["core_size"] + sum(file["size"] for file in made["files"]) <= 2_000_000
    assert any("did not fit" in file["why"] for file in made["left_out"])
    assert next(Path(file["module"]).name for file in made["files"]) == "program"
    assert forensics_core("--no-store", target).crash["signature"] == made["signature"]


def test_the_manifest_says_what_is_in_it(crash: Path, tmp_path: Path) -> None:
    target = tmp_path / "made.tar.zst"
    made = make(crash, target)

    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(target.read_bytes()))) as archive:
        file = archive.extractfile("manifest.json")
        assert file is not None
        manifest = json.load(file)
        sizes = {entry.name: entry.size for entry in archive.getmembers()}

    assert manifest["format"] == "forensics.bundle/1"
    assert manifest["signature"] == made["signature"]
    assert {item["name"]: item["size"] for item in manifest["files"]}.items() <= sizes.items()
    assert CANARY not in json.dumps(manifest)


def test_a_rebuilt_program_is_left_out(crash: Path, tmp_path: Path) -> None:
    program = crash.parent.parent / "program"
    shutil.copy2(program, tmp_path / "kept")
    compile_program("int main() { return 1; }", program)

    try:
        made = make(crash, tmp_path / "made")
    finally:
        shutil.copy2(tmp_path / "kept", program)

    assert any("rebuilt" in file["why"] for file in made["left_out"])
    assert "program" not in {Path(file["module"]).name for file in made["files"]}


def test_a_compressed_core_is_explained_with_its_values_too(crash: Path, tmp_path: Path) -> None:
    target = tmp_path / "core.zst"
    target.write_bytes(zstd.compress(crash.read_bytes()))

    found = forensics_core(
        "--no-store", "--symbols", crash.parent.parent / "libwalk.debug", target
    ).crash

    assert found["threads"][0]["frames"][0]["arguments"] == "node=0x0, scale=7"


def test_python_frames_are_there_where_the_interpreter_is_gone(tmp_path: Path) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    program = Path(shutil.copy(Path(sys.executable).resolve(), home / "python3"))
    shared = sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        shutil.copy(Path(sysconfig.get_config_var("LIBDIR"), shared), home)
    script = tmp_path / "serve.py"
    script.write_text(
        "import ctypes\ndef serve():\n    ctypes.string_at(8)\nserve()\n", encoding="utf-8"
    )
    core = leave_core(
        [program, script],
        tmp_path / "run",
        environment={"PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": str(home)},
    )
    assert forensics("bundle", "--output", tmp_path / "made", core).status == 0
    home.rename(away)

    found = forensics_core("--no-store", tmp_path / "made").crash

    frames = found["threads"][0]["frames"]
    python = [
        (frame["function"], frame["line"]) for frame in frames if frame["file"] == str(script)
    ]
    assert python == [("serve", 3), ("<module>", 4)]


def test_what_is_no_core_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello", encoding="utf-8")

    for bad in (tmp_path / "text", tmp_path / "missing", tmp_path):
        answer = forensics("bundle", bad, cwd=tmp_path)

        assert answer.status == 2
        assert answer.stderr.startswith("error")
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
