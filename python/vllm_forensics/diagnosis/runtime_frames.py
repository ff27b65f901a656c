"""Which frames are a runtime's and not the user's own code. Each entry says why it is here."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.stack import Frame, FrameKind

RUNTIME_MODULES: Final = (
    (r"libc[.-].*so.*|libc\.so.*", "the C library"),
    (
        r"libpthread[.-].*|libm[.-].*|libdl[.-].*|librt[.-].*|libresolv[.-].*",
        "parts of the C library",
    ),
    (r"ld-linux.*|ld-musl.*|ld-2\..*", "the dynamic linker"),
    (r"libstdc\+\+\.so.*|libc\+\+(abi)?\.so.*|libsupc\+\+.*", "the C++ library"),
    (r"libgcc_s.*|libunwind\.so.*", "the unwinder"),
    (r"lib(asan|ubsan|tsan|lsan|hwasan|msan)\.so.*|libclang_rt\..*", "sanitizer runtimes"),
    (r"(lib)?python\d(\.\d+)?[a-z]*(\.so.*)?|python(-(asan|ubsan|tsan))+", "the interpreter"),
    (r"libffi\.so.*", "ctypes' and cffi's way into C"),
    (r"lib(gomp|omp|iomp5)[.-].*", "the OpenMP runtime: it calls the loop bodies"),
    (r"lib(jemalloc|tcmalloc|mimalloc).*", "allocators that stand in for malloc"),
    (r"linux-vdso\.so.*|\[vdso\]", "the kernel's own code page"),
)
RUNTIME_FUNCTIONS: Final = (
    (
        r"(non-virtual thunk to )?std::.*",
        "the standard library's templates, compiled into the user's module",
    ),
    (r"__gnu_cxx::.*|__cxxabiv1::.*|__cxa_.*|_Unwind_.*|__gxx_personality.*", "the C++ runtime"),
    (r"operator (new|delete)(\[\])?", "allocation"),
    (
        r"__(asan|ubsan|tsan|lsan|msan|hwasan|sanitizer|interception|interceptor)(::|_).*",
        "sanitizer runtimes",
    ),
    (r"___?interceptor_.*", "sanitizer interceptors"),
    (r".*@plt", "PLT stubs"),
    (r"_start|__libc_start_.*|_dl_.*|__restore_rt|_init|_fini", "start-up code"),
    (r"Py_FatalError|_?Py[A-Z_].*", "the interpreter, where it is linked into the program"),
)
_OWN_EXTENSIONS: Final = "/lib-dynload/"
_PYTHON_LIBRARY: Final = re.compile(r"/python3(\.\d+)?/(?!(site|dist)-packages/)|^<frozen ")
"""Python's own library, frozen modules too; `<string>` is what a user typed."""
_MODULES: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in RUNTIME_MODULES))
_FUNCTIONS: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in RUNTIME_FUNCTIONS))


def is_runtime_module(path: str) -> bool:
    """Is the file a runtime's, by its name, or one of Python's own extension modules?"""
    if _OWN_EXTENSIONS in path:
        return True
    return _MODULES.fullmatch(path.rsplit("/", 1)[-1]) is not None


def is_own(frame: Frame) -> bool:
    """Is this a call of the user's own code? A frame that nobody can place is not."""
    if frame.kind is FrameKind.PYTHON:
        return frame.file is not None and _PYTHON_LIBRARY.search(frame.file) is None
    if frame.kind is FrameKind.SIGNAL or (frame.module is None and frame.function is None):
        return False
    if frame.module is not None and is_runtime_module(frame.module):
        return False
    return frame.function is None or _FUNCTIONS.fullmatch(frame.function) is None
