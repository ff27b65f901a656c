"""A thread's registers by the DWARF numbers that unwind tables use."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_forensics.evidence.machines import MACHINES
from vllm_forensics.model.process import Architecture


def dwarf_registers(
    architecture: Architecture, registers: Mapping[str, int]
) -> tuple[tuple[int, int], ...]:
    """The registers that are known, as (DWARF number, value)."""
    names = MACHINES[architecture].dwarf
    return tuple((number, registers[name]) for number, name in names.items() if name in registers)
