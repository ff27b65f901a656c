"""Finds the shared runtimes of sanitizers, and makes them fit to be preloaded."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from site import getsitepackages
from typing import Final

from vllm_forensics.capture.process import Limits, find_program, run_program
from vllm_forensics.errors import ToolError

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_QUICK: Final = Limits(timeout_s=10.0, output_bytes=1 << 16)
_MACHINE: Final = os.uname().machine
_FOLDERS: Final = (
    *(f"/usr/lib/{_MACHINE}-linux-gnu", f"/lib/{_MACHINE}-linux-gnu"),
    *("/usr/lib64", "/lib64", "/usr/lib", "/usr/local/lib"),
)
_CLANG_FOLDERS: Final = (
    "llvm-*/lib/clang/*/lib/linux",  # Debian and its kin
    "clang/*/lib/linux",  # Fedora
    f"llvm-*/lib/clang/*/lib/{_MACHINE}-pc-linux-gnu",
)
_RUNTIMES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "gcc": {
        "asan": ("libasan.so",),
        "asan-ubsan": ("libasan.so", "libubsan.so"),
        "ubsan": ("libubsan.so",),
        "tsan": ("libtsan.so",),
    },
    "clang": {  # its AddressSanitizer brings the checks of UndefinedBehaviorSanitizer along
        "asan": (f"libclang_rt.asan-{_MACHINE}.so",),
        "asan-ubsan": (f"libclang_rt.asan-{_MACHINE}.so",),
        "ubsan": (f"libclang_rt.ubsan_standalone-{_MACHINE}.so",),
        "tsan": (f"libclang_rt.tsan-{_MACHINE}.so",),
    },
}
_STDCPP: Final = "libstdc++.so.6"
_SCUDO: Final = (
    f"libclang_rt.scudo_standalone-{_MACHINE}.so",
    "libclang_rt.scudo_standalone.so",  # where each target has a folder of its own
)
_MAX_MODULES: Final = 2000
_MAX_FOLDERS: Final = 5000
_PACKAGE_FOLDERS: Final = """
import sysconfig
print(*{sysconfig.get_path(name) for name in ("purelib", "platlib")}, sep="\\n")
"""
_SEPARATORS: Final = frozenset(" :\t\n")
"""ld.so(8): LD_PRELOAD is a list separated by spaces or colons; neither can be escaped."""


def installed_library(name: str) -> str | None:
    """A shared library that was installed with this package, or None."""
    # An editable install has its sources in one place and what was built in another.
    for place in (_PACKAGE, *(Path(site) / _PACKAGE.name for site in getsitepackages())):
        candidate = place / "bin" / name
        if candidate.is_file():
            return str(candidate)
    return None


def runtimes_of(family: str, flavour: str) -> tuple[str, ...]:
    """The runtimes that code of one compiler needs, resolved, in the order of a preload.

    `family` is gcc or clang, `flavour` asan, asan-ubsan, ubsan or tsan.

    Raises:
        ToolError: one is not here; the remedy names its package.

    """
    return tuple(find_runtime(name) for name in _RUNTIMES[family][flavour])


def find_runtime(name: str) -> str:
    """The path of a runtime by its file name or soname, resolved.

    Raises:
        ToolError: it is not here; the remedy names its package.

    """
    found = _find(name)
    if found is None:
        raise ToolError(f"{name} is not on this machine", remedy=_package_of(name))
    return found


def find_scudo() -> str:
    """LLVM's Scudo allocator, which has GWP-ASan inside, resolved.

    Raises:
        ToolError: it is not here; the remedy names its package.

    """
    for name in _SCUDO:
        if (found := _find(name)) is not None:
            return found
    raise ToolError(f"{_SCUDO[0]} is not on this machine", remedy=_package_of(_SCUDO[0]))


def standard_library(prefix: str | None) -> str | None:
    """libstdc++, which must be there when a runtime looks for __cxa_throw.

    `prefix` is that of the Python: conda has a libstdc++ of its own, newer than the system's.
    """
    if prefix is not None and (own := Path(prefix) / "lib" / _STDCPP).is_file():
        return str(own.resolve())
    return _find(_STDCPP)


def find_modules(folders: Sequence[Path]) -> list[str]:
    """Shared libraries below the folders, of both a bounded number; hidden ones are left out."""
    found: list[str] = []
    left = _MAX_FOLDERS
    for folder in dict.fromkeys(folders):
        for parent, folders_inside, names in os.walk(folder):
            folders_inside[:] = [name for name in folders_inside if not name.startswith(".")]
            found += [f"{parent}/{name}" for name in names if ".so" in name]
            left -= 1
            if left == 0 or len(found) >= _MAX_MODULES:
                return found[:_MAX_MODULES]
    return found


def module_folders(python: str) -> list[Path]:
    """Where the packages of a Python lie; none where it does not say."""
    done = run_program([python, "-I", "-c", _PACKAGE_FOLDERS], limits=_QUICK)
    said = done.stdout.decode("utf-8", "surrogateescape")
    return [Path(line) for line in said.splitlines() if line] if done.status == 0 else []


def symbolizer_path() -> str | None:
    """The llvm-symbolizer that is not on PATH, for clang's runtimes; None where it is, or none is.

    They take no other name, and Debian keeps the plain one beside its LLVM.
    """
    if find_program("llvm-symbolizer") is not None:
        return None
    found = sorted(Path("/usr/lib").glob("llvm-*/bin/llvm-symbolizer"))
    return str(found[-1]) if found else None


@contextlib.contextmanager
def preload_list(libraries: Sequence[str]) -> Iterator[str]:
    """The value for LD_PRELOAD; to paths that it cannot hold there are links until the end."""
    with contextlib.ExitStack() as stack:
        paths = list(libraries)
        if any(_SEPARATORS & set(path) for path in paths):
            where = None if not _SEPARATORS & set(tempfile.gettempdir()) else "/tmp"  # noqa: S108
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="preload-", dir=where))
            )
            for at, path in enumerate(paths):
                if _SEPARATORS & set(path):
                    link = folder / f"{at}-{Path(path).name.translate(_NO_SEPARATORS)}"
                    link.symlink_to(path)
                    paths[at] = str(link)
        yield " ".join(paths)


_NO_SEPARATORS: Final = {ord(character): "_" for character in _SEPARATORS}


def _find(name: str) -> str | None:
    for compiler in ("gcc", "clang"):
        if find_program(compiler) is not None:
            done = run_program([compiler, f"-print-file-name={name}"], limits=_QUICK)
            path = Path(done.stdout.decode("utf-8", "surrogateescape").strip())
            if path.is_absolute() and path.is_file():
                return str(path.resolve())
    named = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_FOLDERS]
    places = [Path(folder) for folder in named if folder]
    places += [
        found for folder in _CLANG_FOLDERS for found in sorted(Path("/usr/lib").glob(folder))
    ]
    for place in places:
        # Without a compiler there is no libasan.so, only the libasan.so.8 that programs load.
        candidates = [place / name, *sorted(place.glob(f"{name}.[0-9]*"))]
        for candidate in candidates:
            if candidate.is_file():
                return str(candidate.resolve())
    return None


def _package_of(name: str) -> str:
    if name.startswith("libclang_rt."):
        clang = find_program("clang++") or find_program("clang")
        version = ""
        if clang is not None:
            done = run_program([clang, "-dumpversion"], limits=_QUICK)
            version = done.stdout.decode("ascii", "replace").split(".")[0].strip()
        return f"apt-get install libclang-rt-{version or '14'}-dev"
    if name.startswith("libstdc++"):
        return "apt-get install libstdc++6"
    return "apt-get install g++   (it brings libasan, libubsan and libtsan)"
