"""Words and texts out of an image's memory."""

import pytest
from tests.py.support.images import HEAP, crash_image, sent_by_self, words

from vllm_forensics.diagnosis.memory import read_pointer, text_at, word_at
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.process import Address

LAST_BYTES = HEAP + 4096 - 20


def test_a_pointer_is_little_endian() -> None:
    image = crash_image(signal=sent_by_self(6), memory={HEAP: words(0x1122)})

    assert read_pointer(image, HEAP) == 0x1122


@pytest.mark.parametrize("address", [0, -8, HEAP + 8])
def test_what_cannot_be_read_is_a_gap_that_says_why(address: Address) -> None:
    image = crash_image(signal=sent_by_self(6), memory={HEAP: words(1)})

    assert read_pointer(image, address) is None
    why = Gap(what=f"{'no bytes' if address > 0 else 'nothing is mapped'} at {address:#x}")
    assert word_at(image, address) == why
    assert text_at(image, address) == why


def test_a_text_ends_at_its_nul_and_bad_utf_8_is_replaced() -> None:
    image = crash_image(signal=sent_by_self(6), memory={HEAP: b"caf\xe9\0more" + bytes(4096)})

    assert text_at(image, HEAP) == Known(value="caf\ufffd")


def test_a_text_in_the_last_bytes_before_unmapped_memory_is_read_whole() -> None:
    text = b"free(): invalid"
    image = crash_image(signal=sent_by_self(6), memory={LAST_BYTES: text + bytes(20 - len(text))})

    assert text_at(image, LAST_BYTES) == Known(value="free(): invalid")
