"""What CPython's own structures say of its threads: who has the GIL, and which function each is in.

A thread state whose native id is no thread of the process proves that the layout does not fit:
nothing is said then. A frame whose code is no code object ends its stack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from vllm_forensics.evidence.python_layout import Layout, Offsets
from vllm_forensics.evidence.python_lines import line_at
from vllm_forensics.model.python_stack import UNREAD

Read = Callable[[int, int], bytes | None]
"""Exactly so many bytes at an address, or None."""

_WORD: Final = 8
_MAX_THREADS: Final = 4096
_MAX_NAME: Final = 4096
_MAX_TABLE: Final = 1 << 20
_COMPACT, _ASCII, _KIND = 0x20, 0x40, 7 << 2  # PyASCIIObject.state
_ENCODINGS: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCall:
    """One Python function on a thread's stack."""

    function: str
    """Its plain name, `step`."""
    qualified: str
    """With what it is defined in, `Engine.step`."""
    file: str
    line: int | None
    is_entry: bool
    """C code called it: the evaluation loop began here, and runs what it calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonState:
    """What an interpreter's structures say."""

    gil_holder: int | None
    """The native id of the thread that has the GIL now."""
    calls: tuple[tuple[int, tuple[PythonCall, ...]], ...]
    """By native thread id, innermost first."""
    is_whole: bool
    """False where something could not be read, or there is more than one interpreter."""
    is_only: bool = True
    """Is there one interpreter alone?"""


_NEXT_THREAD: Final = 8  # PyThreadState.next
_HOLDER, _LOCKED = 8, 16  # _gil_runtime_state.last_holder, .locked
_INSTRUCTION, _FRAME_SIZE = 56, 72  # _PyInterpreterFrame.prev_instr, instr_ptr; .localsplus
_OWNED_BY_C: Final = 3  # FRAME_OWNED_BY_CSTACK: a shim where C code entered the loop, since 3.12
_TYPE: Final = 8  # PyObject.ob_type
_FILENAME, _NAME, _QUALNAME, _LINETABLE = 112, 120, 128, 136  # PyCodeObject
_CODE_SIZE: Final = 144
_TEXT_LENGTH, _TEXT_STATE = 16, 32  # PyASCIIObject
_BYTES_SIZE, _BYTES_DATA = 16, 32  # PyBytesObject


def read_python_state(
    layout: Layout, runtime: int, threads: Collection[int], read: Read, *, most_frames: int
) -> PythonState | None:
    """Read the main interpreter's threads.

    Args:
        layout: what is known of its build, of `layout_of`.
        runtime: the address of the exported `_PyRuntime`.
        threads: the native thread ids that the process has, as it sees them itself.
        read: reads the process's memory.
        most_frames: of each thread.

    Returns:
        None where the memory does not fit the layout.

    """
    memory = _Memory(read)
    offsets = layout.offsets
    interpreter = memory.pointer(runtime + offsets.interpreters)
    is_only = interpreter == memory.pointer(runtime + offsets.interpreters + _WORD)
    states = dict(_thread_states(memory, offsets, interpreter))
    if not states or not set(states.values()) <= set(threads):
        return None
    gil = (
        runtime + offsets.gil_in_runtime
        if offsets.gil_in_runtime is not None
        else memory.pointer(interpreter + offsets.gil_pointer)
    )
    locked = memory.number(gil + _LOCKED, 4) == 1
    holder = states.get(memory.pointer(gil + _HOLDER)) if locked else None
    frames = _Frames(memory, layout)
    calls = tuple((tid, tuple(frames.calls(state, most_frames))) for state, tid in states.items())
    return PythonState(
        gil_holder=holder, calls=calls, is_whole=memory.is_whole and is_only, is_only=is_only
    )


