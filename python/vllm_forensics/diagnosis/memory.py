"""Small readings of an image's memory that several rules need."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address

_PAGE: Final = 4096
_SHORTER: Final = (1024, 64, 8, 1)


def word_at(image: Image, address: Address) -> Answer[Address]:
    """The machine's word at `address`, or why it cannot be read."""
    machine = image.process.architecture
    if address <= 0:
        return Gap(what=f"nothing is mapped at {address:#x}")
    raw = image.read(address, machine.word_size)
    if isinstance(raw, Gap):
        return raw
    return Known(value=int.from_bytes(raw.value, machine.byte_order), tier=raw.tier)


def text_at(image: Image, address: Address) -> Answer[str]:
    """A NUL-terminated string of at most 4 KiB, or why it cannot be read."""
    raw: Answer[bytes] = Gap(what=f"nothing is mapped at {address:#x}")
    for size in (_PAGE, _PAGE - address % _PAGE, *_SHORTER) if address > 0 else ():
        raw = image.read(address, size)
        if isinstance(raw, Known):
            return Known(value=raw.value.split(b"\0", 1)[0].decode("utf-8", "replace"))
    assert isinstance(raw, Gap)  # noqa: S101 - the loop ends with the last failure
    return raw


def read_pointer(image: Image, address: Address) -> Address | None:
    """The machine's word at `address`, or None where it cannot be read.

    For what is said only where it is read; a claim that something is absent asks `word_at`.
    """
    found = word_at(image, address)
    return found.value if isinstance(found, Known) else None
