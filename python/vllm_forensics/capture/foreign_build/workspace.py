"""The folder of one build: a copy of the sources, the build, its environments, its traces."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from vllm_forensics.capture.foreign_build.toolchain import compile_flags, link_flags, sanitize_flags
from vllm_forensics.capture.foreign_build.tree import (
    SourceTree,
    copy_tree,
    files_below,
    is_elf,
    root_to_copy,
)
from vllm_forensics.capture.foreign_build.wrappers import Wrappers, write_wrappers
from vllm_forensics.errors import ToolError
from vllm_forensics.model.build import Compiler, Flavour

MARKER: Final = "made-by-forensics-build"
# What a user keeps in the environment that would reach into the build from outside.
_DROPPED: Final = (
    "CC", "CXX", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONMALLOC", "VIRTUAL_ENV",
    "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV",
    "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "CMAKE_BUILD_TYPE",
    "CMAKE_GENERATOR", "DESTDIR", "GIT_DIR", "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER", "SKBUILD_CMAKE_BUILD_TYPE", "SKBUILD_BUILD_DIR",
    "SKBUILD_INSTALL_STRIP",
)  # fmt: skip
_INJECTED: Final = """\
# Written by `forensics build`; CMake includes it at the project's first project().
foreach(flag IN ITEMS {flags})
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${{flag}}>")
endforeach()
add_link_options({links})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What to build, with what, into which folder."""

    source: Path
    folder: Path
    flavour: Flavour
    compiler: Compiler
    python: Path
    requirements: tuple[str, ...] = ()
    """What else to install, for the build and beside its result."""
    head_dims: tuple[int, ...] = ()
    """Of attention kernels: those to compile. Empty: the recipe's own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The folder, prepared. What it holds is made anew but for `build`, `venv` and `build-env`."""

    request: BuildRequest
    tree: SourceTree
    wrappers: Wrappers
    source: Path
    """The copy of the project."""
    renamed: tuple[tuple[str, str], ...]
    """Folders of the copy, and the ones of the user's that they stand for."""
    build: Path
    """What the compiler makes; kept from build to build."""
    venv: Path
    """The environment that the result is installed into."""
    build_venv: Path
    """The environment with the build backend."""
    inject: Path
    """The file that CMake is made to include."""
    log: Path
    lock: IO[bytes]
    """Held as long as it is open: nobody else builds in the folder."""
    shipped: tuple[Path, ...]
    """ELF files that the tree held before anything was built."""

    @property
    def environment(self) -> dict[str, str]:
        """The user's environment without what would undo the build, and with the compilers."""
        kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
        own_tools = str(Path(sys.executable).parent)
        paths = (
            str(self.wrappers.folder), str(self.build_venv / "bin"), kept.get("PATH", os.defpath),
            own_tools,
        )  # fmt: skip
        jobs = str(os.cpu_count() or 1)
        return kept | {
            "PATH": os.pathsep.join(paths),
            "CC": self.wrappers.cc,
            "CXX": self.wrappers.cxx,
            "CMAKE_BUILD_PARALLEL_LEVEL": kept.get("CMAKE_BUILD_PARALLEL_LEVEL", jobs),
            "MAX_JOBS": kept.get("MAX_JOBS", jobs),
            "NINJA_STATUS": "[%f/%t] ",
            "LC_ALL": "C.UTF-8",
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            # What the build itself runs of the instrumented code must not end it.
            "ASAN_OPTIONS": "detect_leaks=0",
        }

    @property
    def cmake_args(self) -> dict[str, str]:
        """CMAKE_ARGS, for a setup.py that calls CMake and splits the variable at its spaces."""
        injected = f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={self.inject}"
        words = [os.environ.get("CMAKE_ARGS", ""), "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
        words += [] if " " in injected else [injected]
        return {"CMAKE_ARGS": " ".join(words).strip()}


def prepare(request: BuildRequest, tree: SourceTree) -> Workspace:
    """Make the folder ready: copy the sources, write the wrappers, forget the last traces.

    Raises:
        ToolError: the folder holds something else, or cannot be written.

    """
    folder = request.folder
    try:
        lock = _claim(folder)
        root = root_to_copy(tree)
        copy = folder / "source"
        copy_tree(root, copy)
        build = folder / "build"
        # meson names the sources as seen from its build folder.
        renamed = {str(copy): str(root), os.path.relpath(copy, build): str(root)}
        shutil.rmtree(folder / "trace", ignore_errors=True)
        wrappers = write_wrappers(
            folder / "trace",
            request.compiler,
            request.flavour,
            renamed=renamed,
        )
        inject = folder / "trace" / "inject.cmake"
        inject.write_text(_inject(request), encoding="utf-8")
        _forget_other(folder, build, wrappers, request)
    except OSError as error:
        raise ToolError(
            f"{error.filename or folder} cannot be written: {error.strerror}",
            remedy="give another --folder",
        ) from error
    return Workspace(
        request=request,
        tree=tree,
        wrappers=wrappers,
        source=copy / tree.path.relative_to(root),
        renamed=tuple(renamed.items()),
        build=build,
        venv=folder / "venv",
        build_venv=folder / "build-env",
        inject=inject,
        log=folder / "build.log",
        lock=lock,
        shipped=tuple(path for path in files_below(copy) if is_elf(path)),
    )


def _claim(folder: Path) -> IO[bytes]:
    """Take a folder that is new, empty or ours. One in .forensics is hidden from git."""
    marker = folder / MARKER
    if folder.is_dir() and any(folder.iterdir()) and not marker.is_file():
        raise ToolError(
            f"{folder} holds something that `forensics build` did not make",
            remedy="give another --folder, or empty it",
        )
    folder.mkdir(parents=True, exist_ok=True)
    lock = marker.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ToolError(
            f"another build is at work in {folder}", remedy="wait for it, or give another --folder"
        ) from error
    if folder.parent.name == ".forensics":
        hidden = folder.parent / ".gitignore"
        if not hidden.exists():
            hidden.write_text("*\n", encoding="utf-8")
    return lock


def _forget_other(folder: Path, build: Path, wrappers: Wrappers, request: BuildRequest) -> None:
    """Take away what another compiler, Python or set of flags made: it would be taken for new."""
    scripts = "".join(path.read_text("utf-8") for path in sorted(wrappers.folder.iterdir()))
    made_with = f"{request.compiler.version}\n{request.python}\n{scripts}"
    marker = folder / "made-with"
    if not marker.is_file() or marker.read_text("utf-8") != made_with:
        shutil.rmtree(build, ignore_errors=True)
        marker.write_text(made_with, encoding="utf-8")


def _inject(request: BuildRequest) -> str:
    flags = compile_flags(request.flavour, request.compiler)
    links = (
        *sanitize_flags(request.flavour),
        *link_flags(request.flavour, request.compiler),
    )
    return _INJECTED.format(
        flags=" ".join(map(_quoted, flags)), links=" ".join(map(_quoted, links))
    )


def _quoted(argument: str) -> str:
    return f"[==[{argument}]==]"
