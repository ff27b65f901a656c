"""The compiler of a build, and the flags that a flavour adds to each of its calls."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import Limits, find_program, plain_environment, run_program
from vllm_forensics.errors import ToolError, UsageError
from vllm_forensics.model.build import Compiler, Flavour, Sanitizer

FAMILIES: Final = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}
_LIMITS: Final = Limits(timeout_s=60, output_bytes=1 << 20)
_GCC_RUNTIMES: Final = {
    Sanitizer.ADDRESS: "libasan.so",
    Sanitizer.UNDEFINED: "libubsan.so",
    Sanitizer.THREAD: "libtsan.so",
}
_CLANG_RUNTIMES: Final = {
    Sanitizer.ADDRESS: "asan",
    Sanitizer.UNDEFINED: "ubsan_standalone",
    Sanitizer.THREAD: "tsan",
}
_ARM: Final = {"aarch64", "arm64"}


def find_compiler(family: str | None, flavour: Flavour) -> Compiler:
    """The compilers of a family, or the first that is installed, with the runtimes they need.

    Raises:
        UsageError: an unknown family.
        ToolError: not installed, or without the sanitizer's runtime.

    """
    if family is not None and family not in FAMILIES:
        raise UsageError(f"unknown compiler {family}", remedy=f"one of: {', '.join(FAMILIES)}")
    for name in (family,) if family else FAMILIES:
        c, cxx = (find_program(program) for program in FAMILIES[name])
        if c and cxx:
            version = _ask(c, "-dumpfullversion", "-dumpversion")
            return Compiler(
                family=name,
                c=c,
                cxx=cxx,
                version=version,
                runtimes=_runtimes(name, cxx, flavour),
            )
    wanted = " and ".join(FAMILIES[family or "gcc"])
    raise ToolError(
        f"{wanted} are not installed",
        remedy=f"apt-get install {'clang' if family == 'clang' else 'g++'}",
    )


def build_tool(name: str) -> str:
    """A build tool, cmake or ninja: from our own environment, or else from PATH.

    Raises:
        ToolError: it is in neither.

    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else find_program(name)
    if found is None:
        raise ToolError(f"{name} is not installed", remedy=f"pip install {name}")
    return found


def compile_flags(flavour: Flavour, compiler: Compiler) -> tuple[str, ...]:
    """What each call of the compiler gets after its own arguments; the last word counts.

    Fortified functions bypass the sanitizers' interceptors, so they go together with neither. The
    sanitizers make gcc warn falsely: no warning may end the build.
    """
    always = ["-fno-omit-frame-pointer", "-fno-lto", "-Wno-error", "-U_FORTIFY_SOURCE"]
    if compiler.family == "clang":
        # Without it clang's debug information does not say with which flags it was called.
        always += ["-grecord-command-line", "-Wno-unused-command-line-argument"]
    if flavour.sanitizers:
        # Lines are what a report needs; types and variables cost a fifth of the compile time.
        return (*always, "-g1", "-O1", *sanitize_flags(flavour))
    if not flavour.hardened:
        return (*always, "-g", "-O0")
    arm = platform.machine() in _ARM
    branches = "-mbranch-protection=standard" if arm else "-fcf-protection"
    return (
        *always,
        *("-g", "-O2", "-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS"),
        *("-fstack-protector-strong", branches),
    )


def sanitize_flags(flavour: Flavour) -> tuple[str, ...]:
    """-fsanitize= for compiling and linking; it is left to the run whether a finding ends it."""
    if not flavour.sanitizers:
        return ()
    return (f"-fsanitize={','.join(flavour.sanitizers)}",)


def link_flags(flavour: Flavour, compiler: Compiler) -> tuple[str, ...]:
    """What linking gets beside them: clang's modules need its shared runtime, and where it is.

    Not ThreadSanitizer's: the shared one of LLVM 14 crashes at start; the program brings its own.
    """
    if not flavour.sanitizers or compiler.family != "clang" or not compiler.runtimes:
        return ()
    return ("-shared-libsan", f"-Wl,-rpath,{Path(compiler.runtimes[0]).parent}")


def _runtimes(family: str, cxx: str, flavour: Flavour) -> tuple[str, ...]:
    if not flavour.sanitizers:
        return ()
    if family == "gcc":
        names = [_GCC_RUNTIMES[one] for one in flavour.sanitizers]
    elif Sanitizer.THREAD in flavour.sanitizers:
        return ()
    else:
        # clang's AddressSanitizer runtime holds UndefinedBehaviorSanitizer's.
        names = [f"libclang_rt.{_CLANG_RUNTIMES[flavour.sanitizers[0]]}-{platform.machine()}.so"]
    paths = []
    for name in names:
        found = _ask(cxx, f"-print-file-name={name}")
        if not Path(found).is_file():
            package = "g++" if family == "gcc" else "libclang-rt-dev (or libclang-rt-NN-dev)"
            raise ToolError(
                f"{cxx} has no {name}, which -fsanitize={','.join(flavour.sanitizers)} needs",
                remedy=f"apt-get install {package}, or the other compiler: --compiler",
            )
        paths.append(str(Path(found).resolve()))
    return tuple(paths)


def _ask(compiler: str, *questions: str) -> str:
    """The first question that is answered: clang has no -dumpfullversion."""
    for question in questions:
        done = run_program([compiler, question], limits=_LIMITS, environment=plain_environment())
        if done.status == 0:
            return os.fsdecode(done.stdout).strip()
    raise ToolError(f"{compiler} does not answer {questions[-1]}", remedy="install it again")
