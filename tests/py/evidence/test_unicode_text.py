"""Text in every form of Unicode, marked or not, in pieces of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.unicode_text import as_utf8, encoding_of

TEXT = "INFO ready\r\nFatal Python error: Segmentation fault ✖\r\n"
CODECS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_every_form_is_read_in_pieces_of_any_size(codec: str, size: int) -> None:
    raw = TEXT.encode(codec)
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]

    assert b"".join(as_utf8(pieces)).decode("utf-8-sig") == TEXT


def test_a_text_whose_mark_was_cut_off_with_its_beginning_is_read() -> None:
    raw = TEXT.encode("utf-16")

    assert TEXT[4:] in b"".join(as_utf8([raw[10:]])).decode()
    assert encoding_of(raw[10:]) == "utf-16-le"


@pytest.mark.parametrize(
    "head",
    [b"", b"a\0b\0", b"\0" * 100, b"plain text, and enough of it to be sure\n", bytes(range(256))],
)
def test_what_is_not_every_other_byte_zero_is_taken_as_it_is(head: bytes) -> None:
    assert encoding_of(head) is None
    assert b"".join(as_utf8([head])) == head


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_make_it_fail(pieces: list[bytes]) -> None:
    raw = b"".join(pieces)

    read = b"".join(as_utf8(pieces))

    assert encoding_of(raw) is not None or read == raw
