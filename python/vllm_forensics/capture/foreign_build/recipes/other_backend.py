"""Any other PEP 517 backend: the compilers come through CC and CXX, and the proof is the judge."""

from __future__ import annotations

from typing import Final

from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.capture.foreign_build.wheel import build_and_install
from vllm_forensics.capture.foreign_build.workspace import Workspace
from vllm_forensics.errors import UsageError

_KNOWN: Final = "scikit-build-core, setuptools, meson-python, or CMake without Python"


def _detects(tree: SourceTree) -> bool:
    if (tree.backend or "").split(":")[0] == "maturin":
        raise UsageError(
            f"{tree.path} is built by maturin: Rust, which is not instrumented here",
            remedy="RUSTFLAGS=-Zsanitizer=address maturin develop, with a nightly Rust",
        )
    return tree.backend is not None


def _build(workspace: Workspace, steps: Steps) -> Outcome:
    outcome = build_and_install(workspace, steps, {}, workspace.cmake_args)
    if not outcome.files:
        raise UsageError(
            f"the backend {workspace.tree.backend} made a package without native code",
            remedy=f"if there is C or C++ in it, it is built another way; known are {_KNOWN}",
        )
    return outcome


RECIPE: Final = Recipe(
    name="other backend", detects=_detects, build=_build, takes_requirements=True
)
