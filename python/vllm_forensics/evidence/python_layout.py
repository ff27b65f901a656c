"""Where CPython keeps its threads and frames: it differs from version to version.

The offsets were printed by a C program against the internal headers of 3.11.7, 3.12.1 and 3.13.0
(pycore_runtime.h, pycore_interp.h, pycore_frame.h, code.h, unicodeobject.h).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Offsets in structures; that of each is named beside it."""

    interpreters: int  # _PyRuntimeState.interpreters.head; main follows
    gil_in_runtime: int | None  # _PyRuntimeState.ceval.gil; since 3.12 the interpreter points to it
    gil_pointer: int  # PyInterpreterState.ceval.gil
    threads: int  # PyInterpreterState.threads.head
    native_id: int  # PyThreadState.native_thread_id
    frame: tuple[int, ...]  # from PyThreadState to the current _PyInterpreterFrame, by pointers
    previous: int  # _PyInterpreterFrame.previous
    code: int  # _PyInterpreterFrame.f_code, f_executable
    is_entry: int | None  # _PyInterpreterFrame.is_entry, of 3.11 alone
    owner: int  # _PyInterpreterFrame.owner
    first_line: int  # PyCodeObject.co_firstlineno
    bytecode: int  # PyCodeObject.co_code_adaptive
    text: int  # sizeof(PyASCIIObject)
    wide_text: int  # sizeof(PyCompactUnicodeObject)


_OFFSETS: Final = {
    (3, 11): Offsets(
        interpreters=40,
        gil_in_runtime=360,
        gil_pointer=0,
        threads=16,
        native_id=160,
        frame=(56, 8),
        previous=48,
        code=32,
        is_entry=68,
        owner=69,
        first_line=72,
        bytecode=184,
        text=48,
        wide_text=72,
    ),
    (3, 12): Offsets(
        interpreters=40,
        gil_in_runtime=None,
        gil_pointer=384,
        threads=72,
        native_id=144,
        frame=(56, 0),
        previous=8,
        code=0,
        is_entry=None,
        owner=70,
        first_line=68,
        bytecode=192,
        text=40,
        wide_text=56,
    ),
    (3, 13): Offsets(
        interpreters=632,
        gil_in_runtime=None,
        gil_pointer=16,
        threads=7344,
        native_id=160,
        frame=(72,),
        previous=8,
        code=0,
        is_entry=None,
        owner=70,
        first_line=68,
        bytecode=200,
        text=40,
        wide_text=56,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where one build of CPython keeps what is asked for."""

    offsets: Offsets
    code_type: int
    """The address of the exported `PyCode_Type`."""


def layout_of(version: int, code_type: int) -> Layout | None:
    """The layout of a `Py_Version` (PY_VERSION_HEX); None for one that is not known."""
    offsets = _OFFSETS.get((version >> 24 & 0xFF, version >> 16 & 0xFF))
    return None if offsets is None else Layout(offsets=offsets, code_type=code_type)
