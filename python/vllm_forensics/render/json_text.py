"""How every answer in JSON is written down."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def json_text(wire: msgspec.Struct) -> str:
    """Indented by two, ending in a newline. Strings must have been cleaned."""
    return msgspec.json.format(msgspec.json.encode(wire), indent=2).decode() + "\n"


def as_wire(value: object, shape: type[T]) -> T:
    """What the model holds, in the shape of the contract.

    Each field of the shape is the model's attribute of that name; where the contract calls it
    otherwise, the shape says so: `size_bytes: int = msgspec.field(name="bytes")`.
    """
    return msgspec.convert(value, shape, from_attributes=True)
