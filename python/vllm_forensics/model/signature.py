"""What a signature is made of."""

from __future__ import annotations

from vllm_forensics.model.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SignaturePart:
    """One thing that makes a report or a crash this bug and no other."""

    name: str
    value: str
