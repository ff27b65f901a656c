"""Whose code a frame is."""

import pytest

from vllm_forensics.diagnosis.runtime_frames import is_own
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
