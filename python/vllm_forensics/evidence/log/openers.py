"""What may begin in a line and go on in the lines below: a dump, a traceback, a stack, a record."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from vllm_forensics.evidence.log import transcript
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.needles import Words
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.evidence.log.stacks import faulthandler, py_spy, python_traceback
from vllm_forensics.evidence.log.stacks.debugger_python import HEADING
from vllm_forensics.evidence.log.stacks.faulthandler import FaultBlock, open_fault
from vllm_forensics.evidence.log.stacks.goroutine import GO, GOROUTINE
from vllm_forensics.evidence.log.stacks.headless import open_headless_stack
from vllm_forensics.evidence.log.stacks.json_frames import LIST
from vllm_forensics.evidence.log.stacks.native_stack import (
    HANDLED,
    NativeBlock,
    begins_lone_stack,
    is_own_frame,
)
from vllm_forensics.evidence.log.stacks.py_spy import SpyBlock, open_dump
from vllm_forensics.evidence.log.stacks.python_traceback import (
    TracebackBlock,
    open_headless,
    open_traceback,
)
from vllm_forensics.evidence.log.transcript import StatusBlock, open_status
from vllm_forensics.evidence.log.writers import windows
from vllm_forensics.evidence.log.writers.kernel_record import KernelRecord
from vllm_forensics.evidence.log.writers.windows import WindowsBlock, open_record
from vllm_forensics.model.incident import ClueKind

Block = (
    FaultBlock | TracebackBlock | NativeBlock | StatusBlock | WindowsBlock | KernelRecord | SpyBlock
)
Opener = Callable[[LogLine, Block | None], Block | None]

_STACKS: Final = (
    b"#0 ",
    *(f"#{number}  0x".encode() for number in range(1, 10)),
    b"frame #0: 0x",
    b"frame #0: c10::",
    b"\\#0 ",
    b"frame \\#0: 0x",
    b"[0x0] ",
    b")[0x",
    b") [0x",
    b"==    at 0x",
    b" tensorrt_llm::",
)


def _fault(line: LogLine, block: Block | None) -> Block | None:
    return open_fault(line, is_alone=not isinstance(block, FaultBlock))


def _traceback(line: LogLine, _: Block | None) -> Block | None:
    return open_traceback(line)


def _status(line: LogLine, _: Block | None) -> Block | None:
    return open_status(line)


def _dump(line: LogLine, _: Block | None) -> Block | None:
    return open_dump(line)


def _record(line: LogLine, block: Block | None) -> Block | None:
    return None if isinstance(block, WindowsBlock) else open_record(line)


def _headless(line: LogLine, block: Block | None) -> Block | None:
    is_free = block is None or (isinstance(block, NativeBlock) and block.is_title)
    return open_headless(line) if is_free else None


def _lone_stack(line: LogLine, block: Block | None) -> Block | None:
    """A debugger's stack that belongs to nothing above it."""
    if not begins_lone_stack(line.text) or is_own_frame(line.text):
        return None
    if isinstance(block, NativeBlock) and block.goes_on(line.text):
        return None
    opened = NativeBlock(clue_at(line, ClueKind.STACK, "a debugger"))
    opened.feed(line)
    return opened


def _python_of_debugger(line: LogLine, block: Block | None) -> Block | None:
    """Python's calls alone, as a debugger prints them."""
    if HEADING not in line.text or (isinstance(block, NativeBlock) and not block.is_title):
        return None
    opened = NativeBlock(clue_at(line, ClueKind.STACK, "a debugger"))
    opened.feed(line)
    return opened


def _listed_stack(line: LogLine, block: Block | None) -> Block | None:
    """A stack as JSON, which the line holds."""
    if LIST not in line.text or isinstance(block, NativeBlock):
        return None
    opened = NativeBlock(clue_at(line, ClueKind.STACK, "a debugger"))
    opened.feed(line)
    return opened if opened.has_frames else None


def _gos_fatal(line: LogLine, block: Block | None) -> Block | None:
    """A goroutine's stack; Go's loggers print it where a fatal message ends the program."""
    if block is not None or GOROUTINE.match(line.text) is None:
        return None
    return NativeBlock(clue_at(line, ClueKind.STACK, GO))


def _headless_stack(line: LogLine, block: Block | None) -> Block | None:
    return open_headless_stack(line) if block is None else None


_OPENERS: Final[tuple[tuple[Opener, tuple[bytes, ...]], ...]] = (
    (_fault, faulthandler.NEEDLES),
    (_traceback, python_traceback.HEADINGS),
    (_python_of_debugger, (HEADING.encode(),)),
    (_status, transcript.NEEDLES),
    (_record, windows.NEEDLES),
    (_dump, py_spy.NEEDLES),
    (_headless, python_traceback.FRAMES),
    (_lone_stack, _STACKS),
    (_listed_stack, (LIST.encode(),)),
    (_gos_fatal, (b" [running]:",)),
    (
        _headless_stack,
        (
            *_STACKS,
            HANDLED.encode(),
            b" pc 00",
            b" _sigtramp + ",
            b"libc++abi.dylib ",
            b") (in ",
            b" (unknown line)",
        ),
    ),
)
"""In the order in which they are asked, each with the words of which one stands in the line."""
NEEDLES: Final = tuple(dict.fromkeys(word for _, needles in _OPENERS for word in needles))
_WORDS: Final = Words(word.decode() for word in NEEDLES)
_ASKED: Final = tuple(
    tuple(number for number, (_, needles) in enumerate(_OPENERS) if word in needles)
    for word in NEEDLES
)
"""By the number of a word, who is asked."""


def open_block(line: LogLine, block: Block | None, *, is_stop: bool) -> Block | None:
    """What begins in the line; at a debugger's own stop a stack tells of no death."""
    for opener in _asked(line.text):
        if is_stop and opener is _lone_stack:
            continue
        opened = opener(line, block)
        if opened is not None:
            return opened
    return None


@lru_cache(maxsize=1024)
def _asked(text: str) -> tuple[Opener, ...]:
    """Who may begin in the text, in order; one frame stands in many stacks."""
    numbers = {number for word, _ in _WORDS.found(text) for number in _ASKED[word]}
    return tuple(_OPENERS[number][0] for number in sorted(numbers))


def comes_first(block: Block, line: LogLine) -> bool:
    """Does the open block read the line before it is searched for phrases?"""
    if isinstance(block, TracebackBlock) or "what():" in line.text or LIST in line.text:
        return True
    if isinstance(block, StatusBlock):
        return False
    if isinstance(block, WindowsBlock | SpyBlock):
        return True
    if isinstance(block, KernelRecord):
        return block.goes_on(line.text)
    text = line.text.lstrip()
    if isinstance(block, FaultBlock):
        return text.startswith('File "')
    is_frame = text.startswith(("#", "*", "frame", 'File "')) or "[0x" in text
    is_frame = is_frame or is_own_frame(line.text)
    return is_frame and block.goes_on(line.text)
