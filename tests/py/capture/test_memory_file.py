"""Bytes that other programs open by a path."""

import subprocess
from pathlib import Path

from vllm_forensics.capture.memory_file import memory_file


def test_another_process_reads_the_bytes() -> None:
    path = memory_file(b"an image")

    seen = subprocess.run(["cat", path], capture_output=True, check=True)

    assert seen.stdout == b"an image"


def test_the_same_bytes_have_the_same_file() -> None:
    assert memory_file(b"one") == memory_file(b"one") != memory_file(b"two")


def test_the_oldest_goes_when_there_are_too_many() -> None:
    first = memory_file(b"the oldest")

    for number in range(64):
        path = memory_file(b"image %d" % number)

    assert Path(path).read_bytes() == b"image 63"
    assert memory_file(b"the oldest") != first or Path(first).read_bytes() == b"the oldest"
