"""What vLLM's own CMake gives the compiler for its CPU kernels (cmake/cpu_extension.cmake)."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Final

from vllm_forensics.errors import ToolError

# torch 2.13's headers need C++20; vLLM's sources use extensions of GNU.
_ALWAYS: Final = ("-std=gnu++20", "-fPIC", "-fopenmp", "-DVLLM_CPU_EXTENSION")
_AVX512: Final = ("-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq")
_AVX512_NAMES: Final = {"avx512f", "avx512vl", "avx512bw", "avx512dq"}


def extension_options() -> tuple[str, ...]:
    """For the releases with pybind.cpp, whose only kernels are those for AVX-512.

    Raises:
        ToolError: this machine has none.

    """
    if not _processor_flags() >= _AVX512_NAMES:
        raise ToolError(
            "the kernels of this release are for AVX-512, which this machine has not",
            remedy="build on one that has it, or take a release from 0.11.1 on: AVX2 will do",
        )
    return (*_ALWAYS, *_AVX512)


def kernel_options() -> tuple[str, ...]:
    """For the releases since then: AVX-512 where there is, else AVX2, else what the machine has."""
    if platform.machine() != "x86_64":
        return (*_ALWAYS, "-march=native")
    wide = _processor_flags() >= _AVX512_NAMES
    return (*_ALWAYS, "-mf16c", *(_AVX512 if wide else ("-mavx2",)))


def _processor_flags() -> set[str]:
    """The `flags` of the first processor in /proc/cpuinfo (proc(5))."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return set()
    found = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)
    return set(found[1].split()) if found is not None else set()
