"""Knows a vLLM source tree by the files that it holds, and reads how it names its kernels.

Three generations of `csrc/cpu`, as found in its source distributions:

- with `pybind.cpp` (0.4.x): six files that make the whole extension `_C`;
- with `torch_bindings.cpp` and `cache.cpp` (0.5 to 0.11.0): all of it needs oneDNN, by network;
- with `torch_bindings.cpp` and `cpu_attn.cpp` (from 0.11.1): the paged cache is written there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.errors import UsageError

CPU: Final = Path("csrc", "cpu")
_BINDINGS: Final = "torch_bindings.cpp"
_KERNELS: Final = (
    # Beside the kernels, what they call: the memory of a thread, and questions to the processor.
    ("cpu_attn.cpp", "utils.cpp", "scratchpad_manager.cpp", "cpu_isa.cpp"),
    ("cache.cpp", "attention.cpp"),
)
"""Sets of files that are whole without the rest, newest generation first; the first of a set must
be there."""
_DEFINITION: Final = re.compile(r'\.def\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)')
_LITERAL: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


class Generation(StrEnum):
    """What can be built of a tree without the network."""

    EXTENSION = "extension"
    """All of `_C`."""
    KERNELS = "kernels"
    """The files that touch the paged cache, each alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A function that the tree registers with torch."""

    name: str
    schema: str
    """As it stands in the source, with the escapes of a C++ string."""


def generation_of(tree: SourceTree) -> Generation | None:
    """The generation of a vLLM tree; None for a tree of something else.

    Raises:
        UsageError: a vLLM whose CPU kernels are of no kind that is known here.

    """
    if not ((tree.path / "vllm" / "__init__.py").is_file() and (tree.path / "csrc").is_dir()):
        return None
    cpu = tree.path / CPU
    if (cpu / "pybind.cpp").is_file() and (cpu / "cache.cpp").is_file():
        return Generation.EXTENSION
    if (cpu / _BINDINGS).is_file() and kernel_files(tree):
        return Generation.KERNELS
    if not cpu.is_dir():
        raise UsageError(
            f"{tree.path} is a vLLM without {CPU}: its kernels need a GPU, where no sanitizer sees",
            remedy="give a release that has a CPU backend, from 0.4.1 on",
        )
    raise UsageError(
        f"{tree.path} is a vLLM whose {CPU} is of no known kind: neither pybind.cpp and cache.cpp, "
        f"nor {_BINDINGS} and cpu_attn.cpp or cache.cpp",
        remedy="known are the releases from 0.4.1 to 0.33; is the checkout complete?",
    )


def kernel_files(tree: SourceTree) -> tuple[str, ...]:
    """Names of the files of csrc/cpu that are compiled without the rest; empty for none."""
    for names in _KERNELS:
        if (tree.path / CPU / names[0]).is_file():
            return tuple(name for name in names if (tree.path / CPU / name).is_file())
    return ()


def operators_of(bindings: str, source: str) -> tuple[Operator, ...]:
    """What the text of torch_bindings.cpp registers, of the functions that `source` defines."""
    found = {}
    for definition in _DEFINITION.finditer(bindings):
        schema = "".join(_LITERAL.findall(definition[1]))
        name = schema.partition("(")[0].strip()
        if name.isidentifier() and _defines(source, name):
            found[name] = Operator(name=name, schema=schema)
    return tuple(found.values())


def _defines(source: str, name: str) -> bool:
    """Does a line begin with a type and the name? A call is indented."""
    return re.search(rf"^[A-Za-z_][\w:<>&*, ]* {name}\(", source, re.MULTILINE) is not None