class _Memory:
    """Numbers out of memory; what cannot be read is 0."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.is_whole = True

    def raw(self, address: int, size: int) -> bytes:
        """So many bytes, or none."""
        found = self._read(address, size) if address > 0 else None
        if found is None:
            self.is_whole = False
        return found or b""

    def number(self, address: int, size: int) -> int:
        return int.from_bytes(self.raw(address, size), "little")

    def pointer(self, address: int) -> int:
        return self.number(address, _WORD)

    def text(self, address: int, offsets: Offsets) -> str:
        """A str object."""
        head = self.raw(address, offsets.text)
        state, length = _number(head, _TEXT_STATE, 4), _number(head, _TEXT_LENGTH)
        kind = (state & _KIND) >> 2
        if not state & _COMPACT or kind not in _ENCODINGS or not 0 < length <= _MAX_NAME:
            self.is_whole = False
            return UNREAD
        start = offsets.text if state & _ASCII else offsets.wide_text
        raw = self.raw(address + start, length * kind)
        return raw.decode(_ENCODINGS[kind], "replace") or UNREAD

    def content(self, address: int) -> bytes:
        """A bytes object."""
        size = self.pointer(address + _BYTES_SIZE)
        if size > _MAX_TABLE:
            self.is_whole = False
            return b""
        return self.raw(address + _BYTES_DATA, size) if size else b""


class _Code(NamedTuple):
    name: str
    qualified: str
    file: str
    first_line: int
    lines: bytes


class _Frames:
    """Walks the frames of threads; what a code object says is read once."""

    def __init__(self, memory: _Memory, layout: Layout) -> None:
        self._memory = memory
        self._layout = layout
        self._codes: dict[int, _Code | None] = {}

    def calls(self, state: int, most: int) -> Iterator[PythonCall]:
        """The functions of one thread, innermost first."""
        offsets = self._layout.offsets
        frame = state
        for offset in offsets.frame:
            frame = self._memory.pointer(frame + offset) if frame else 0
        waiting: PythonCall | None = None
        for _ in range(most):
            raw = self._memory.raw(frame, _FRAME_SIZE) if frame else b""
            is_shim = bool(raw) and offsets.is_entry is None and raw[offsets.owner] == _OWNED_BY_C
            if waiting is not None:  # since 3.12 it is the frame behind that tells
                yield replace(waiting, is_entry=waiting.is_entry or is_shim or not raw)
            waiting = None
            if not raw:
                return
            if not is_shim:
                waiting = self._call(raw)
                if waiting is None:
                    return
            frame = _number(raw, offsets.previous)
        if waiting is not None:
            yield waiting

    def _call(self, frame: bytes) -> PythonCall | None:
        offsets = self._layout.offsets
        address = _number(frame, offsets.code)
        if address not in self._codes:
            self._codes[address] = self._code(address)
        code = self._codes[address]
        if code is None:
            return None
        at = _number(frame, _INSTRUCTION) - address - offsets.bytecode
        return PythonCall(
            function=code.name,
            qualified=code.qualified,
            file=code.file,
            line=line_at(code.lines, code.first_line, at),
            is_entry=offsets.is_entry is not None and frame[offsets.is_entry] == 1,
        )

    def _code(self, address: int) -> _Code | None:
        memory, offsets = self._memory, self._layout.offsets
        raw = memory.raw(address, _CODE_SIZE)
        if _number(raw, _TYPE) != self._layout.code_type:
            memory.is_whole = False
            return None
        name, qualified, file = (
            memory.text(_number(raw, offset), offsets) for offset in (_NAME, _QUALNAME, _FILENAME)
        )
        return _Code(
            name=name,
            qualified=qualified,
            file=file,
            first_line=_number(raw, offsets.first_line, 4),
            lines=memory.content(_number(raw, _LINETABLE)),
        )


def _number(raw: bytes, offset: int, size: int = 8) -> int:
    return int.from_bytes(raw[offset : offset + size], "little")


def _thread_states(
    memory: _Memory, offsets: Offsets, interpreter: int
) -> Iterator[tuple[int, int]]:
    """Each thread state's address with its native thread id."""
    state, seen = memory.pointer(interpreter + offsets.threads), set[int]()
    while state and state not in seen and len(seen) < _MAX_THREADS:
        seen.add(state)
        yield state, memory.pointer(state + offsets.native_id)
        state = memory.pointer(state + _NEXT_THREAD)
