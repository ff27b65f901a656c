"""Small programs that give a built vLLM kernel a block beyond the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.workspace import Workspace

_BEGIN: Final = '''\
"""Written by `forensics build`: one call that is right, then one with a block out of range."""

import os
import sys

# On one thread the report's stack reaches down to Python.
os.environ["OMP_NUM_THREADS"] = "1"

import torch
'''
_COPY: Final = """
keys, values = [torch.zeros({blocks}, 2, 8)], [torch.zeros({blocks}, 2, 8)]


def copy(source, target):
    print(f"copying block {{source}} to block {{target}} of 0 to {last}", file=sys.stderr)
    {call}


copy(0, 1)
copy(0, {blocks})
print("nothing was noticed", file=sys.stderr)
"""
_EXTENSION: Final = """
import importlib.util

# By its path: `import vllm` would want all that vLLM depends on.
found = importlib.util.spec_from_file_location("vllm._C", {module!r})
module = importlib.util.module_from_spec(found)
found.loader.exec_module(module)
copy_blocks = module.cache_ops.copy_blocks
takes_tensor = "arg2: torch.Tensor" in copy_blocks.__doc__
"""
_KERNELS: Final = """
import {name}

operators = torch.ops.{name}
"""
_RESHAPE: Final = """
head_dim, heads, block_size, blocks = {head_dim}, 2, 32, {blocks}
keys, values = (torch.zeros(blocks, heads, block_size, head_dim) for _ in range(2))
key, value = (torch.ones(1, heads, head_dim) for _ in range(2))


def write(block):
    print(f"writing a token to block {{block}} of 0 to {last}", file=sys.stderr)
    slots = torch.tensor([block * block_size])
    operators.cpu_attn_reshape_and_cache(key, value, keys, values, slots, "vec")


write(0)
write(blocks)
print("nothing was noticed", file=sys.stderr)
"""
_BLOCKS: Final = 4


def write_example(workspace: Workspace, text: str) -> Path:
    """Put it into the build's folder."""
    path = workspace.request.folder / "example.py"
    path.write_text(text, encoding="utf-8")
    return path


def extension_example(module: Path) -> str:
    """For the whole extension `_C`, whose copy_blocks takes a dictionary, later a tensor."""
    call = (
        "pairs = torch.tensor([[source, target]]) if takes_tensor else {source: [target]}\n"
        "    copy_blocks(keys, values, pairs)"
    )
    return _BEGIN + _EXTENSION.format(module=str(module)) + _copy(call)


def copy_example(name: str) -> str:
    """For the module `name` with the operator copy_blocks."""
    call = "operators.copy_blocks(keys, values, torch.tensor([[source, target]]))"
    return _BEGIN + _KERNELS.format(name=name) + _copy(call)


def reshape_example(name: str, head_dim: int) -> str:
    """For the module `name` with the operator cpu_attn_reshape_and_cache."""
    return (
        _BEGIN
        + _KERNELS.format(name=name)
        + _RESHAPE.format(head_dim=head_dim, blocks=_BLOCKS, last=_BLOCKS - 1)
    )


def _copy(call: str) -> str:
    return _COPY.format(call=call, blocks=_BLOCKS, last=_BLOCKS - 1)
