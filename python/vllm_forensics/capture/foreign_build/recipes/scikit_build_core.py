"""scikit-build-core: CMake behind a PEP 517 backend; pybind11 and nanobind modules mostly."""

from __future__ import annotations

from typing import Final

from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.capture.foreign_build.wheel import build_and_install
from vllm_forensics.capture.foreign_build.workspace import Workspace


def _detects(tree: SourceTree) -> bool:
    return (tree.backend or "").startswith("scikit_build_core.build")


def _build(workspace: Workspace, steps: Steps) -> Outcome:
    # In a Release build pybind11 and nanobind strip their modules, and so does the installation.
    settings = {
        "build-dir": str(workspace.build),
        "cmake.build-type": "RelWithDebInfo",
        "install.strip": "false",
        "cmake.define.CMAKE_PROJECT_TOP_LEVEL_INCLUDES": str(workspace.inject),
    }
    return build_and_install(workspace, steps, settings)


RECIPE: Final = Recipe(
    name="scikit-build-core", detects=_detects, build=_build, takes_requirements=True
)
