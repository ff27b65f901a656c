"""Reads an interpreter's own structures out of an image, where its version is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vllm_forensics.diagnosis.runtime_frames import INTERPRETER
from vllm_forensics.evidence.python_layout import layout_of
from vllm_forensics.evidence.python_state import PythonState, read_python_state
from vllm_forensics.model.answer import Known
from vllm_forensics.model.image import Image

_WORD: Final = 8
_SYMBOLS: Final = ("Py_Version", "PyCode_Type", "_PyRuntime")


def python_state_of(
    image: Image, threads: Collection[int], *, most_frames: int
) -> PythonState | None:
    """The main interpreter's threads; None where it is not there, or none that is known.

    `threads` are the ids that the process itself uses; `most_frames` is for each of them.
    """
    machine = image.process.architecture
    if machine.word_size != _WORD or machine.byte_order != "little":
        return None

    def read(address: int, size: int) -> bytes | None:
        answer = image.read(address, size)
        return answer.value if isinstance(answer, Known) else None

    for module in image.modules:
        if INTERPRETER.fullmatch(module.name) is None:
            continue
        symbols = [image.symbol_named(module, name) for name in _SYMBOLS]
        known = [symbol.value.address for symbol in symbols if isinstance(symbol, Known)]
        if len(known) != len(_SYMBOLS):
            continue
        version, code_type, runtime = known
        number = int.from_bytes(read(version, 4) or b"", "little")
        layout = layout_of(number, code_type)
        if layout is not None:
            return read_python_state(layout, runtime, threads, read, most_frames=most_frames)
    return None
