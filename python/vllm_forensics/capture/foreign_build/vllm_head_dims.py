"""Leaves out kernels of head dimensions that nobody asked for: each takes minutes to compile."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.tree import read_text
from vllm_forensics.errors import ToolError, UsageError

DEFAULT: Final = (64, 128)
"""Those of most models."""
_GENERATOR: Final = "generate_cpu_attn_dispatch.py"
_CASE: Final = re.compile(r"\bCPU_ATTN_DISPATCH_CASE\((\d+), *__VA_ARGS__\)")
# The tree's own generator runs, on shorter lists.
_GENERATE: Final = """
import importlib.util, json, sys
path, wanted = sys.argv[1], set(map(int, sys.argv[2:]))
found = importlib.util.spec_from_file_location("generator", path)
module = importlib.util.module_from_spec(found)
found.loader.exec_module(module)
known = set()
for name, value in vars(module).items():
    if name.startswith("HEAD_DIMS") and isinstance(value, list):
        known.update(value)
        setattr(module, name, [one for one in value if one in wanted])
if wanted <= known:
    module.main()
sys.stdout.write("\\n" + json.dumps(sorted(known)))
"""


def limit_head_dims(steps: Steps, python: Path, cpu: Path, wanted: tuple[int, ...]) -> None:
    """Write the dispatch of `cpu_attn.cpp`, in the copy `cpu` of csrc/cpu, for `wanted` alone.

    Newer releases have a script for it; before, the cases stand in the file: those that are not
    wanted are blanked, and every line keeps its number. Times are left as they were, so that what
    did not change is not compiled again.

    Raises:
        UsageError: there is no kernel of that head dimension.
        ToolError: the tree's script fails.

    """
    generator, source = cpu / _GENERATOR, cpu / "cpu_attn.cpp"
    if generator.is_file():
        said = steps.run(
            "dispatch of head dimensions",
            [
                python,
                "-I",
                "-c",
                _GENERATE,
                generator,
                *map(str, wanted),
            ],
            remedy=f"does it run by itself? python {generator.name}",
        )
        _require(wanted, json.loads(said.splitlines()[-1]))
        header = cpu / "cpu_attn_dispatch_generated.h"
        if not header.is_file():
            raise ToolError(
                f"{_GENERATOR} wrote no {header.name}", remedy="the tree is of an unknown release"
            )
        _give_time_of(generator, header)
        return
    text = read_text(source)
    _require(wanted, {int(number) for number in _CASE.findall(text)})
    before = source.stat()
    source.write_text(
        _CASE.sub(lambda case: case[0] if int(case[1]) in wanted else " " * len(case[0]), text),
        encoding="utf-8",
    )
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))


def _require(wanted: tuple[int, ...], known: Iterable[int]) -> None:
    have = sorted(known)
    unknown = [number for number in wanted if number not in have]
    if unknown:
        raise UsageError(
            f"these kernels have no head dimension {unknown[0]}",
            remedy=f"--head-dim: one of {', '.join(map(str, have))}" if have else "leave it out",
        )


def _give_time_of(model: Path, path: Path) -> None:
    facts = model.stat()
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
