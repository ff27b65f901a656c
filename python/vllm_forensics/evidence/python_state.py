"""What CPython's own structures say of its threads: who has the GIL, and which function each is in.

The offsets were printed by a C program against the internal headers of 3.11.7, 3.12.1 and 3.13.0
(pycore_runtime.h, pycore_interp.h, pycore_frame.h). A thread state whose native id is no thread of
the process proves that they do not fit: nothing is said then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

Read = Callable[[int, int], bytes | None]
"""Exactly so many bytes at an address, or None."""

_MAX_THREADS: Final = 4096
_MAX_FRAMES: Final = 64
_MAX_NAME: Final = 1024
_MAX_TABLE: Final = 1 << 16
_COMPACT_ASCII: Final = 0x60  # PyASCIIObject.state: bits 5 (compact) and 6 (ascii)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCall:
    """One Python function on a thread's stack."""

    function: str
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonState:
    """What an interpreter's structures say."""

    gil_holder: int | None
    """The native id of the thread that has the GIL now."""
    calls: tuple[tuple[int, tuple[PythonCall, ...]], ...]
    """By native thread id, innermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    interpreters: int  # _PyRuntimeState.interpreters.head
    gil_in_runtime: int | None  # _PyRuntimeState.ceval.gil; since 3.12 the interpreter points to it
    gil_pointer: int  # PyInterpreterState.ceval.gil
    threads: int  # PyInterpreterState.threads.head
    native_id: int  # PyThreadState.native_thread_id
    frame: tuple[int, ...]  # from PyThreadState to the current _PyInterpreterFrame, by pointers
    previous: int  # _PyInterpreterFrame.previous
    code: int  # _PyInterpreterFrame.f_code, f_executable
    instruction: int  # _PyInterpreterFrame.prev_instr, instr_ptr
    first_line: int  # PyCodeObject.co_firstlineno
    bytecode: int  # PyCodeObject.co_code_adaptive
    text: int  # sizeof(PyASCIIObject)


_NEXT_THREAD: Final = 8  # PyThreadState.next
_HOLDER, _LOCKED = 8, 16  # _gil_runtime_state.last_holder, .locked
_FILENAME, _QUALNAME, _LINETABLE = 112, 128, 136  # PyCodeObject
_TEXT_LENGTH, _TEXT_STATE = 16, 32  # PyASCIIObject
_BYTES_SIZE, _BYTES_DATA = 16, 32  # PyBytesObject
_LAYOUTS: Final = {
    (3, 11): _Layout(
        interpreters=40,
        gil_in_runtime=360,
        gil_pointer=0,
        threads=16,
        native_id=160,
        frame=(56, 8),
        previous=48,
        code=32,
        instruction=56,
        first_line=72,
        bytecode=184,
        text=48,
    ),
    (3, 12): _Layout(
        interpreters=40,
        gil_in_runtime=None,
        gil_pointer=384,
        threads=72,
        native_id=144,
        frame=(56, 0),
        previous=8,
        code=0,
        instruction=56,
        first_line=68,
        bytecode=192,
        text=40,
    ),
    (3, 13): _Layout(
        interpreters=632,
        gil_in_runtime=None,
        gil_pointer=16,
        threads=7344,
        native_id=160,
        frame=(72,),
        previous=8,
        code=0,
        instruction=56,
        first_line=68,
        bytecode=200,
        text=40,
    ),
}


def read_python_state(
    version: int, runtime: int, threads: Collection[int], read: Read
) -> PythonState | None:
    """Read the main interpreter's threads.

    Args:
        version: the exported `Py_Version`, as PY_VERSION_HEX.
        runtime: the address of the exported `_PyRuntime`.
        threads: the native thread ids that the process has, as it sees them itself.
        read: reads the process's memory.

    Returns:
        None for a version whose layout is not known, and where the memory does not fit it.

    """
    layout = _LAYOUTS.get((version >> 24 & 0xFF, version >> 16 & 0xFF))
    if layout is None:
        return None
    memory = _Memory(read)
    interpreter = memory.pointer(runtime + layout.interpreters)
    states = dict(_thread_states(memory, layout, interpreter))
    if not states or not set(states.values()) <= set(threads):
        return None
    gil = (
        runtime + layout.gil_in_runtime
        if layout.gil_in_runtime is not None
        else memory.pointer(interpreter + layout.gil_pointer)
    )
    locked = memory.number(gil + _LOCKED, 4) == 1
    holder = states.get(memory.pointer(gil + _HOLDER)) if locked else None
    calls = ((tid, tuple(_calls(memory, layout, state))) for state, tid in states.items())
    return PythonState(gil_holder=holder, calls=tuple(calls))


def line_at(table: bytes, first_line: int, offset: int) -> int | None:
    """The line of the code unit at a byte offset, out of co_linetable (Objects/locations.md)."""
    at, line, covered = 0, first_line, 0
    while at < len(table):
        code, units = table[at] >> 3 & 15, (table[at] & 7) + 1
        at += 1
        if code in {13, 14}:
            line += _signed(table, at)
        elif 10 <= code <= 12:
            line += code - 10
        covered += 2 * units
        if offset < covered:
            return None if code == 15 else line
        while at < len(table) and not table[at] & 0x80:  # an entry's first byte alone has this bit
            at += 1
    return None


def _signed(table: bytes, at: int) -> int:
    value = shift = 0
    for byte in table[at : at + 6]:
        value |= (byte & 0x3F) << shift
        shift += 6
        if not byte & 0x40:
            break
    return -(value >> 1) if value & 1 else value >> 1


class _Memory:
    """Numbers out of memory; what cannot be read is 0."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def number(self, address: int, size: int) -> int:
        return int.from_bytes(self._read(address, size) or b"", "little")

    def pointer(self, address: int) -> int:
        return self.number(address, 8)

    def text(self, address: int, layout: _Layout) -> str | None:
        """A str object of ASCII, as nearly all names are."""
        state = self.number(address + _TEXT_STATE, 4)
        length = self.pointer(address + _TEXT_LENGTH)
        if state & _COMPACT_ASCII != _COMPACT_ASCII or not 0 < length <= _MAX_NAME:
            return None
        raw = self._read(address + layout.text, length)
        text = raw.decode("ascii", "replace") if raw else ""
        return text if text.isprintable() and text else None

    def content(self, address: int) -> bytes:
        """A bytes object."""
        size = self.pointer(address + _BYTES_SIZE)
        return (self._read(address + _BYTES_DATA, size) or b"") if size <= _MAX_TABLE else b""


