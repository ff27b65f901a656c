"""Links a Python anew with a sanitizer: `python-asan`, beside a virtual environment's `python`.

A sanitizer's runtime must be there before any memory is allocated. LD_PRELOAD does that for every
program that a test starts, shells too; a Python that is linked with the runtime does it for itself
and for the Pythons that it starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import Limits, find_program, run_program
from vllm_forensics.errors import ToolError, UsageError

FLAVOURS: Final[Mapping[str, str]] = {
    "asan": "address",
    "asan-ubsan": "address,undefined",
    "ubsan": "undefined",
    "tsan": "thread",
}
"""What `-fsanitize=` says for each flavour."""
_PACKAGE: Final = Path(__file__).resolve().parent.parent
_SOURCES: Final = ("launcher.cpp", "python_stack.cpp")
_COMPILE: Final = Limits(timeout_s=120.0, output_bytes=1 << 20)
_ASK: Final = Limits(timeout_s=30.0, output_bytes=1 << 20)
_HEADERS: Final = (
    "apt-get install python3-dev (or the -dev package of this Python); without them the runtime is "
    "preloaded"
)
_QUESTION: Final = """
import json, sys, sysconfig
names = "LDLIBRARY INSTSONAME LIBRARY LIBDIR LIBPL INCLUDEPY LIBS MODLIBS SYSLIBS VERSION LDVERSION"
facts = {name: str(sysconfig.get_config_var(name) or "") for name in names.split()}
facts |= {"include": sysconfig.get_path("include"), "base": sys.base_prefix}
print(json.dumps(facts))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherPlan:
    """Which Python to link anew, and how."""

    python: Path
    """The interpreter, in the `bin` of a virtual environment or not."""
    flavour: str
    """A key of FLAVOURS."""
    compiler: str = "g++"
    """The C++ compiler that built the modules: a name on PATH, or a path."""
    target: Path | None = None
    """What to write. Default: `python-FLAVOUR` beside `python`: it then belongs to the same
    environment, as `sys.prefix` says."""


def build_launcher(plan: LauncherPlan) -> Path:
    """Compile and link it; returns the path of the new program, which was seen to start.

    Raises:
        UsageError: an unknown flavour.
        ToolError: no compiler, headers or libpython, or what was linked does not start.

    """
    if plan.flavour not in FLAVOURS:
        raise UsageError(f"no sanitizers {plan.flavour}", remedy=f"one of: {', '.join(FLAVOURS)}")
    if find_program(plan.compiler) is None:
        raise ToolError(f"{plan.compiler} is not installed", remedy="apt-get install g++")
    target = plan.target or plan.python.parent / f"python-{plan.flavour}"
    facts = _ask(plan.python)
    include = _include_folder(facts)
    compile_part = [
        *(plan.compiler, "-std=c++17", "-O1", f"-fsanitize={FLAVOURS[plan.flavour]}"),
        *_runtime_options(plan),
        *(f"-I{include}", f"-I{source_folder().parent}"),
        *(str(source_folder() / name) for name in _SOURCES),
        *("-o", str(target)),
    ]
    said = "there is no libpython"
    for link_part in _ways_to_link(facts):
        # A throw looks for libstdc++'s __cxa_throw when the runtime starts: it must be there.
        done = run_program(
            [*compile_part, "-Wl,--no-as-needed", *link_part, "-lstdc++", "-ldl"], limits=_COMPILE
        )
        if done.status != 0:
            said = _last_line(done.stderr)
            continue
        proof = run_program([str(target), "-I", "-c", "print('starts')"], limits=_ASK)
        if proof.stdout == b"starts\n":
            return target
        said = f"it does not start: {_last_line(proof.stderr) or f'status {proof.status}'}"
    target.unlink(missing_ok=True)
    raise ToolError(f"{plan.python} cannot be linked anew: {said}", remedy=_HEADERS)


def source_folder() -> Path:
    """Where the launcher's sources lie: inside an installed wheel, or in the checkout.

    Raises:
        ToolError: neither is there.

    """
    for root in (_PACKAGE / "specimen", _PACKAGE.parent.parent):
        folder = root / "csrc" / "launcher"
        if all((folder / name).is_file() for name in _SOURCES):
            return folder
    raise ToolError(
        "the launcher's sources are not beside this installation",
        remedy="pip install --force-reinstall vllm-forensics",
    )


def clang_runtime_folder(compiler: str) -> Path | None:
    """Where clang keeps the shared runtimes of its sanitizers; None for another compiler."""
    done = run_program([compiler, "-print-resource-dir"], limits=_ASK)
    folder = Path(done.stdout.decode("utf-8", "surrogateescape").strip())
    if done.status != 0 or not folder.is_dir():
        return None
    return folder / "lib" / "linux"


def _runtime_options(plan: LauncherPlan) -> list[str]:
    """Options that make clang's runtime a shared one, which modules share with the program.

    Its shared ThreadSanitizer crashes at start in LLVM 14; linked in, it serves modules too.
    """
    folder = clang_runtime_folder(plan.compiler)
    if folder is None or plan.flavour == "tsan":
        return []
    return ["-shared-libsan", f"-Wl,-rpath,{folder}"]


def _ask(python: Path) -> dict[str, str]:
    done = run_program([str(python), "-I", "-c", _QUESTION], limits=_ASK)
    try:
        facts = json.loads(done.stdout)
    except ValueError as error:
        said = _last_line(done.stderr) or f"exit status {done.status}"
        raise ToolError(
            f"{python} does not tell how it was built: {said}", remedy="is it a Python from 3.11?"
        ) from error
    return {str(name): str(value) for name, value in facts.items()}


def _include_folder(facts: Mapping[str, str]) -> Path:
    version = facts["LDVERSION"] or facts["VERSION"]
    named = (facts["include"], facts["INCLUDEPY"], f"{facts['base']}/include/python{version}")
    for folder in map(Path, named):
        if (folder / "Python.h").is_file():
            return folder
    raise ToolError(f"there is no Python.h in {named[0]}", remedy=_HEADERS)


def _ways_to_link(facts: Mapping[str, str]) -> Iterator[list[str]]:
    """The shared libpython, then the static one; each by its path, from the most exact place.

    A Python that was moved (python-build-standalone) names folders that are not there: its own
    prefix is looked into as well.
    """
    version = facts["LDVERSION"] or facts["VERSION"]
    named = (facts["LIBDIR"], facts["LIBPL"], f"{facts['base']}/lib")
    folders = [Path(name) for name in dict.fromkeys(named) if name]
    shared = (facts["LDLIBRARY"], facts["INSTSONAME"], f"libpython{version}.so.1.0")
    for name in dict.fromkeys(name for name in shared if ".so" in name):
        for folder in folders:
            if (folder / name).is_file():
                yield [str(folder / name), f"-Wl,-rpath,{folder}"]
    libraries = f"{facts['LIBS']} {facts['MODLIBS']} {facts['SYSLIBS']}".split()
    for name in dict.fromkeys((facts["LIBRARY"], f"libpython{version}.a")):
        for folder in folders:
            if name and (folder / name).is_file():
                # Extension modules look for the whole API in the executable; its objects are
                # seldom compiled for a position-independent one.
                yield [
                    *("-no-pie", "-Wl,-export-dynamic", "-Wl,--whole-archive"),
                    *(str(folder / name), "-Wl,--no-whole-archive", *libraries),
                ]


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
