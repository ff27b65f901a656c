"""CPython's structures, laid out as 3.11 has them in a few bytes of memory."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.python_layout import layout_of
from vllm_forensics.evidence.python_lines import line_at
from vllm_forensics.evidence.python_state import (
    PythonCall,
    PythonState,
    Read,
    read_python_state,
)

VERSION = 0x030B07F0
RUNTIME, INTERPRETER, STATE, CFRAME, FRAME, CODE = (at << 16 for at in range(1, 7))
NAME, FILE, TABLE, QUALNAME, CODE_TYPE, OTHER = (at << 16 for at in range(7, 13))


class Memory:
    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}

    def put(self, address: int, value: int | bytes, size: int = 8) -> None:
        raw = value if isinstance(value, bytes) else value.to_bytes(size, "little")
        self.bytes.update(zip(range(address, address + len(raw)), raw, strict=True))

    def put_text(self, address: int, text: str) -> None:
        is_ascii = text.isascii()
        kind = 1 if max(text) < "\u0100" else 2 if max(text) < "\U00010000" else 4
        encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind]
        self.put(address + 16, len(text))
        self.put(address + 32, 0x80 | is_ascii << 6 | 0x20 | kind << 2, 4)  # ready, compact
        self.put(address + (48 if is_ascii else 72), text.encode(encoding))

    def read(self, address: int, size: int) -> bytes | None:
        if size > 4096:
            return None
        return bytes(self.bytes.get(at, 0) for at in range(address, address + size))


def one_thread(*, locked: int = 1, tid: int = 4711) -> Memory:
    memory = Memory()
    memory.put(RUNTIME + 40, INTERPRETER)
    memory.put(RUNTIME + 48, INTERPRETER)
    memory.put(RUNTIME + 368, STATE)
    memory.put(RUNTIME + 376, locked, 4)
    memory.put(INTERPRETER + 16, STATE)
    memory.put(STATE + 160, tid)
    memory.put(STATE + 56, CFRAME)
    memory.put(CFRAME + 8, FRAME)
    memory.put(FRAME + 32, CODE)
    memory.put(FRAME + 56, CODE + 184 + 4)
    memory.put(FRAME + 68, 1, 1)
    memory.put(CODE + 8, CODE_TYPE)
    memory.put(CODE + 72, 10, 4)
    memory.put(CODE + 112, FILE)
    memory.put(CODE + 120, NAME)
    memory.put(CODE + 128, QUALNAME)
    memory.put(CODE + 136, TABLE)
    memory.put_text(NAME, "step")
    memory.put_text(QUALNAME, "Engine.step")
    memory.put_text(FILE, "/srv/engine.py")
    memory.put(TABLE + 16, 5)
    memory.put(TABLE + 32, bytes([0x80 | 10 << 3 | 1, 0, 0, 0x80 | 11 << 3, 0]))
    return memory


def read_state(
    read: Read, threads: Collection[int] = (4711,), *, version: int = VERSION, most_frames: int = 64
) -> PythonState | None:
    layout = layout_of(version, CODE_TYPE)
    assert layout is not None
    return read_python_state(layout, RUNTIME, threads, read, most_frames=most_frames)


def found(memory: Memory, most_frames: int = 64) -> PythonState:
    state = read_state(memory.read, most_frames=most_frames)
    assert state is not None
    return state


def test_the_gils_holder_and_the_calls_are_read() -> None:
    state = read_state(one_thread().read, (4711, 4712))

    assert state is not None
    assert state.gil_holder == 4711
    assert state.is_whole
    call = PythonCall(
        function="step", qualified="Engine.step", file="/srv/engine.py", line=11, is_entry=True
    )
    assert state.calls == ((4711, (call,)),)


@pytest.mark.parametrize("name", ["größe", "内", "\U00010330"])
def test_names_of_every_width_are_read(name: str) -> None:
    memory = one_thread()
    memory.put_text(NAME, name)

    [(_, [call])] = found(memory).calls

    assert call.function == name


def test_a_name_that_is_no_text_is_replaced_and_raises_nothing() -> None:
    memory = one_thread()
    memory.put_text(NAME, "\U00010330")
    memory.put(NAME + 72, b"\xff\xff\xff\xff")

    [(_, [call])] = found(memory).calls

    assert call.function == "\ufffd"


def test_a_gil_that_is_free_has_no_holder() -> None:
    assert found(one_thread(locked=0)).gil_holder is None


def test_an_id_that_is_no_thread_proves_another_layout() -> None:
    assert read_state(one_thread().read, (4712,)) is None


def test_an_unknown_version_has_no_layout() -> None:
    assert layout_of(0x030F0000, CODE_TYPE) is None


def test_memory_that_cannot_be_read_tells_nothing() -> None:
    assert read_state(lambda address, size: None) is None


def test_a_frame_whose_code_is_none_ends_its_stack() -> None:
    memory = one_thread()
    memory.put(CODE + 8, OTHER)

    state = found(memory)

    assert state.calls == ((4711, ()),)
    assert not state.is_whole


@pytest.mark.parametrize("lost", [FRAME, CODE, NAME, FILE, TABLE + 32])
def test_what_could_not_be_read_makes_it_incomplete(lost: int) -> None:
    memory = one_thread()

    def read(address: int, size: int) -> bytes | None:
        return None if address <= lost < address + size else memory.read(address, size)

    state = read_state(read)

    assert state is not None
    assert not state.is_whole


def test_a_second_interpreter_makes_it_incomplete() -> None:
    memory = one_thread()
    memory.put(RUNTIME + 48, OTHER)

    assert not found(memory).is_whole


def test_a_ring_of_thread_states_ends() -> None:
    memory = one_thread()
    memory.put(STATE + 8, STATE)

    assert len(found(memory).calls) == 1


def test_a_ring_of_frames_ends_at_the_number_that_was_asked_for() -> None:
    memory = one_thread()
    memory.put(FRAME + 48, FRAME)

    [(_, calls)] = found(memory, most_frames=9).calls

    assert len(calls) == 9


def test_since_3_12_the_frame_before_a_shim_is_the_loops_first() -> None:
    memory = one_thread()
    memory.put(INTERPRETER + 72, STATE)  # threads.head
    memory.put(STATE + 144, 4711)
    memory.put(CFRAME, FRAME)
    memory.put(CODE + 68, 10, 4)
    shim, outer = OTHER, OTHER + 256
    for at, before, owner in ((FRAME, shim, 0), (shim, outer, 3), (outer, 0, 0)):
        memory.put(at, CODE)
        memory.put(at + 8, before)
        memory.put(at + 70, owner, 1)
    moved = memory.read(NAME + 48, 4)
    memory.put(NAME + 40, moved or b"")

    state = read_state(memory.read, version=0x030C0000)

    assert state is not None
    [(_, calls)] = state.calls
    assert [call.is_entry for call in calls] == [True, True]


def test_lines_are_those_that_python_itself_gives() -> None:
    code = read_python_state.__code__

    for start, end, line in code.co_lines():
        if line is not None and end > start:
            assert line_at(code.co_linetable, code.co_firstlineno, start) == line


@given(st.binary(max_size=400), st.integers(0, 1000), st.integers(-10, 10_000))
def test_no_table_raises(table: bytes, first: int, offset: int) -> None:
    line_at(table, first, offset)


@given(st.binary(min_size=64, max_size=64), st.integers(0, 1 << 64))
def test_no_memory_raises(content: bytes, runtime: int) -> None:
    thread = int.from_bytes(content[:8], "little")  # as often as not it is one of the process
    for version in (0x030B0000, 0x030C0000, 0x030D0000):
        layout = layout_of(version, thread)
        assert layout is not None
        read_python_state(
            layout,
            runtime,
            {thread},
            lambda address, size: (content * (min(size, 1 << 16) // 64 + 1))[:size],
            most_frames=16,
        )