def _thread_states(memory: _Memory, layout: _Layout, interpreter: int) -> Iterator[tuple[int, int]]:
    """Each thread state's address with its native thread id."""
    state, seen = memory.pointer(interpreter + layout.threads), set[int]()
    while state and state not in seen and len(seen) < _MAX_THREADS:
        seen.add(state)
        yield state, memory.pointer(state + layout.native_id)
        state = memory.pointer(state + _NEXT_THREAD)


def _calls(memory: _Memory, layout: _Layout, state: int) -> Iterator[PythonCall]:
    frame = state
    for offset in layout.frame:
        frame = memory.pointer(frame + offset) if frame else 0
    for _ in range(_MAX_FRAMES):
        if not frame:
            return
        code = memory.pointer(frame + layout.code)
        # Between C and Python stands a frame without a code object, or of a trampoline.
        name = memory.text(memory.pointer(code + _QUALNAME), layout) if code else None
        if name is not None and not name.startswith("<interpreter trampoline>"):
            at = memory.pointer(frame + layout.instruction) - code - layout.bytecode
            yield PythonCall(
                function=name,
                file=memory.text(memory.pointer(code + _FILENAME), layout),
                line=line_at(
                    memory.content(memory.pointer(code + _LINETABLE)),
                    memory.number(code + layout.first_line, 4),
                    at,
                ),
            )
        frame = memory.pointer(frame + layout.previous)
