"""setuptools, with the C API, pybind11, Cython, or a CMake that setup.py calls.

The compilers come through CC and CXX, CMake's arguments through CMAKE_ARGS. The copy of the
sources is new each time, so nothing that was built before is taken; ccache makes that cheap.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.capture.foreign_build.wheel import build_and_install
from vllm_forensics.capture.foreign_build.workspace import Workspace

_BACKENDS: Final = ("setuptools.", "scikit_build_core.setuptools.")


def _detects(tree: SourceTree) -> bool:
    # A backend of the project's own beside a setup.py nearly always wraps that of setuptools.
    backend = tree.backend or ""
    return backend.startswith(_BACKENDS) or (bool(tree.backend_path) and tree.has("setup.py"))


def _build(workspace: Workspace, steps: Steps) -> Outcome:
    return build_and_install(workspace, steps, {}, workspace.cmake_args)


RECIPE: Final = Recipe(name="setuptools", detects=_detects, build=_build, takes_requirements=True)
