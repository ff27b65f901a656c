"""What a text shows of where a process ran: in Python, in a container or a pod, beside others.

What there is to type next hangs on it: who never heard of Python has no stack of Python's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.incident import SPY, Clue, Death, ProcessRole
from vllm_forensics.model.stack import FrameKind

_PYTHONS: Final = {
    "faulthandler", "python", "ray", "vllm", "the Python parent", SPY,
}  # fmt: skip
"""Who writes only in Python, or of what runs in it."""
_ROLES: Final = {ProcessRole.ENGINE_CORE, ProcessRole.API_SERVER, ProcessRole.RAY_ACTOR}
_IN_PYTHON: Final = re.compile(
    r"(?i)(?:python|pypy|ipython|jupyter|ipykernel|pytest|gunicorn|uvicorn|celery|ray\b|vllm|sglang|"
    r"torchrun|streamlit|(?:vllm)?worker|scheduler|gw\d|(?:Spawn|Fork|ForkServer|Loky)\w*-\d|"
    r"work-horse|dataloader|child|rank)\S{0,60}|.{1,120}\.pyx?"
)
"""Names of Python's programs, and what its masters call their children."""
_EXTENSION: Final = re.compile(r"libpython\d|\.cpython-3|\.abi3\.so|\b_C\.so")
_SCRIPT: Final = re.compile(r"\.py\b|\bpy\.?test\b|\bpip3?\b|\bimport \w|\bPython\b")
_POD: Final = re.compile(
    r"(?i)\bkubectl\b|\bkubelet\b|\bkubernetes\b|\bk8s\b|CrashLoopBackOff|\bOOMKilled\b|"
    r"kubepods|\bpods?\b|Last State:"
)
_CONTAINER: Final = re.compile(r"(?i)\bdocker\b|\bcontainers?\b|\bcontainerd\b|\bpodman\b|/moby/")
_GROUP: Final = re.compile(
    r"(?i)[nr]ccl|\bgloo\b|\bcollective|\brank ?\d|process ?group|torch|all_?reduce|cuda|gpu"
)
"""Of processes that work together on GPUs."""
_VLLMS: Final = {"vllm", "the GPU runtime"}


def runs_python(death: Death, told: Sequence[Clue]) -> bool:
    """Does the text show that Python ran there?

    Who has a name of his own is what that says: `git` is none because a script waited for it.
    """
    if death.python_function is not None or _shows_frames(death) or death.role in _ROLES:
        return True
    if death.name is not None and _IN_PYTHON.fullmatch(death.name) is None:
        return False
    words = "\n".join(clue.text for clue in told)
    return (
        any(clue.source in _PYTHONS or clue.python for clue in told)
        or _SCRIPT.search(words) is not None
        or (death.name is not None and _IN_PYTHON.fullmatch(death.name) is not None)
    )


def _shows_frames(death: Death) -> bool:
    modules = (death.module or "", *(frame.module or "" for frame in death.frames))
    is_pythons = any(frame.kind is FrameKind.PYTHON for frame in death.frames)
    return is_pythons or any(_EXTENSION.search(module) is not None for module in modules)


def is_in_pod(told: Sequence[Clue]) -> bool:
    """Do the clues speak of Kubernetes?"""
    return any(_POD.search(clue.text) is not None for clue in told)


def is_in_container(told: Sequence[Clue]) -> bool:
    """Do the clues speak of a container, of whomever's?"""
    return any(
        clue.source == "the container runtime" or _CONTAINER.search(clue.text) is not None
        for clue in told
    )


def is_in_group(death: Death, told: Sequence[Clue]) -> bool:
    """Do several processes, or a GPU, work together?"""
    is_vllms = any(clue.source in _VLLMS for clue in told) or death.role in _ROLES
    return is_vllms or any(_GROUP.search(clue.text) is not None for clue in told)
