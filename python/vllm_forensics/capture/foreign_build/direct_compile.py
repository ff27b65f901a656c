"""Compiles a few C++ files into one extension module, without the build system of their project."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.toolchain import build_tool
from vllm_forensics.capture.foreign_build.workspace import Workspace
from vllm_forensics.capture.sanitizer_runtime import standard_library
from vllm_forensics.model.build import Sanitizer

_JOB_BYTES: Final = 2_300_000_000
"""What the compiler takes at most for one of vLLM's files with AddressSanitizer (gcc 12)."""
_LOAD: Final = "import ctypes, os, sys, torch; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)"
_NINJA: Final = """\
# Written by `forensics build`.
ninja_required_version = 1.5
rule compile
  command = {cxx} {options} -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = {cxx} -shared -o $out $in {links}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What to compile and link, and how; the flags of the flavour come by themselves."""

    target: Path
    """What to write; its name decides under which name Python imports it."""
    sources: tuple[Path, ...]
    options: tuple[str, ...]
    links: tuple[str, ...]


def compile_extension(workspace: Workspace, steps: Steps, extension: Extension) -> None:
    """Compile what changed since the last time, and link.

    Raises:
        ToolError: it does not compile, or ninja is missing.

    """
    workspace.build.mkdir(parents=True, exist_ok=True)
    extension.target.parent.mkdir(parents=True, exist_ok=True)
    (workspace.build / "build.ninja").write_text(
        ninja_file(extension, workspace.wrappers.cxx), encoding="utf-8"
    )
    steps.run(
        "build",
        [build_tool("ninja"), "-C", workspace.build, "-j", str(_jobs())],
        remedy="is this torch too new or too old for these sources? another one: --python PY; "
        "killed: less at a time, MAX_JOBS=1",
    )


def check_loading(workspace: Workspace, steps: Steps, module: Path) -> None:
    """See that nothing is missing that the module calls: a shared library links without it.

    The runtime is preloaded, as it may be in a run. Not so ThreadSanitizer's, under which torch
    takes long to start.

    Raises:
        ToolError: it does not load; the loader's words are in the message.

    """
    request = workspace.request
    if Sanitizer.THREAD in request.flavour.sanitizers:
        return
    libraries = [*request.compiler.runtimes, standard_library(None)]
    preload = ":".join(filter(None, libraries)) if request.compiler.runtimes else ""
    steps.run(
        "load",
        [workspace.venv / "bin" / "python", "-c", _LOAD, module],
        environment={**workspace.environment, "LD_PRELOAD": preload, "PYTHONMALLOC": "malloc"},
        remedy="an undefined symbol: the tree defines it in a file that is not known to be needed",
    )


def ninja_file(extension: Extension, cxx: str) -> str:
    """The rules: an object a source, and one module of them."""
    text = _NINJA.format(
        cxx=cxx,
        options=_escaped(shlex.join(extension.options)),
        links=_escaped(shlex.join(extension.links)),
    )
    objects = []
    for number, source in enumerate(extension.sources):
        name = f"{number}-{source.stem}.o"
        objects.append(name)
        text += f"build {_path(name)}: compile {_path(str(source))}\n"
    return f"{text}build {_path(str(extension.target))}: link {' '.join(map(_path, objects))}\n"


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _path(path: str) -> str:
    return re.sub(r"[$ :]", r"$\g<0>", path)


def _jobs() -> int:
    """As many as there are processors, and as there is memory for."""
    asked = os.environ.get("MAX_JOBS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return max(1, min(os.cpu_count() or 1, _available_bytes() // _JOB_BYTES))


def _available_bytes() -> int:
    """MemAvailable of /proc/meminfo (proc(5)); all of the memory where it is not told."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        text = ""
    found = re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    if found is not None:
        return int(found[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
