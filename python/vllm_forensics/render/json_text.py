"""How every answer in JSON is written down."""

from __future__ import annotations

import msgspec


def json_text(wire: msgspec.Struct) -> str:
    """Indented by two, ending in a newline. Strings must have been cleaned."""
    return msgspec.json.format(msgspec.json.encode(wire), indent=2).decode() + "\n"
