"""Whose a line is that no prefix signs, where several processes that sign their lines just died.

UCX and Open MPI name the process in the first line of a dump and in no other, and Ray prints a
check's stack below its own line without its prefix; nor has a record of the kernel's one where it
was broken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.openers import Block
from vllm_forensics.evidence.log.stacks.native_stack import NativeBlock
from vllm_forensics.evidence.log.writers.kernel_record import KernelRecord

_HEADING: Final = re.compile(r"={4} backtrace(?: \(tid:\s{0,9}(?P<tid>\d{1,9})\))? ={4}")
_WRITERS: Final = {"a signal handler", "the C++ runtime"}


class Unsigned:
    """Remembers in which dump the last such line stood."""

    def __init__(self) -> None:
        """Know of none."""
        self._last = ""

    def stream_of(self, line: LogLine, blocks: Mapping[str, Block]) -> str:
        """The stream of the open dump that the line belongs to; its own where there is none."""
        if (
            line.stream
            or not blocks
            or line.stream in blocks
            or not all(map(_may, blocks.values()))
        ):
            return line.stream
        heading = _HEADING.match(line.text)
        if heading is None and self._last in blocks:
            return self._last
        bare = (name for name, block in blocks.items() if not _has_frames(block))
        told = str(heading["tid"]) if heading is not None else ""
        self._last = told if told in blocks else next(bare, next(iter(blocks)))
        return self._last


def _may(block: Block) -> bool:
    is_own = isinstance(block, NativeBlock) and block.source in _WRITERS
    return is_own or isinstance(block, KernelRecord)


def _has_frames(block: Block) -> bool:
    return isinstance(block, NativeBlock) and block.has_frames
