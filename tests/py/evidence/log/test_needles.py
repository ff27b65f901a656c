"""The byte search finds what a plain search of every line finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.log.needles import Search, words

WORDS = (b"exit code: -", b"Killed", b"panic: ", b"died unexpectedly", b" x ", b"deadbeef!")
LINES = st.sampled_from(
    [b"exit code: -11", b"xit o: -", b"Kill", b"Killed", b"pni: ", b"panic: no", b"a x b", b"",
     b"!", b"deadbeef!", b"step 12 at 0xabc", b"worker died unexpectedly", b"i unxpty"]
)  # fmt: skip


@pytest.mark.parametrize("is_large", [False, True])
@given(
    lines=st.lists(LINES | st.binary(max_size=8).map(lambda b: b.replace(b"\n", b"")), max_size=80)
)
def test_every_line_with_a_word_is_found(lines: list[bytes], is_large: bool) -> None:
    data = b"".join(line + b"\n" for line in lines)
    search = Search(data, words(WORDS, is_large=is_large), len(data))

    found, position = [], 0
    while (hit := search.next_hit(position)) is not None:
        found.append(hit.lines)
        position = hit.position + 1

    assert found == [
        number for number, line in enumerate(lines) if any(word in line for word in WORDS)
    ]
    assert search.lines_read == len(lines)
