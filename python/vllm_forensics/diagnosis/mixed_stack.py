"""Joins a thread's native frames with its Python ones, each where it was: C++ over Python over C++.

The interpreter's evaluation loop is one native frame for a run of Python functions that call each
other; where C code calls Python again, a new loop begins, and Python marks that function's frame.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.python_stack import PythonFrame, PythonThread
from vllm_forensics.model.report import ThreadReport
from vllm_forensics.model.stack import Frame, FrameKind

EVALUATION: Final = "_PyEval_EvalFrameDefault"
_TAIL_CALLS: Final = "_TAIL_CALL_"
"""CPython 3.14 may be built with one C function for each instruction; each stands for the loop."""
_BEGINNINGS: Final = {"_start", "clone", "__clone", "clone3", "__clone3"}
"""What a thread's outermost frame is, before the C library of glibc 2.34 and after."""
_OPENMP: Final = re.compile(r"lib(gomp|omp|iomp5)[.-]")
_TAKES_GIL: Final = "take_gil"


def merge_stack(native: tuple[Frame, ...], python: tuple[PythonFrame, ...]) -> tuple[Frame, ...]:
    """All frames, innermost first, not yet numbered anew.

    Python frames stand before the loop that ran them. Those that no loop is left for stand at the
    end: they are older than the last native frame that could be unwound, or `lacks_loop`.
    """
    merged: list[Frame] = []
    left = list(python)
    for frame in native:
        if _is_loop(frame):
            while left:
                called = left.pop(0)
                merged.append(_python(called))
                if called.is_entry:
                    break
        merged.append(frame)
    return (*merged, *(_python(called) for called in left))


def lacks_loop(native: tuple[Frame, ...], merged: tuple[Frame, ...]) -> bool:
    """Do Python frames stand at the end because a loop was not known for one?

    The native frames reach back to the thread's beginning then: no Python frame is older.
    """
    is_whole = bool(native) and native[-1].function in _BEGINNINGS
    return is_whole and merged[-1].kind is FrameKind.PYTHON


def parallel_caller(threads: tuple[ThreadReport, ...]) -> ThreadReport | None:
    """The thread that gave the crashing one its work: it is inside a parallel loop, below Python.

    None where the crashing thread, the first, is not one that OpenMP made, and where more threads
    than one may have begun the loop.
    """
    crashed, *others = threads
    frames = crashed.stack.frames
    at = _first_of_openmp(frames)
    if at is None or not any(frame.function in _BEGINNINGS for frame in frames):
        return None
    body = next((frame.module for frame in frames[:at][::-1] if frame.module), None)
    callers = [thread for thread in others if _began_loop(thread.stack.frames, body)]
    return callers[0] if body is not None and len(callers) == 1 else None


def _began_loop(frames: tuple[Frame, ...], body: str | None) -> bool:
    """Is it below a module's call into OpenMP, and below Python?"""
    at = _first_of_openmp(frames)
    below = frames[at:] if at is not None else ()
    is_in_python = any(frame.kind is FrameKind.PYTHON for frame in below)
    return is_in_python and any(frame.module == body for frame in below)


def _first_of_openmp(frames: tuple[Frame, ...]) -> int | None:
    names = ((frame.module or "").rsplit("/", 1)[-1] for frame in frames)
    return next((at for at, name in enumerate(names) if _OPENMP.match(name)), None)


def gil_of(thread: PythonThread | None, native: tuple[Frame, ...]) -> str | None:
    """`holds`, `waits`, or None: what a thread has to do with the interpreter's lock."""
    if any(frame.function == _TAKES_GIL for frame in native):
        return "waits"
    return "holds" if thread is not None and thread.holds_gil else None


def _is_loop(frame: Frame) -> bool:
    if frame.kind is not FrameKind.NATIVE or frame.function is None:
        return False
    return frame.function.startswith((EVALUATION, _TAIL_CALLS))


def _python(called: PythonFrame) -> Frame:
    return Frame(
        index=0,
        pc=0,
        function=called.function,
        tier=called.tier,
        kind=FrameKind.PYTHON,
        file=called.file,
        line=called.line,
    )
