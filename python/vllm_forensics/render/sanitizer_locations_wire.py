"""What came of looking frames up in files of this machine, as JSON."""

from __future__ import annotations

import msgspec

from vllm_forensics.model.locations import Symbolization


class LeftModuleWire(msgspec.Struct, frozen=True, kw_only=True):
    """Frames of one module that stay without a name."""

    module: str | None
    frames: int
    why: str
    remedy: str | None


class SymbolizationWire(msgspec.Struct, frozen=True, kw_only=True):
    """What --symbolize did: of `asked` frames some are named, the others are in `left`."""

    asked: int
    proved: int
    likely: int
    left: list[LeftModuleWire]
    symbolizers: list[str]


def symbolization_to_wire(outcome: Symbolization | None) -> SymbolizationWire | None:
    """None where it was not asked for."""
    if outcome is None:
        return None
    return SymbolizationWire(
        asked=outcome.asked,
        proved=outcome.proved,
        likely=outcome.likely,
        left=[
            LeftModuleWire(
                module=left.module, frames=left.frames, why=left.why, remedy=left.remedy or None
            )
            for left in outcome.left
        ],
        symbolizers=list(outcome.symbolizers),
    )
