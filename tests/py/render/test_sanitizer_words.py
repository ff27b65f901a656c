"""What a line of a report's text calls a frame."""

import pytest

from vllm_forensics.model.sanitizer import PrintedFrame
from vllm_forensics.render.sanitizer_words import name_in_line


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("copy_blocks(std::vector<int>&)", "copy_blocks"),
        (
            "void (anonymous namespace)::copy<float>(float*, int) [clone ._omp_fn.0]",
            "(anonymous namespace)::copy<float>",
        ),
        ("Attention<(Kind)1, 64l>::write(long)", "Attention<(Kind)1, 64l>::write"),
        ("operator()", "operator()"),
    ],
)
def test_a_name_is_cut_at_its_arguments_and_nowhere_else(function: str, name: str) -> None:
    frame = PrintedFrame(index=0, pc="0x1", function=function)

    assert name_in_line(frame) == name
