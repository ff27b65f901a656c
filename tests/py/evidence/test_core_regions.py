"""Segments joined with the files that were mapped there."""

import pytest

from vllm_forensics.evidence.core_notes import MappedFile
from vllm_forensics.evidence.core_regions import Regions, split_deleted
from vllm_forensics.evidence.elf import PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE, Segment


def load(
    address: int, size: int, flags: int = PF_R, *, held: int = 0, kind: int = PT_LOAD
) -> Segment:
    return Segment(
        type=kind, flags=flags, offset=4096, address=address, file_size=held, memory_size=size,
        align=4096,
    )  # fmt: skip


FILE = MappedFile(start=0x1000, end=0x4000, offset=0x2000, path="/a.so")


def test_one_mapping_that_the_kernel_split_keeps_its_offsets() -> None:
    regions = Regions((load(0x2000, 0x2000), load(0x1000, 0x1000)), (FILE,))

    first, second = regions

    assert (first.mapping.start, first.mapping.file_offset) == (0x1000, 0x2000)
    assert (second.mapping.start, second.mapping.file_offset) == (0x2000, 0x3000)
    assert first.mapping.path == second.mapping.path == "/a.so"


def test_rights_follow_the_segments_flags() -> None:
    (region,) = Regions((load(0x1000, 0x1000, PF_W | PF_X),), ())

    mapping = region.mapping
    assert (mapping.readable, mapping.writable, mapping.executable) == (False, True, True)
    assert mapping.path is None


@pytest.mark.parametrize(
    ("address", "is_found"), [(0xFFF, False), (0x1000, True), (0x1FFF, True), (0x2000, False)]
)
def test_a_region_ends_before_its_end(address: int, is_found: bool) -> None:
    regions = Regions((load(0x1000, 0x1000),), ())

    assert (regions.at(address) is not None) is is_found


def test_empty_segments_and_notes_are_no_regions() -> None:
    assert list(Regions((load(0x1000, 0), load(0x1000, 9, kind=PT_NOTE)), ())) == []


def test_more_bytes_than_memory_are_not_believed() -> None:
    (region,) = Regions((load(0x1000, 0x1000, held=0x9000),), ())

    assert region.file_size == 0x1000


def test_only_what_no_segment_covers_is_added() -> None:
    regions = Regions((load(0x1000, 0x1000),), ())
    other = MappedFile(start=0x8000, end=0x9000, offset=0, path="/b.so (deleted)")

    regions.add_undumped([(FILE, PF_R), (other, PF_R | PF_X)])

    assert [region.mapping.start for region in regions] == [0x1000, 0x8000]
    added = regions.at(0x8000)
    assert added is not None
    assert (added.mapping.path, added.mapping.deleted) == ("/b.so", True)
    assert added.mapping.executable


def test_between_gives_what_touches_the_range() -> None:
    regions = Regions((load(0x1000, 0x1000), load(0x2000, 0x1000), load(0x5000, 0x1000)), ())

    found = [region.mapping.start for region in regions.between(0x2000, 0x5000)]

    assert found == [0x2000]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a.so", ("/a.so", False)),
        ("/a.so (deleted)", ("/a.so", True)),
        ("/(deleted)", ("/(deleted)", False)),
    ],
)
def test_the_kernels_mark_is_split_off(path: str, expected: tuple[str, bool]) -> None:
    assert split_deleted(path) == expected
