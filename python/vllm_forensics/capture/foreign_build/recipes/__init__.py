"""Every way to build that is known, in the order in which a tree is held against them."""

from __future__ import annotations

from typing import Final

from vllm_forensics.capture.foreign_build.recipe import Recipe
from vllm_forensics.capture.foreign_build.recipes import (
    cmake,
    meson_python,
    other_backend,
    scikit_build_core,
    setuptools,
    vllm_extension,
    vllm_kernels,
)
from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.errors import UsageError

RECIPES: Final[tuple[Recipe, ...]] = (
    # They have a setup.py, which needs more than is here: before those that would call it.
    vllm_extension.RECIPE,
    vllm_kernels.RECIPE,
    scikit_build_core.RECIPE,
    meson_python.RECIPE,
    setuptools.RECIPE,
    other_backend.RECIPE,
    cmake.RECIPE,
)


def detect(tree: SourceTree) -> Recipe:
    """The recipe for a tree.

    Raises:
        UsageError: none fits, or one that knows why it cannot be built.

    """
    for recipe in RECIPES:
        if recipe.detects(tree):
            return recipe
    raise UsageError(
        f"{tree.path} holds nothing that says how it is built: no pyproject.toml, setup.py or "
        "CMakeLists.txt",
        remedy="give the folder that holds one of them: --source DIR",
    )
