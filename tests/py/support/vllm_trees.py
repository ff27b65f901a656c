"""The Python files of released vLLMs, fetched once into the user's cache."""

import os
import shutil
from functools import cache, partial
from pathlib import Path

import pytest

from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.errors import ToolError
from vllm_forensics.model.sandbox import Generation, Parameters, RequestSpec, SandboxRun, VllmTree
from vllm_forensics.sandbox.driver import Meddle
from vllm_forensics.sandbox.engine.reference import opened_reference
from vllm_forensics.sandbox.engine.v0 import opened_v0
from vllm_forensics.sandbox.engine.v1 import opened_v1
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.run import OpenEngine, run

CURRENT = "0.32.0"
OLD = "0.4.2"
OLDEST = "0.3.3"


@cache
def _fetched(version: str) -> VllmTree | str:
    try:
        return find_tree(version, on_fetch=lambda what: None)
    except ToolError as error:
        return error.message


def a_tree(version: str) -> VllmTree:
    found = _fetched(version)
    if isinstance(found, str):
        pytest.skip(found)
    return found


def patched(folder: Path, file: str, old: str, new: str) -> Path:
    """A copy of the current tree with one patch in `vllm/v1/core`; other files are only linked."""
    copy = folder / "tree"
    shutil.copytree(a_tree(CURRENT).root, copy, copy_function=os.symlink)
    path = copy / "vllm" / "v1" / "core" / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file} holds {old!r} not once"
    path.unlink()
    path.write_text(text.replace(old, new), encoding="utf-8")
    return copy


def opener(version: str) -> OpenEngine:
    if version == "reference":
        return opened_reference
    tree = a_tree(version)
    return partial(opened_v0 if tree.generation is Generation.V0 else opened_v1, tree)


def driven(
    version: str,
    parameters: Parameters,
    load: tuple[RequestSpec, ...],
    meddle: Meddle | None = None,
) -> SandboxRun:
    return run(opener(version), parameters, load, meddle=meddle)


TEXTBOOK = uniform(10, 170, 16)
"""11 blocks of 16 tokens each: nine fit into 100."""
