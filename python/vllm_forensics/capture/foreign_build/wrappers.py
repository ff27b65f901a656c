"""Stand-ins for compiler and strip, which every build system can be made to call.

A flag in CFLAGS or CMAKE_CXX_FLAGS is lost where a project sets these itself; what comes last on
the compiler's command line is not. So each call goes through a script that takes out what would
undo the flavour, appends its flags, and leaves two traces: the call, and what a failed one said.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.toolchain import compile_flags, link_flags
from vllm_forensics.capture.foreign_build.tree import require_text
from vllm_forensics.capture.process import find_program
from vllm_forensics.model.build import Compiler, Flavour

_SCRIPT: Final = """\
#!/bin/sh
# Written by `forensics build`: the compiler with the flags of this flavour.
case "$PWD" in
  # Questions of CMake and meson about the compiler: they must see it as it is.
  */CMakeFiles/* | */meson-private | */meson-private/*) exec {compiler} "$@" ;;
esac
left=$# before=
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case "$argument" in
    -s | -Wl,-s | -Wl,-S | -Wl,--strip-all | -Wl,--strip-debug) continue ;;
    -flto | -flto=* | -fomit-frame-pointer | -Werror | -Werror=*) continue ;;
    -fno-sanitize=* | -static-lib[atlu]*san) continue ;;
    -Wl,*,-s | -Wl,*,-s,* | -Wl,-s,* | -Wl,*,--strip-* | -Wl,--strip-*)
      argument=$(printf '%s' "$argument" |
        sed -E -e ':a' -e 's/,(-s|-S|--strip-all|--strip-debug)(,|$)/\\2/' -e 'ta')
      ;;
    # A report names a source as the compiler was given it: then from where it can be found.
    /* | -* | ../*) ;;
    *.c | *.cc | *.cpp | *.cxx | *.C)
      [ "$before" = -o ] || [ ! -f "$argument" ] || argument=$PWD/${{argument#./}}
      ;;
  esac
  before=$argument
  set -- "$@" "$argument"
done
{{
  printf '%s\\037' "$PWD" {name} "$@"
  echo
}} >>{calls}/$$
{run} "$@" {flags} 2>{failures}/$$
status=$?
cat {failures}/$$ >&2
[ "$status" -ne 0 ] || rm -f {failures}/$$
exit "$status"
"""
_STRIP: Final = """\
#!/bin/sh
# Written by `forensics build`: names and lines are kept.
exit 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrappers:
    """Where the scripts are and what they are called; found through PATH, so without a space."""

    folder: Path
    cc: str
    cxx: str
    calls: Path
    """A file a process, a line a call: the folder and the arguments, each ended by a 0x1f."""
    failures: Path
    """What each failed call printed."""


def write_wrappers(
    folder: Path, compiler: Compiler, flavour: Flavour, *, renamed: Mapping[str, str]
) -> Wrappers:
    """Write the scripts into an empty folder. A ccache that is installed is put between.

    `renamed` holds folders that are compiled, and what debug information shall call them.

    Raises:
        UsageError: the folder's path cannot stand in a script.

    """
    require_text(folder)
    binaries, calls, failures = (folder / name for name in ("bin", "calls", "failures"))
    for one in (binaries, calls, failures):
        one.mkdir(parents=True)
    names = [f"-ffile-prefix-map={old}={new}" for old, new in renamed.items()]
    flags = shlex.join((*compile_flags(flavour, compiler), *link_flags(flavour, compiler), *names))
    ccache = find_program("ccache")
    # Build tools look for "gcc", "g++" or "clang" in the name to know what they deal with.
    cc, cxx = (f"forensics-{Path(path).name}" for path in (compiler.c, compiler.cxx))
    for name, real in zip((cc, cxx), (compiler.c, compiler.cxx), strict=True):
        script = _SCRIPT.format(
            compiler=shlex.quote(real),
            run=shlex.join((ccache, real) if ccache else (real,)),
            name=shlex.quote(name),
            flags=flags,
            calls=shlex.quote(str(calls)),
            failures=shlex.quote(str(failures)),
        )
        _write(binaries / name, script)
    _write(binaries / "strip", _STRIP)
    return Wrappers(folder=binaries, cc=cc, cxx=cxx, calls=calls, failures=failures)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
