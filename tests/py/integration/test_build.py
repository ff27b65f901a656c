"""`forensics build` makes the specimen in a preset, or says whole what went wrong."""

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.py.integration.tool import REPOSITORY, Answer, forensics
from tests.py.integration.victim_cases import run_tool

from vllm_forensics.capture import build
from vllm_forensics.capture.build import BuildPlan, build_specimen
from vllm_forensics.errors import ToolError, UsageError
from vllm_forensics.investigate.build import prove_file
from vllm_forensics.model.build import Flavour, Verdict

FOLDER = REPOSITORY / "build" / "build-tests"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where results stay from run to run, so that only what changed is built again."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield FOLDER


def printed_paths(answer: Answer) -> list[Path]:
    return [Path(line) for line in answer.stdout.splitlines() if line.startswith("/")]


@pytest.mark.asan
def test_a_sanitizer_build_gives_programs_and_module(folder: Path) -> None:
    answer = forensics("build", "--asan", "--folder", folder / "asan", timeout_s=600)

    assert answer.status == 0, answer.stderr
    paths = printed_paths(answer)
    names = [path.name for path in paths]
    assert names[0] == "minimal_demo"
    assert names[-1].startswith("_native")
    assert "asan: built in " in answer.stdout
    for path in paths:
        assert path.is_relative_to(folder / "asan")
        symbols = run_tool(("nm", "-D", str(path)))
        assert "__asan_init" in symbols, path
        assert ".debug_info" in run_tool(("readelf", "-S", "--wide", str(path))), path


@pytest.mark.asan
def test_the_next_steps_that_are_printed_work(folder: Path) -> None:
    answer = forensics("build", "--asan", "--folder", folder / "asan", timeout_s=600)

    _, _, hint = answer.stdout.partition("\nnext  ")
    program, module = hint.strip().splitlines()
    listed = run_tool(("sh", "-c", program))
    beside = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    imported = run_tool(("env", f"PATH={beside['PATH']}", "sh", "-c", module))

    assert "NullDereference." in listed
    assert imported == ""


@pytest.mark.asan
def test_quiet_prints_paths_alone(folder: Path) -> None:
    answer = forensics("build", "--asan", "--quiet", "--folder", folder / "asan", timeout_s=600)

    assert answer.status == 0, answer.stderr
    assert answer.stdout.splitlines() == [str(path) for path in printed_paths(answer)]


@pytest.mark.asan
def test_our_own_sources_are_proved_too(folder: Path) -> None:
    answer = forensics(
        *("build", "--asan", "--folder", folder / "asan", "--format", "json"), timeout_s=600
    )

    manifest = answer.report
    assert (answer.status, manifest["proved"], manifest["system"]) == (0, True, "specimen")
    assert manifest == json.loads((folder / "asan" / "build.json").read_text(encoding="utf-8"))
    for file in manifest["files"]:
        assert file["proof"]["verdict"] == "proved", file
        assert file["proof"]["frame_pointers"] == "kept", file


@pytest.mark.asan
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_hardened_preset_is_proved(folder: Path, compiler: str) -> None:
    target = folder / f"hardened-{compiler}"
    plan = BuildPlan(preset="hardened", folder=target, compiler=compiler, python_module=False)

    [program] = build_specimen(plan).programs
    proof = prove_file(program, Flavour(hardened=True)).proof

    assert (proof.verdict, proof.problems) == (Verdict.PROVED, ())
    assert {"stack-protector", "library-assertions"} <= set(proof.hardening)


def test_our_own_sources_are_told_from_the_project_that_one_stands_in(tmp_path: Path) -> None:
    (tmp_path / "setup.py").touch()

    answer = forensics("build", "--asan", "--tsan", cwd=tmp_path)

    assert "for the project here: --source ." in answer.stderr


def test_sanitizers_and_hardening_are_refused_together() -> None:
    answer = forensics("build", "--asan", "--hardened")

    assert answer.status == 2
    assert "build twice" in answer.stderr


def test_sanitizers_that_exclude_each_other_are_refused() -> None:
    answer = forensics("build", "--asan", "--tsan")

    assert answer.status == 2
    assert "ThreadSanitizer" in answer.stderr


def copied_sources(target: Path) -> Path:
    """A checkout's C++ part, which a test may break."""
    target.mkdir()
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy(REPOSITORY / name, target)
    for name in ("csrc", "cmake"):
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, target / name)
    return target


def test_a_compile_error_is_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = copied_sources(tmp_path / "sources")
    with (sources / "csrc" / "arena.cpp").open("a") as file:
        file.write("\nint broken_on_purpose( { return undeclared_name; }\n")
    monkeypatch.setattr(build, "source_folder", lambda: sources)
    plan = BuildPlan(preset="debug", folder=tmp_path / "build", python_module=False)

    with pytest.raises(ToolError) as caught:
        build_specimen(plan)

    message = caught.value.message
    assert "building failed" in message
    assert "csrc/arena.cpp" in message
    assert "error: " in message
    assert "broken_on_purpose( {" in message
    assert caught.value.remedy


def test_a_configuration_error_is_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = copied_sources(tmp_path / "sources")
    with (sources / "CMakeLists.txt").open("a") as file:
        file.write('\nmessage(FATAL_ERROR "refused on purpose")\n')
    monkeypatch.setattr(build, "source_folder", lambda: sources)
    plan = BuildPlan(preset="debug", folder=tmp_path / "build", python_module=False)

    with pytest.raises(ToolError, match="refused on purpose"):
        build_specimen(plan)


def test_the_tests_are_built_from_a_checkout_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "source_folder", lambda: tmp_path)
    plan = BuildPlan(preset="debug", folder=tmp_path / "build", tests=True)

    with pytest.raises(UsageError, match="not in an installed package"):
        build_specimen(plan)


def test_a_missing_cmake_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    with pytest.raises(ToolError, match="cmake is not installed") as caught:
        build_specimen(BuildPlan(preset="debug", folder=tmp_path / "build"))

    assert "pip install cmake" in caught.value.remedy


@pytest.mark.parametrize(
    ("preset", "compiler"), [("fastest", None), ("debug", "tcc")], ids=["preset", "compiler"]
)
def test_a_plan_that_cannot_be_is_refused(
    tmp_path: Path, preset: str, compiler: str | None
) -> None:
    plan = BuildPlan(preset=preset, folder=tmp_path / "build", compiler=compiler)

    with pytest.raises(UsageError) as caught:
        build_specimen(plan)

    assert "one of:" in caught.value.remedy
    assert not (tmp_path / "build").exists()
