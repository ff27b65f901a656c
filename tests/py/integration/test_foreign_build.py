"""`forensics build --source`: strangers' extensions, unedited, built by one command and proved."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.foreign_projects import (
    Sdist,
    changes,
    make_repository,
    project,
    released,
)
from tests.py.integration.tool import REPOSITORY, Answer, forensics
from tests.py.integration.victim_cases import run_tool

from vllm_forensics.capture.foreign_build.workspace import MARKER

pytestmark = pytest.mark.asan
SCHEMA = REPOSITORY / "docs" / "schemas" / "forensics.build.1.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """One project, what triggers its planted fault, and what it is to be explained as."""

    name: str
    system: str
    code: str
    kind: str
    file: str


STRANGERS = (
    Stranger(
        name="scikit_pybind11",
        system="scikit-build-core",
        code="import slots; t = slots.SlotTable(8); t.keep(3); t.grow(4000); t.kept()",
        kind="heap-use-after-free",
        file="src/slots.cpp",
    ),
    Stranger(
        name="setuptools_capi",
        system="setuptools",
        code="import rowsum; rowsum.rowsum(10)",
        kind="heap-buffer-overflow",
        file="src/rowsum.c",
    ),
    Stranger(
        name="meson_cython",
        system="meson-python",
        code="import twice; twice.give_twice(100)",
        kind="double-free",
        file="pool.c",
    ),
    Stranger(
        name="nanobind",
        system="scikit-build-core",
        code="import window; window.last_of(8)",
        kind="stack-buffer-overflow",
        file="src/window.cpp",
    ),
)


def build(source: Path, *arguments: str | Path, **options: Any) -> Answer:
    return forensics("build", "--source", source, *arguments, timeout_s=900, **options)


def manifest_of(answer: Answer) -> dict[str, Any]:
    assert answer.status in {0, 1}, answer.stderr
    value = answer.report
    jsonschema.validate(value, json.loads(SCHEMA.read_text(encoding="utf-8")))
    on_disk = Path(value["folder"], "build.json").read_text(encoding="utf-8")
    assert json.loads(on_disk) == value
    return value


def is_instrumented(path: str) -> bool:
    """As binutils see it, which know nothing of us."""
    symbols = run_tool(("nm", "-D", path))
    sections = run_tool(("readelf", "-S", "--wide", path))
    needed = [line for line in run_tool(("readelf", "-d", path)).splitlines() if "NEEDED" in line]
    runtimes = [line for line in needed if "asan" in line]
    return "__asan_init" in symbols and ".debug_info" in sections and len(runtimes) == 1


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda one: one.name)
def test_an_extension_is_built_run_and_explained_by_one_command_each(
    stranger: Stranger, tmp_path: Path
) -> None:
    with project(stranger.name) as source:
        answer = build(source, "--asan", "--format", "json")
        manifest = manifest_of(answer)
        output = tmp_path / "run.json"
        ran = forensics(
            *("run", "--asan", "--build", manifest["folder"], "--format", "json"),
            *("--output", output, "--folder", tmp_path / "run", "--"),
            *("python", "-c", stranger.code),
            timeout_s=120,
        )
        [report] = json.loads(output.read_text(encoding="utf-8"))["reports"]

        assert answer.status == 0
        assert manifest["proved"]
        assert manifest["system"] == stranger.system
        [built] = manifest["files"]
        assert built["proof"]["verdict"] == "proved"
        assert built["proof"]["frame_pointers"] == "kept"
        assert built["proof"]["runtimes"][0].startswith("libasan.so")
        assert is_instrumented(built["path"])
        assert changes(source) == ""
        assert ran.status == 128 + signal.SIGABRT
        assert report["kind"] == stranger.kind
        assert report["culprit"]["file"] == str(source / stranger.file)


REAL = (
    # Strips its module unless a variable of its own says otherwise; C++; its version is from git.
    Sdist(
        name="ujson",
        version="6.1.0",
        sha256="aef7ea4cd9e2e9f8a35c4538a9780d58c80d76c5da66a8dad269b4cc6d930c29",
    ),
    Sdist(
        name="markupsafe",
        version="3.0.2",
        sha256="ee55d3edf80167e48ea11a923c7386f4669df67d7994554387f84e7d8b0a2bf0",
    ),
)
USES = {
    "ujson": "import ujson; print(ujson.loads(ujson.dumps([1.5, 'a'])))",
    "markupsafe": "import markupsafe._speedups; print(markupsafe.escape('<'))",
}


@pytest.mark.parametrize("sdist", REAL, ids=lambda one: one.name)
def test_a_released_extension_is_built_unedited_and_works(sdist: Sdist) -> None:
    with released(sdist) as source:
        manifest = manifest_of(build(source, "--asan", "--format", "json"))
        launcher = manifest["python"]["launcher"]
        said = run_tool((launcher, "-c", USES[sdist.name]))

        assert manifest["proved"]
        assert all(is_instrumented(file["path"]) for file in manifest["files"])
        assert changes(source) == ""
        assert said in {"[1.5, 'a']\n", "&lt;\n"}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_cmake_without_python_gives_programs_and_libraries(compiler: str, tmp_path: Path) -> None:
    with project("cmake_only") as source:
        folder = tmp_path / "a folder"
        answer = build(source, "--asan", "--compiler", compiler, "--folder", folder)
        program = next(line for line in answer.stdout.splitlines() if line.endswith("ring_demo"))
        ran = subprocess.run([program], capture_output=True, timeout=60, check=False)

        assert answer.status == 0, answer.stderr
        assert "proved  2 files with AddressSanitizer" in answer.stdout
        assert f"forensics run --asan -- '{program}'" in answer.stdout
        assert b"alloc-dealloc-mismatch" in ran.stderr
        assert changes(source) == ""


@pytest.mark.parametrize(
    ("flags", "flavour", "symbol"),
    [
        (("--ubsan",), "ubsan", "__ubsan_handle_"),
        (("--tsan",), "tsan", "__tsan_init"),
        (("--asan", "--ubsan"), "asan-ubsan", "__asan_init"),
        (("--hardened",), "hardened", "__stack_chk_fail"),
        ((), "debug", "main"),
    ],
)
def test_every_flavour_has_its_proof(
    tmp_path: Path, flags: tuple[str, ...], flavour: str, symbol: str
) -> None:
    sources = {"main.cpp": LOCAL_ARRAY, "CMakeLists.txt": f"{CMAKE}add_executable(it main.cpp)\n"}
    source = make_project(tmp_path / "it", sources)

    manifest = manifest_of(build(source, *flags, "--format", "json"))

    [built] = manifest["files"]
    assert (manifest["flavour"], manifest["proved"]) == (flavour, True), built["proof"]
    assert Path(manifest["folder"]) == source / ".forensics" / flavour
    assert symbol in run_tool(("nm", built["path"]))


LOCAL_ARRAY = """\
#include <cstdio>
#include <cstring>
int main(int argc, char** argv) {
  char text[64];
  std::strncpy(text, argv[0], sizeof(text) - 1);
  text[argc + 20] = 0;
  return std::printf("%s", text) + argc * 3;
}
"""
CMAKE = "cmake_minimum_required(VERSION 3.15...3.30)\nproject(it LANGUAGES C CXX)\n"
LIBRARY = "int twice(int value) { return 2 * value; }\n"


def make_project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def absolute(name: str) -> str:
    found = shutil.which(name)
    assert found is not None
    return found


def plain_library(answer: Answer) -> dict[str, Any]:
    manifest = manifest_of(answer)
    assert answer.status == 1
    assert not manifest["proved"]
    assert manifest["next_steps"] == []
    plain = [file for file in manifest["files"] if file["proof"]["verdict"] == "plain"]
    [file] = plain
    assert isinstance(file, dict)
    return file


def test_a_library_that_was_shipped_ready_built_is_named(tmp_path: Path) -> None:
    source = make_project(
        tmp_path / "it",
        {
            "own.c": LIBRARY,
            "CMakeLists.txt": f"{CMAKE}add_library(own SHARED own.c)\n"
            "file(COPY lib/libvendor.so DESTINATION .)\n",
        },
    )
    (source / "lib").mkdir()
    subprocess.run(
        ["gcc", "-g", "-shared", "-fPIC", "own.c", "-o", "lib/libvendor.so"], cwd=source, check=True
    )

    file = plain_library(build(source, "--asan", "--format", "json"))

    assert Path(file["path"]).name == "libvendor.so"
    assert file["reasons"] == [
        "it lies ready-built in the source tree, as lib/libvendor.so: nothing compiled it"
    ]


def test_a_project_that_calls_a_compiler_of_its_own_is_told_where(tmp_path: Path) -> None:
    gcc = absolute("gcc")
    source = make_project(
        tmp_path / "it",
        {
            "own.c": LIBRARY,
            "CMakeLists.txt": f"{CMAKE}add_custom_target(own ALL\n"
            f"  COMMAND {gcc} -O3 -g -shared -fPIC ${{CMAKE_SOURCE_DIR}}/own.c -o libown.so)\n",
        },
    )

    file = plain_library(build(source, "--asan", "--format", "json"))

    assert "no __asan_init among its symbols" in file["proof"]["problems"][0]
    assert "the compiler that the build was given did not link it" in file["reasons"][0]
    assert "-O3" in file["reasons"][0]
    assert file["reasons"][1].startswith(f"CMakeLists.txt:4 chooses a compiler: COMMAND {gcc}")


def test_a_library_that_is_stripped_after_linking_is_told_where(tmp_path: Path) -> None:
    strip = absolute("strip")
    source = make_project(
        tmp_path / "it",
        {
            "own.c": LIBRARY,
            "CMakeLists.txt": f"{CMAKE}add_library(own SHARED own.c)\n"
            f"add_custom_command(TARGET own POST_BUILD COMMAND {strip} $<TARGET_FILE:own>)\n",
        },
    )

    file = plain_library(build(source, "--asan", "--format", "json"))

    assert file["proof"]["problems"] == ["it has no debug information: a report could name no line"]
    assert file["reasons"][0] == "it was linked with debug information and stripped afterwards"
    assert file["reasons"][1].startswith("CMakeLists.txt:4 strips: add_custom_command")


def test_flags_that_a_project_sets_itself_undo_nothing(tmp_path: Path) -> None:
    source = make_project(
        tmp_path / "it",
        {
            "own.c": LIBRARY,
            "CMakeLists.txt": f"{CMAKE}set(CMAKE_C_FLAGS -O3)\n"
            "set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)\n"
            "add_library(own SHARED own.c)\n"
            'set_target_properties(own PROPERTIES COMPILE_OPTIONS "-g0;-flto;-Werror"\n'
            '  LINK_OPTIONS "-s;-Wl,--strip-all;-Wl,-O1,-s,--as-needed")\n'
            "add_custom_command(TARGET own POST_BUILD COMMAND strip $<TARGET_FILE:own>)\n",
        },
    )

    manifest = manifest_of(build(source, "--asan", "--format", "json"))

    [file] = manifest["files"]
    assert (file["proof"]["verdict"], file["proof"]["notes"]) == ("proved", [])
    assert is_instrumented(file["path"])


def test_objects_that_another_compiler_made_are_named(tmp_path: Path) -> None:
    gcc = absolute("gcc")
    source = make_project(
        tmp_path / "it",
        {
            "own.c": LIBRARY,
            "fast.c": "int thrice(int value) { return 3 * value; }\n",
            "CMakeLists.txt": f"{CMAKE}add_custom_command(OUTPUT fast.o\n"
            f"  COMMAND {gcc} -O3 -g -fPIC\n"
            "  -c ${CMAKE_SOURCE_DIR}/fast.c -o fast.o DEPENDS fast.c)\n"
            "add_library(own SHARED own.c ${CMAKE_BINARY_DIR}/fast.o)\n",
        },
    )

    answer = build(source, "--asan")

    assert answer.status == 0, answer.stderr
    assert "partly  1 of 1 file" in answer.stdout
    assert "fast.c is plain: GNU C17" in answer.stdout


SETUP = """\
import os
from setuptools import Extension, setup
{before}
setup(name="own", version="1", ext_modules=[Extension("own", ["own.c"])])
"""
MODULE = """\
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "own", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_own(void) { return PyModule_Create(&definition); }
"""


def test_a_setup_py_that_replaces_the_compiler_is_told_where(tmp_path: Path) -> None:
    before = f'os.environ["CC"] = "{absolute("gcc")}"'
    source = make_project(
        tmp_path / "it", {"own.c": MODULE, "setup.py": SETUP.format(before=before)}
    )

    answer = build(source, "--asan")

    assert answer.status == 1, answer.stderr
    assert "failed  1 of 1 file came out without AddressSanitizer" in answer.stdout
    assert f"setup.py:3 chooses a compiler: {before}" in answer.stdout


def test_what_a_setup_py_needs_and_does_not_say_can_be_given(tmp_path: Path) -> None:
    """numpy is the usual one; this is small."""
    undeclared = SETUP.format(before="import iniconfig")
    source = make_project(tmp_path / "it", {"own.c": MODULE, "setup.py": undeclared})

    without = build(source, "--asan")
    given = build(source, "--asan", "--with", "iniconfig", "--quiet")

    assert without.status == 2
    assert "ModuleNotFoundError: No module named 'iniconfig'" in without.stderr
    assert "--with" in without.stderr
    assert given.status == 0, given.stderr
    run_tool((f"{source}/.forensics/asan/venv/bin/python-asan", "-c", "import iniconfig, own"))


def test_the_compilers_own_error_is_shown_without_what_stands_around_it(tmp_path: Path) -> None:
    broken = MODULE + "int broken( { return undeclared_name; }\n"
    source = make_project(tmp_path / "it", {"own.c": broken, "setup.py": SETUP.format(before="")})

    answer = build(source, "--asan")

    assert answer.status == 2
    assert f"{source}/own.c:4:13: error: " in answer.stderr
    assert "int broken( {" in answer.stderr
    assert "setuptools" not in answer.stderr.partition("wheel failed:")[2].partition("log:")[0]
    log = Path(answer.stderr.partition("\nlog: ")[2].splitlines()[0])
    assert "gcc" in log.read_text(encoding="utf-8")


def test_an_optional_extension_that_failed_is_not_taken_for_nothing(tmp_path: Path) -> None:
    setup = SETUP.format(before="").replace('["own.c"]', '["own.c"], optional=True')
    source = make_project(tmp_path / "it", {"own.c": MODULE + "#error no\n", "setup.py": setup})

    answer = build(source, "--asan")

    assert answer.status == 2
    assert "no native code came out of it" in answer.stderr
    assert f"{source}/own.c:4:2: error: #error no" in answer.stderr


def test_a_configuration_error_is_shown(tmp_path: Path) -> None:
    text = f'{CMAKE}message(FATAL_ERROR "refused on purpose")\n'
    source = make_project(tmp_path / "it", {"CMakeLists.txt": text})

    answer = build(source, "--asan")

    assert answer.status == 2
    assert "configure failed:\nCMake Error at CMakeLists.txt:3" in answer.stderr
    assert "refused on purpose" in answer.stderr


def test_what_could_not_be_fetched_is_named(tmp_path: Path) -> None:
    source = make_project(
        tmp_path / "it",
        {
            "pyproject.toml": '[build-system]\nrequires = ["setuptools", "nowhere-to-be-had>=2"]\n'
            'build-backend = "setuptools.build_meta"\n[project]\nname = "own"\nversion = "1"\n',
        },
    )
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}

    answer = build(source, "--asan", environment=offline)

    assert answer.status == 2
    assert "build requirements failed" in answer.stderr
    assert "needed: setuptools, nowhere-to-be-had>=2" in answer.stderr
    assert "PIP_FIND_LINKS" in answer.stderr


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ("maturin", "maturin: Rust"),
        ("hatchling.build", "made a package without native code"),
    ],
)
def test_a_backend_that_makes_nothing_to_instrument_is_refused(
    tmp_path: Path, backend: str, says: str
) -> None:
    source = make_project(
        tmp_path / "it",
        {
            "pyproject.toml": f'[build-system]\nrequires = ["{backend.partition(".")[0]}"]\n'
            f'build-backend = "{backend}"\n[project]\nname = "own"\nversion = "1"\n',
            "own/__init__.py": "",
        },
    )

    answer = build(source, "--asan")

    assert answer.status == 2
    assert says in answer.stderr


def test_a_folder_without_a_build_is_refused(tmp_path: Path) -> None:
    answer = build(tmp_path, "--asan")

    assert answer.status == 2
    assert "no pyproject.toml, setup.py or CMakeLists.txt" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    source = make_project(tmp_path / "it", {"CMakeLists.txt": CMAKE})
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "work").write_text("mine")

    answer = build(source, "--asan", "--folder", tmp_path / "precious")

    assert answer.status == 2
    assert "holds something" in answer.stderr
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["work"]


def test_a_second_build_compiles_what_was_edited_and_no_more(tmp_path: Path) -> None:
    source = make_project(
        tmp_path / "it",
        {
            "one.c": LIBRARY,
            "two.c": "int more(int value) { return value + 1; }\n",
            "CMakeLists.txt": f"{CMAKE}add_library(own SHARED one.c two.c)\n",
        },
    )
    first = manifest_of(build(source, "--asan", "--format", "json"))
    (source / "two.c").write_text("int most(int value) { return value + 2; }\n")

    second = manifest_of(build(source, "--asan", "--format", "json"))

    calls = (source / ".forensics" / "asan" / "trace" / "calls").iterdir()
    said = "".join(path.read_text() for path in calls)
    assert "two.c.o\x1f" in said
    assert "/one.c\x1f" not in said
    assert "most" in run_tool(("nm", "-D", second["files"][0]["path"]))
    assert first["files"][0]["build_id"] != second["files"][0]["build_id"]


def test_two_builds_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    source = make_project(tmp_path / "it", {"CMakeLists.txt": CMAKE})
    folder = tmp_path / "folder"
    folder.mkdir()
    with (folder / MARKER).open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        answer = build(source, "--asan", "--folder", folder)

    assert answer.status == 2
    assert f"another build is at work in {folder}" in answer.stderr


def test_an_unknown_python_is_refused(tmp_path: Path) -> None:
    source = make_project(tmp_path / "it", {"own.c": MODULE, "setup.py": SETUP.format(before="")})

    answer = build(source, "--asan", "--python", "/bin/false")

    assert answer.status == 2
    assert "/bin/false does not run" in answer.stderr


def test_what_an_earlier_build_left_in_the_tree_is_not_taken(tmp_path: Path) -> None:
    source = make_project(
        tmp_path / "it",
        {
            "own.c": MODULE,
            "setup.py": SETUP.format(before=""),
            ".gitignore": "build/\n*.so\n*.egg-info/\n",
        },
    )
    make_repository(source)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=source, check=True, env={**os.environ, "CFLAGS": "-O0"})

    manifest = manifest_of(build(source, "--asan", "--format", "json"))

    assert manifest["proved"]
    assert changes(source) == ""


def test_progress_names_steps_and_their_time(tmp_path: Path) -> None:
    source = make_project(
        tmp_path / "it",
        {"main.cpp": LOCAL_ARRAY, "CMakeLists.txt": f"{CMAKE}add_executable(it main.cpp)"},
    )

    answer = build(source, "--asan")
    quiet = build(source, "--asan", "--quiet")

    steps = [line.partition(": ")[0] for line in answer.stderr.splitlines()]
    assert steps == ["configure", "build", "proof"]
    assert quiet.stderr == ""
    assert quiet.stdout == f"{source}/.forensics/asan/build/it\n"
