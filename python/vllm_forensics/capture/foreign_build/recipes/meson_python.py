"""meson-python: meson behind a PEP 517 backend; NumPy's kin, and Cython modules."""

from __future__ import annotations

from typing import Final

from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.capture.foreign_build.wheel import build_and_install
from vllm_forensics.capture.foreign_build.workspace import Workspace


def _detects(tree: SourceTree) -> bool:
    return (tree.backend or "").split(":")[0] == "mesonpy"


def _build(workspace: Workspace, steps: Steps) -> Outcome:
    sanitizers = ",".join(workspace.request.flavour.sanitizers) or "none"
    # b_lundef: a module's calls of the sanitizer are answered by what only the process has loaded.
    setup = [
        "-Dbuildtype=debugoptimized", "-Dstrip=false", "-Db_lto=false", "-Db_lundef=false",
        f"-Db_sanitize={sanitizers}",
    ]  # fmt: skip
    settings: dict[str, str | list[str]] = {
        "build-dir": str(workspace.build),
        "setup-args": setup,
    }
    return build_and_install(workspace, steps, settings)


RECIPE: Final = Recipe(name="meson-python", detects=_detects, build=_build, takes_requirements=True)
