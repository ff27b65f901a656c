"""Puts instrumented kernels into a real vLLM: a plugin that vLLM itself finds and loads.

vLLM calls every entry point of the group `vllm.general_plugins` in each of its processes. Ours
gives the operators of `torch.ops._C` to the module that was built, for tensors of the processor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PLUGIN: Final = '''\
"""Written by `forensics build`: vLLM's operators are answered by the kernels that it built."""

import sys

import torch

import {module}

OPERATORS = {operators!r}
libraries = {{}}
done = set()


def take_over():
    """vLLM may call this again in the same process."""
    try:
        from vllm.platforms import current_platform

        current_platform.import_kernels()
    except (ImportError, AttributeError):
        import vllm._custom_ops
    for space in ("_C", "_C_cache_ops"):
        for name in OPERATORS:
            if hasattr(getattr(torch.ops, space), name) and (space, name) not in done:
                done.add((space, name))
                replace(space, name)


def replace(space, name):
    theirs = getattr(getattr(torch.ops, space), name).default
    ours = getattr(torch.ops.{module}, name).default
    if schema(theirs) != schema(ours):
        said = "stays vLLM's own: the kernels that were built are of another release"
        print(f"{{space}}.{{name}} {{said}}", file=sys.stderr)
        return
    if space not in libraries:
        libraries[space] = torch.library.Library(space, "IMPL", "CPU")
    libraries[space].impl(name, ours)


def schema(operator):
    return str(operator._schema).partition("::")[2]
'''
_METADATA: Final = "Metadata-Version: 2.1\nName: {name}\nVersion: 0\n"
_ENTRY_POINT: Final = "[vllm.general_plugins]\n{name} = {name}:take_over\n"


def write_plugin(site: Path, module: str, operators: tuple[str, ...]) -> None:
    """Install the plugin beside the module, into the same site-packages."""
    name = f"{module}_plugin"
    (site / f"{name}.py").write_text(
        _PLUGIN.format(module=module, operators=operators), encoding="utf-8"
    )
    facts = site / f"{name}-0.dist-info"
    facts.mkdir(exist_ok=True)
    (facts / "METADATA").write_text(_METADATA.format(name=name), encoding="utf-8")
    (facts / "entry_points.txt").write_text(_ENTRY_POINT.format(name=name), encoding="utf-8")
