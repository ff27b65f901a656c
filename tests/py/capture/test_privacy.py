"""Memory that is kept out of cores: which pages, of which buffers."""

import mmap
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vllm_forensics import exclude, include

PAGE = mmap.PAGESIZE


def marked_bytes() -> int:
    """Bytes of this process that the kernel leaves out, of memory that programs ask for."""
    text = Path("/proc/self/smaps").read_text(encoding="utf-8")
    found = 0
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text)[1:]:
        flags = re.search(r"^VmFlags:(.*)$", block, re.MULTILINE)
        size = re.search(r"^Size:\s+(\d+) kB$", block, re.MULTILINE)
        if flags and size and "dd" in flags.group(1).split() and "[v" not in block:
            found += int(size.group(1)) << 10
    return found


@pytest.mark.parametrize(
    "buffer",
    [
        bytearray(8 * PAGE),
        np.zeros(8 * PAGE, dtype=np.uint8),
        np.zeros((4, 2 * PAGE // 8), dtype=np.float64),
        np.zeros(PAGE, dtype=[("key", "<f4"), ("value", ">f4")]),
        memoryview(bytearray(8 * PAGE)),
    ],
    ids=["bytearray", "bytes array", "matrix", "records", "memoryview"],
)
def test_whole_pages_are_marked_and_unmarked(buffer: bytearray) -> None:
    before = marked_bytes()

    excluded = exclude(buffer)

    assert excluded in {7 * PAGE, 8 * PAGE}
    assert marked_bytes() - before == excluded
    assert include(buffer) == excluded
    assert marked_bytes() == before


def test_a_mapping_of_its_own_is_marked_as_a_whole() -> None:
    with mmap.mmap(-1, 4 * PAGE) as buffer:
        assert exclude(buffer) == 4 * PAGE
        assert include(buffer) == 4 * PAGE


@pytest.mark.parametrize("size", [0, 1, PAGE - 1])
def test_less_than_a_page_is_nothing(size: int) -> None:
    assert exclude(bytearray(size)) == 0


@pytest.mark.parametrize("offset", [1, 17, PAGE - 1])
def test_the_pages_at_the_ends_stay_in(offset: int) -> None:
    with mmap.mmap(-1, 4 * PAGE) as whole:
        part = memoryview(whole)[offset : offset + 2 * PAGE]

        assert exclude(part) == PAGE
        assert include(part) == PAGE
        part.release()


def test_a_page_that_is_cut_at_both_ends_is_nothing() -> None:
    with mmap.mmap(-1, 2 * PAGE) as whole:
        part = memoryview(whole)[1 : PAGE + 2]

        assert exclude(part) == 0
        part.release()


@pytest.mark.parametrize("buffer", [bytes(4 * PAGE), memoryview(bytes(4 * PAGE))])
def test_a_read_only_buffer_is_refused(buffer: bytes) -> None:
    with pytest.raises(ValueError, match="read-only"):
        exclude(buffer)


def test_a_buffer_with_holes_is_refused() -> None:
    with pytest.raises(ValueError, match="not contiguous"):
        exclude(np.zeros(8 * PAGE, dtype=np.uint8)[::2])


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises(TypeError):
        exclude("text")  # type: ignore[arg-type]


def test_the_buffer_can_be_used_as_before() -> None:
    buffer = bytearray(8 * PAGE)
    exclude(buffer)

    buffer[0] = 1
    buffer.extend(b"more")
    include(buffer)

    assert bytes(buffer[-4:]) == b"more"
    assert buffer[0] == 1


def test_the_import_brings_nothing_heavy() -> None:
    script = (
        "import sys; before = set(sys.modules); from vllm_forensics import exclude, include;"
        "print(sorted(name for name in set(sys.modules) - before if '.' not in name))"
    )

    done = subprocess.run(
        (sys.executable, "-c", script), capture_output=True, text=True, check=True
    )

    loaded = set(re.findall(r"'(\w+)'", done.stdout))
    assert loaded.isdisjoint({"click", "rich", "lief", "capstone", "pygdbmi", "msgspec", "numpy"})


def test_an_unknown_name_is_still_an_error() -> None:
    import vllm_forensics

    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = vllm_forensics.nothing_of_the_kind
