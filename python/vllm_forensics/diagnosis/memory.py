"""Small readings of an image's memory that several rules need."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.answer import Known
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address

_PAGE: Final = 4096
_SHORTER: Final = (1024, 64, 8, 1)


def read_pointer(image: Image, address: Address) -> Address | None:
    """The machine's word at `address`, or None where it cannot be read."""
    machine = image.process.architecture
    raw = image.read(address, machine.word_size) if address > 0 else None
    return int.from_bytes(raw.value, machine.byte_order) if isinstance(raw, Known) else None


def read_text(image: Image, address: Address) -> str | None:
    """A NUL-terminated string of at most 4 KiB, or None where there is none."""
    for size in (_PAGE, _PAGE - address % _PAGE, *_SHORTER) if address > 0 else ():
        raw = image.read(address, size)
        if isinstance(raw, Known):
            return raw.value.split(b"\0", 1)[0].decode("utf-8", "replace")
    return None
