"""CPython's structures, laid out as 3.11 has them in a few bytes of memory."""

from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.python_state import PythonCall, line_at, read_python_state

VERSION = 0x030B07F0
RUNTIME, INTERPRETER, STATE, CFRAME, FRAME, CODE = (at << 16 for at in range(1, 7))
NAME, FILE, TABLE = (at << 16 for at in range(7, 10))


class Memory:
    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}

    def put(self, address: int, value: int | bytes, size: int = 8) -> None:
        raw = value if isinstance(value, bytes) else value.to_bytes(size, "little")
        self.bytes.update(zip(range(address, address + len(raw)), raw, strict=True))

    def put_text(self, address: int, text: bytes) -> None:
        self.put(address + 16, len(text))
        self.put(address + 32, 0xE4, 4)  # ready, ascii, compact, one byte each
        self.put(address + 48, text)

    def read(self, address: int, size: int) -> bytes | None:
        if size > 4096:
            return None
        return bytes(self.bytes.get(at, 0) for at in range(address, address + size))


def one_thread(*, locked: int = 1, tid: int = 4711) -> Memory:
    memory = Memory()
    memory.put(RUNTIME + 40, INTERPRETER)
    memory.put(RUNTIME + 368, STATE)
    memory.put(RUNTIME + 376, locked, 4)
    memory.put(INTERPRETER + 16, STATE)
    memory.put(STATE + 160, tid)
    memory.put(STATE + 56, CFRAME)
    memory.put(CFRAME + 8, FRAME)
    memory.put(FRAME + 32, CODE)
    memory.put(FRAME + 56, CODE + 184 + 4)
    memory.put(CODE + 72, 10, 4)
    memory.put(CODE + 112, FILE)
    memory.put(CODE + 128, NAME)
    memory.put(CODE + 136, TABLE)
    memory.put_text(NAME, b"Engine.step")
    memory.put_text(FILE, b"/srv/engine.py")
    memory.put(TABLE + 16, 5)
    memory.put(TABLE + 32, bytes([0x80 | 10 << 3 | 1, 0, 0, 0x80 | 11 << 3, 0]))
    return memory


def test_the_gils_holder_and_the_calls_are_read() -> None:
    state = read_python_state(VERSION, RUNTIME, {4711, 4712}, one_thread().read)

    assert state is not None
    assert state.gil_holder == 4711
    call = PythonCall(function="Engine.step", file="/srv/engine.py", line=11)
    assert state.calls == ((4711, (call,)),)


def test_a_gil_that_is_free_has_no_holder() -> None:
    state = read_python_state(VERSION, RUNTIME, {4711}, one_thread(locked=0).read)

    assert state is not None
    assert state.gil_holder is None


def test_an_id_that_is_no_thread_proves_another_layout() -> None:
    assert read_python_state(VERSION, RUNTIME, {4712}, one_thread().read) is None


def test_an_unknown_version_is_left_alone() -> None:
    assert read_python_state(0x030F0000, RUNTIME, {4711}, one_thread().read) is None


def test_memory_that_cannot_be_read_tells_nothing() -> None:
    assert read_python_state(VERSION, RUNTIME, {4711}, lambda address, size: None) is None


def test_a_ring_of_thread_states_ends() -> None:
    memory = one_thread()
    memory.put(STATE + 8, STATE)

    assert read_python_state(VERSION, RUNTIME, {4711}, memory.read) is not None


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
    for version in (0x030B0000, 0x030C0000, 0x030D0000):
        read_python_state(
            version, runtime, {1}, lambda address, size: (content * (size // 64 + 1))[:size]
        )
