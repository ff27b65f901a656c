"""Builds the specimen's C++ sources with CMake, in any of its presets."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import (
    Limits,
    find_program,
    plain_environment,
    run_program,
)
from vllm_forensics.errors import ToolError, UsageError

PRESETS: Final = ("debug", "release", "asan", "ubsan", "asan-ubsan", "tsan", "hardened")
COMPILERS: Final = {"gcc": "g++", "clang": "clang++"}
_STEP: Final = re.compile(rb"\[(\d+)/(\d+)\] ")
_TIMEOUT_S: Final = 1800.0
_PACKAGE: Final = Path(__file__).resolve().parent.parent
_MODULE: Final = "_native*.so"
_TOOLS: Final = "pip install cmake ninja pybind11    # and a C++ compiler: apt-get install g++"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """What to build, and where."""

    preset: str
    folder: Path
    compiler: str | None = None
    """gcc or clang; None leaves the choice to CMake and CXX."""
    python_module: bool = True
    tests: bool = False
    """The C++ tests too: they need a checkout and GoogleTest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """What came out."""

    folder: Path
    programs: tuple[Path, ...]
    modules: tuple[Path, ...]


def source_folder() -> Path:
    """Where the specimen's sources lie: inside an installed wheel, or in the checkout.

    Raises:
        ToolError: neither is there.

    """
    for folder in (_PACKAGE / "specimen", _PACKAGE.parent.parent):
        if (folder / "CMakePresets.json").is_file() and (folder / "csrc").is_dir():
            return folder
    raise ToolError(
        "the C++ sources are not beside this installation",
        remedy="pip install --force-reinstall vllm-forensics",
    )


def build_specimen(
    plan: BuildPlan, on_step: Callable[[int, int], None] | None = None
) -> BuildResult:
    """Configure and build; only what changed is built again.

    `on_step` is told the number of the step and of all steps as ninja reports them.

    Raises:
        UsageError: an unknown preset or compiler.
        ToolError: a tool is missing, or the build failed; then with the compiler's own words.

    """
    if plan.preset not in PRESETS:
        raise UsageError(
            f"there is no preset {plan.preset}", remedy=f"one of: {', '.join(PRESETS)}"
        )
    if plan.compiler is not None and plan.compiler not in COMPILERS:
        raise UsageError(
            f"unknown compiler {plan.compiler}", remedy=f"one of: {', '.join(COMPILERS)}"
        )
    cmake, ninja = _tool("cmake"), _tool("ninja")
    source = source_folder()
    if plan.tests and not (source / "tests" / "cpp").is_dir():
        raise UsageError(
            "the C++ tests are in the checkout, not in an installed package",
            remedy="clone the repository; or leave out --tests",
        )
    plan.folder.mkdir(parents=True, exist_ok=True)
    configure = [
        cmake, "-S", str(source), "--preset", plan.preset, "-B", str(plan.folder),
        f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DFORENSICS_WERROR=OFF",
        f"-DFORENSICS_BUILD_TESTS={'ON' if plan.tests else 'OFF'}",
        f"-DFORENSICS_BUILD_PYTHON={'ON' if plan.python_module else 'OFF'}",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]  # fmt: skip
    if plan.compiler is not None:
        configure.append(f"-DCMAKE_CXX_COMPILER={COMPILERS[plan.compiler]}")
    _run(configure, "configuring", None)
    modules = ("_native",) if plan.python_module else ()
    tests = ("forensics_tests",) if plan.tests else ()
    targets = ("minimal_demo", *modules, *tests)
    _run([cmake, "--build", str(plan.folder), "--target", *targets], "building", on_step)
    return BuildResult(
        folder=plan.folder,
        programs=tuple(
            path
            for path in (
                plan.folder / "minimal_demo",
                *(plan.folder / "tests" / "cpp" / name for name in tests),
            )
            if path.is_file()
        ),
        modules=tuple(sorted(plan.folder.glob(_MODULE))),
    )


def _run(arguments: list[str], what: str, on_step: Callable[[int, int], None] | None) -> None:
    def watch(chunk: bytes) -> None:
        for match in _STEP.finditer(chunk):
            if on_step is not None:
                on_step(int(match.group(1)), int(match.group(2)))

    environment = plain_environment({"NINJA_STATUS": "[%f/%t] "})
    completed = run_program(
        arguments, limits=Limits(timeout_s=_TIMEOUT_S), environment=environment, on_output=watch
    )
    if completed.status != 0:
        said = (completed.stdout + completed.stderr).decode("utf-8", "replace").strip()
        raise ToolError(
            f"{what} failed:\n{said}",
            remedy="the compiler's own words are above; another one: --compiler gcc|clang",
        )


def _tool(name: str) -> str:
    """A tool from this Python's environment, where PyPI puts it, or from PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else find_program(name)
    if found is None:
        raise ToolError(f"{name} is not installed", remedy=_TOOLS)
    return found
