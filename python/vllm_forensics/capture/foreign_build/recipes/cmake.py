"""CMake alone, without Python: everything that its default target links is a result."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.toolchain import build_tool
from vllm_forensics.capture.foreign_build.tree import SourceTree, is_elf
from vllm_forensics.capture.foreign_build.workspace import Workspace


def _detects(tree: SourceTree) -> bool:
    return tree.has("CMakeLists.txt")


def _build(workspace: Workspace, steps: Steps) -> Outcome:
    cmake, ninja = build_tool("cmake"), build_tool("ninja")
    steps.run(
        "configure",
        [
            cmake, "-S", workspace.source, "-B", workspace.build, "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
            f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={workspace.inject}",
            "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF",
        ],
        remedy="does it configure without sanitizers? cmake -S SOURCE -B build",
    )  # fmt: skip
    steps.run(
        "build",
        [cmake, "--build", workspace.build],
        remedy="does it build without sanitizers? the other compiler: --compiler gcc|clang",
    )
    return Outcome(files=tuple(sorted(filter(_is_result, workspace.build.rglob("*")))))


def _is_result(path: Path) -> bool:
    # What CMake compiles to learn about the compiler lies in CMakeFiles, objects too.
    named = path.suffix not in {".o", ".a"} and "CMakeFiles" not in path.parts
    return named and path.is_file() and not path.is_symlink() and is_elf(path)


RECIPE: Final = Recipe(name="cmake", detects=_detects, build=_build, needs_python=False)
