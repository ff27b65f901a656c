"""What gdb may read of huge debug information, and an index that lets it read no more than that.

gdb reads a source file's debug information whole, about 6 MB a second, and to find the file it
reads the module's whole, about 30 MB a second. Most are small. vLLM's attention kernels are one
file of 13 MB in a module of 88 MB: six seconds, for a function's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.gdb_index import UnitRange, UnitTable
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.model.answer import Gap, Known, Tier
from vllm_forensics.model.process import Address, Module
from vllm_forensics.model.stack import Frame

_SMALL: Final = 16 << 20
"""Bytes of a module's .debug_info that gdb may read whole."""
_UNITS: Final = 4 << 20
"""Bytes of source files' parts of it that gdb may read of larger ones."""
READ_VALUES: Final = (
    "forensics core --depth full CORE    # with arguments and locals; takes seconds longer"
)


class GdbBudget:
    """Chooses the frames whose values gdb is asked for."""

    def __init__(self, notes: CoreImage, store: ModuleStore) -> None:
        """Nothing is read yet."""
        self._notes = notes
        self._store = store
        self.is_limited = True
        """False: all are chosen, whatever they cost."""
        self._tables: dict[str, UnitTable | None] = {}
        self._ranges: dict[str, set[UnitRange]] = {}
        self._left_out: set[int] = set()
        self.gap: Gap | None = None
        """What was left out, if anything was."""

    def affordable(self, frames: Sequence[Frame]) -> list[Frame]:
        """The frames, the innermost first, without those that would cost too much."""
        units = self._units_of(frames)
        chosen = []
        left = _UNITS
        for frame in frames:
            cost, unit = self._cost(frame, units)
            if cost > left and self.is_limited:
                self._leave_out(frame, cost)
                continue
            left -= cost
            if unit is not None and frame.module is not None:
                self._ranges.setdefault(frame.module, set()).add(unit)
            chosen.append(frame)
        return chosen

    def allows(self, frame: Frame) -> bool:
        """May gdb be asked about the frame?"""
        return frame.index not in self._left_out

    def index_of(self, module: Module) -> bytes | None:
        """An index of the module for gdb, where it should not read all of it."""
        table = self._table(module)
        ranges = self._ranges.get(module.path)
        return table.index(ranges) if table is not None and ranges else None

    def _units_of(self, frames: Sequence[Frame]) -> dict[Address, UnitRange]:
        """The unit of each program counter in a module with huge debug information."""
        addresses: dict[Module, dict[int, Address]] = {}
        for frame in frames:
            module = self._notes.module_at(frame.pc)
            if isinstance(module, Known):
                # A return address may be the first of another unit.
                address = frame.pc - module.value.bias - (frame.index > 0)
                addresses.setdefault(module.value, {})[address] = frame.pc
        units = {}
        for place, pcs in addresses.items():
            table = self._table(place)
            found = table.at(pcs) if table is not None else {}
            units.update({pcs[address]: unit for address, unit in found.items()})
        return units

    def _cost(self, frame: Frame, units: dict[Address, UnitRange]) -> tuple[int, UnitRange | None]:
        """Bytes of debug information that gdb reads beyond what was paid for, and the unit."""
        module = self._notes.module_at(frame.pc)
        table = self._table(module.value) if isinstance(module, Known) else None
        if table is None or isinstance(module, Gap):
            return 0, None
        unit = units.get(frame.pc)
        if unit is None:
            return table.size, None
        paid = {one.offset for one in self._ranges.get(module.value.path, ())}
        return 0 if unit.offset in paid else unit.size, unit

    def _table(self, module: Module) -> UnitTable | None:
        """The module's units, where its debug information is huge."""
        if module.path not in self._tables:
            file = self._store(module)
            self._tables[module.path] = (
                _table_of(file.value) if isinstance(file, Known) and module.build_id else None
            )
        return self._tables[module.path]

    def _leave_out(self, frame: Frame, cost: int) -> None:
        self._left_out.add(frame.index)
        if self.gap is None:
            self.gap = Gap(
                what=f"the arguments and locals of {frame.function} were left out: gdb would read "
                f"{cost / 1e6:.0f} MB of debug information for them",
                remedy=READ_VALUES,
                tier=Tier.GDB,
            )


def _table_of(file: ModuleFile) -> UnitTable | None:
    holders = [one for one in (file, file.debug) if one is not None and one.has_debug_info]
    table = UnitTable(holders[-1]) if holders else None
    return table if table is not None and table.size > _SMALL else None
