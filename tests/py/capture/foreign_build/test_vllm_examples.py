"""The examples are Python that compiles, with the right call before the wrong one."""

from pathlib import Path

import pytest

from vllm_forensics.capture.foreign_build.vllm_examples import (
    copy_example,
    extension_example,
    reshape_example,
)

TEXTS = {
    "extension": extension_example(Path("/a 'folder'/_C.so")),
    "copy": copy_example("kernels"),
    "reshape": reshape_example("kernels", 96),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_example_compiles_and_ends_with_what_must_not_be_reached(text: str) -> None:
    compile(text, "example.py", "exec")

    assert "{{" not in text
    assert text.endswith('print("nothing was noticed", file=sys.stderr)\n')
    assert text.index('"OMP_NUM_THREADS"') < text.index("import torch")
