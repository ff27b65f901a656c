"""What a recipe is: how it knows a source tree, and how it builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.capture.foreign_build.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a recipe made."""

    files: tuple[Path, ...]
    """Every ELF file that came out."""
    site: Path | None = None
    """The site-packages that it was installed into; None without Python."""
    example: Path | None = None
    """A Python program that calls what was built rightly, then wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to build. Each lies in a file of its own and stands in `recipes.RECIPES`."""

    name: str
    detects: Callable[[SourceTree], bool]
    """Is it this recipe's kind of tree? Asked in the order of the list; the first one builds. It
    raises UsageError for a kind that it knows and that cannot be built."""
    build: Callable[[Workspace, Steps], Outcome]
    needs_python: bool = True
    takes_requirements: bool = False
    takes_head_dims: bool = False
    brings_example: bool = False
