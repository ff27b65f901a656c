"""Chooses what is preloaded: the runtimes that modules ask for, libstdc++, the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.capture.files import map_file
from vllm_forensics.capture.interpreters import PythonCommand
from vllm_forensics.capture.process import find_program
from vllm_forensics.capture.sanitizer_runtime import (
    find_modules,
    find_runtime,
    installed_library,
    module_folders,
    runtimes_of,
    standard_library,
)
from vllm_forensics.diagnosis.sanitizer.traps import ALLOCATORS
from vllm_forensics.errors import EvidenceError, ToolError, UsageError
from vllm_forensics.evidence.needed import needed_libraries

_HOOK: Final = "forensics-python-stack.so"
_RUNTIMES: Final = ("libasan.so", "libtsan.so", "libclang_rt.", "libubsan.so")
"""By their first letters, in the order in which they are preloaded."""


def is_linked(program: str) -> bool:
    """Is the program itself linked with a sanitizer's shared runtime?"""
    path = find_program(program)
    return path is not None and any(map(_is_runtime, _needed(path)))


def _is_runtime(library: str) -> bool:
    return library.startswith(_RUNTIMES)


def _needed(path: str) -> tuple[str, ...]:
    try:
        return needed_libraries(map_file(path))
    except EvidenceError:
        return ()


def runtimes_of_modules(
    folder: Path | None, environment: Mapping[str, str], python: PythonCommand | None
) -> tuple[str, ...]:
    """The runtimes that modules ask for: those in the folder, else all that Python may import.

    Raises:
        UsageError: they ask for those of two compilers.

    """
    if folder is not None:
        folders = [folder]
    else:
        named = environment.get("PYTHONPATH", "").split(":")
        folders = [Path.cwd(), *(Path(name) for name in named if name)]
        folders += [] if python is None else module_folders(python.python)
    wanted: dict[str, str] = {}
    for module in find_modules(folders):
        for library in filter(_is_runtime, _needed(module)):
            wanted.setdefault(library, module)
    clang = [name for name in wanted if name.startswith("libclang_rt.")]
    gcc = [name for name in wanted if name not in clang]
    if clang and gcc:
        raise UsageError(
            f"{wanted[gcc[0]]} needs {gcc[0]}, {wanted[clang[0]]} needs {clang[0]}: a process has "
            "room for one of them",
            remedy="build both with one compiler, or name the folder of one: --build DIR",
        )
    ordered = [name for start in _RUNTIMES for name in wanted if name.startswith(start)]
    return tuple(find_runtime(name) for name in ordered)


def default_runtimes(flavour: str) -> tuple[str, ...]:
    """The runtimes of gcc, or of clang where gcc has none.

    Raises:
        ToolError: neither has; the remedy names gcc's package.

    """
    try:
        return runtimes_of("gcc", flavour)
    except ToolError as error:
        try:
            return runtimes_of("clang", flavour)
        except ToolError:
            raise error from None


def users_preloads(
    environment: Mapping[str, str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stays of the user's LD_PRELOAD, and a note for each allocator that does not."""
    users = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    refused = [path for path in users if any(name in Path(path).name for name in ALLOCATORS)]
    kept = tuple(path for path in users if path not in refused and not _is_runtime(Path(path).name))
    notes = tuple(
        f"{path} was taken out of LD_PRELOAD: it takes malloc over before the runtime does"
        for path in refused
    )
    return kept, notes


def preload_all(runtimes: Sequence[str], python: PythonCommand | None) -> tuple[str, ...]:
    """The runtimes, libstdc++ and the hook that writes Python's stack, in the order that works.

    AddressSanitizer insists on being first. The others call the hook at each report if it comes
    before them: what they have in its place does nothing.
    """
    library = standard_library(_prefix_of(python))
    hook = installed_library(_HOOK)
    first = tuple(path for path in runtimes if "asan" in Path(path).name)
    rest = tuple(path for path in runtimes if path not in first)
    return (*first, *((hook,) if hook else ()), *rest, *((library,) if library else ()))


def _prefix_of(python: PythonCommand | None) -> str | None:
    return str(Path(python.python).resolve().parent.parent) if python is not None else None
