"""Stacks that lost their head: whose heading, or whose first frames, were left out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.evidence.log.stacks.native_stack import (
    BACKTRACE,
    HANDLED,
    NativeBlock,
    is_own_frame,
)
from vllm_forensics.model.incident import ClueKind

_SYMBOLS: Final = re.compile(
    r"\s*(?:[01]: |# 1 |# ?0: )?/\S{1,240}\([^()]{0,400}\+0x[0-9a-f]+\) ?\[0x[0-9a-f]{6,16}\]$|"
    r"\s*1: (?:[\w.-]{1,80})?\(.{0,400}\) \[0x[0-9a-f]{6,16}\]$"
)
"""backtrace_symbols: it is called where something went wrong. Ceph numbers its frames."""
_VALGRIND: Final = re.compile(r"==(?P<pid>\d{1,9})==\s{2,8}at 0x[0-9A-F]{4,16}: ")
_SIGTRAMP: Final = re.compile(
    r"\s*\d{1,3} {1,4}libsystem_\w{1,20}\.dylib {1,20}0x[0-9a-f]{8,16} _sigtramp \+ \d"
)
"""macOS' way back from a handler, which printed its own frames above."""
_THROWN: Final = re.compile(
    r"\s*[1-9]\d? {1,8}libc\+\+abi\.dylib {1,20}0x[0-9a-f]{8,16} "
    r"(?:__cxxabiv1::failed_throw|std::__terminate|abort_message|default_terminate_handler)"
)
"""macOS' C++ runtime, which ends a program for an exception that nobody catches."""
_TOMBSTONE: Final = re.compile(
    r".{0,80}?\b[AFI][/ ]DEBUG {0,4}(?:\([ \d]{1,9}\))?: {1,8}#\d{2,3} {1,3}pc [0-9a-f]{8,16} "
)
"""Android's, whose beginning was left out; only what writes tombstones has this tag."""
_CUT: Final = re.compile(r"\s*#[1-9] {1,3}0x[0-9a-f]{6,16} in [\w~?<(][^(]{0,400}\(")
"""gdb's, whose innermost frames were left out."""
_MPI: Final = re.compile(r"\[ ?\d{1,2}\] \S{1,240}\([^()]{0,400}\) ?\[0x[0-9a-f]+\]$")
"""Open MPI's, which it prints in its signal handler alone."""
_C10: Final = re.compile(r"\s*frame #0: c10::Error::Error\(")
"""Of an exception of PyTorch's, whose words were cut off."""
_TENSORRT: Final = re.compile(
    r"\s*\d{1,3}\s{1,8}0x[0-9a-f]{8,16} "
    r"(?:[^/].{0,400}?\btensorrt_llm::|/\S{1,240}(?:tensorrt|nvinfer)\S{0,80}\(\+0x[0-9a-f]+\))"
)
"""Of an exception of TensorRT-LLM's, which prints it behind its words."""
_RAY: Final = re.compile(
    r"/\S{1,240}(?:\.so[\d.]{0,20}|/raylet|/gcs_server)\((?:_Z\w{1,600})?\+0x[0-9a-f]+\) "
    r"\[0x[0-9a-f]+\]"
)
"""Ray's, which it prints where it gives up."""
_ATOS: Final = re.compile(
    r"[A-Za-z_~+-][^\n]{1,600}? \(in [\w .+-]{1,80}\) (?:\([\w.+-]{1,120}:\d{1,7}\)|\+ \d{1,9}\b)"
)
"""Of symbols that macOS' atos looked up, in lines without numbers."""
_JULIA: Final = re.compile(
    r"\s{0,4}[\w#!@.~<>:{}]{1,900} at (?:[A-Z]:)?\S[^:()]{0,300} \(unknown line\)\s*$"
)
"""Julia's, below whatever signal it told."""
_WRITERS: Final = (
    (_CUT, "a debugger"),
    (_ATOS, "a debugger"),
    (_JULIA, "Julia"),
    (_TENSORRT, "TensorRT-LLM"),
    (_C10, BACKTRACE),
    (_SYMBOLS, BACKTRACE),
)


def open_headless_stack(line: LogLine) -> NativeBlock | None:
    """A stack that lost its head, and whose frames have no number or one above nought."""
    if is_own_frame(line.text):
        return None  # its phrase says more
    if (
        HANDLED in line.text
        or _SIGTRAMP.match(line.text) is not None
        or (line.pid is not None and _MPI.match(line.text) is not None)
    ):
        clue = clue_at(line, ClueKind.SIGNAL, "a signal handler")
    elif (line.tagged or "/raylet/raylet(" in line.text) and _RAY.match(line.text) is not None:
        clue = replace(clue_at(line, ClueKind.STACK, "ray"), signal="SIGABRT")
    elif _TOMBSTONE.match(f"{line.name}: {line.text}") is not None:
        clue = clue_at(line, ClueKind.SIGNAL, "Android")
    elif _THROWN.match(line.text) is not None:
        thrown = replace(clue_at(line, ClueKind.ABORT, "the C++ runtime"), signal="SIGABRT")
        clue = replace(thrown, detail="an exception of C++ that nobody caught")
    elif (traced := _VALGRIND.match(line.text)) is not None:
        clue = replace(clue_at(line, ClueKind.STACK, BACKTRACE), pid=int(traced["pid"]))
    elif (writer := _writer_of(line.text)) is not None:
        clue = clue_at(line, ClueKind.STACK, writer)
    else:
        return None
    block = NativeBlock(clue)
    block.feed(line)
    return block


def _writer_of(frame: str) -> str | None:
    """Who printed a frame that is known by its form alone."""
    return next((writer for form, writer in _WRITERS if form.match(frame) is not None), None)
