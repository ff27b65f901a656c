"""Whose code a frame is."""

import re

import pytest

from vllm_forensics.diagnosis.runtime_frames import (
    PREFIX_FUNCTIONS,
    RUNTIME_FUNCTIONS,
    RUNTIME_MODULES,
    RUNTIME_PYTHON_FILES,
    SENTINEL_FUNCTIONS,
    FrameRule,
    is_ending,
    is_own,
    is_raising,
)
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.stack import Frame, FrameKind


@pytest.mark.parametrize(
    ("file", "is_theirs"),
    [
        ("/app/serve.py", True),
        ("/venv/lib/python3.11/site-packages/vllm/_custom_ops.py", True),
        ("/app/torch/_ops_of_ours.py", True),
        ("<string>", True),
        ("/venv/lib/python3.11/site-packages/torch/_ops.py", False),
        ("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", False),
        ("/venv/lib/python3.11/site-packages/torch/utils/_contextlib.py", False),
        ("/usr/lib/python3.11/threading.py", False),
        ("<frozen runpy>", False),
        (None, False),
    ],
)
def test_a_python_function_is_told_by_its_file(file: str | None, is_theirs: bool) -> None:
    frame = Frame(
        index=0, pc=0, function="call", tier=Tier.PYSTACK, kind=FrameKind.PYTHON, file=file, line=1
    )

    assert is_own(frame) is is_theirs


TABLES = {
    "modules": RUNTIME_MODULES,
    "functions": RUNTIME_FUNCTIONS,
    "python files": RUNTIME_PYTHON_FILES,
    "prefixes": PREFIX_FUNCTIONS,
    "sentinels": SENTINEL_FUNCTIONS,
}
LINES = [
    pytest.param(name, rule, id=f"{name}: {rule.example}")
    for name, table in TABLES.items()
    for rule in table
]


def native(function: str | None = None, module: str | None = "/app/engine") -> Frame:
    return Frame(index=0, pc=0, function=function, tier=Tier.LIBDW, module=module)


def python(file: str) -> Frame:
    return Frame(
        index=0, pc=0, function="call", tier=Tier.PYSTACK, kind=FrameKind.PYTHON, file=file
    )


@pytest.mark.parametrize(("name", "rule"), LINES)
def test_each_line_says_why_and_alone_knows_its_example(name: str, rule: FrameRule) -> None:
    knowing = [line for line in TABLES[name] if re.fullmatch(line.pattern, rule.example)]

    assert len(rule.why) >= 5
    assert knowing == [rule]


@pytest.mark.parametrize(("name", "rule"), LINES)
def test_each_line_is_reached(name: str, rule: FrameRule) -> None:
    reached = {
        "modules": lambda: not is_own(native(module=f"/usr/lib/{rule.example}")),
        "functions": lambda: not is_own(native(rule.example)),
        "python files": lambda: not is_own(python(rule.example)),
        "prefixes": lambda: is_raising(native(rule.example)),
        "sentinels": lambda: is_ending(native(rule.example)),
    }

    assert reached[name]()


def test_a_users_function_is_in_no_table() -> None:
    assert is_own(native("vllm::copy_blocks"))
    assert not is_raising(native("vllm::copy_blocks"))
    assert not is_ending(native("vllm::copy_blocks"))
