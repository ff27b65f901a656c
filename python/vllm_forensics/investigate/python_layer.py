"""Adds Python's half of the stacks to a crash that the native half explained already."""

from __future__ import annotations

import atexit
import threading
from dataclasses import replace
from typing import Final

from vllm_forensics.capture.python_stacks import PythonStacks, has_pystack
from vllm_forensics.diagnosis.mixed_stack import (
    EVALUATION,
    gil_of,
    lacks_loop,
    merge_stack,
    parallel_caller,
)
from vllm_forensics.diagnosis.python_calls import more_of_each, place_of_calls
from vllm_forensics.diagnosis.runtime_frames import INTERPRETER, is_own
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.eval_loop import loop_part
from vllm_forensics.evidence.python_state import PythonCall, PythonState
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.python_structures import python_state_of
from vllm_forensics.investigate.source_excerpt import excerpt_of
from vllm_forensics.model.answer import Gap, Known, Tier
from vllm_forensics.model.python_stack import PythonFrame, PythonThread
from vllm_forensics.model.report import Crash, ParallelCaller, ThreadReport
from vllm_forensics.model.stack import Frame, FrameKind

_UNPLACED: Final = Gap(
    what="where Python's frames stand among the native ones is not known: the interpreter's "
    "evaluation loop has no name; they are listed last",
    remedy="install the interpreter's debug symbols (Debian: python3.X-dbgsym)",
    tier=Tier.PYSTACK,
)
_IN_PART: Final = Gap(
    what="some of Python's calls, or their names and lines, lie in memory that the core does not "
    "hold",
    remedy="forensics run --budget 512 -- COMMAND    # a larger core has them",
    tier=Tier.NOTES,
)
_MAX_FRAMES: Final = 1000
"""Of each thread, the innermost."""
_SHARED: Final[list[PythonStacks]] = []
_SHARING: Final = threading.Lock()


def with_python(crash: Crash, core: str, notes: CoreImage, store: ModuleStore) -> Crash:
    """The crash with Python frames where they were, if the process held an interpreter.

    `core` is the path of the core itself; the crash's own may name what it was expanded from.
    """
    interpreters = [m for m in notes.modules if INTERPRETER.fullmatch(m.name)]
    if not interpreters:
        return crash
    threads: tuple[PythonThread, ...] = ()
    in_part: frozenset[int] = frozenset()
    try:
        threads, in_part = _read(core, notes, store)
    except ToolError as error:
        gap = Gap(what=error.message, remedy=error.remedy, tier=Tier.PYSTACK)
        crash = replace(crash, gaps=(*crash.gaps, gap))
    by_tid = {thread.tid: thread for thread in threads}
    loops = _NamelessLoops(notes, store)
    merged = [_merged(loops.named(thread), by_tid.get(thread.tid)) for thread in crash.threads]
    if lacks_loop(crash.threads[0].stack.frames, merged[0][0].stack.frames):
        crash = replace(crash, gaps=(*crash.gaps, _UNPLACED))
    crash = _with_culprit(crash, tuple(thread for thread, _ in merged), merged[0][1])
    crash = _with_caller(crash)
    caller = crash.parallel_caller
    if in_part & {crash.threads[0].tid, caller.tid if caller is not None else 0}:
        crash = replace(crash, gaps=(*crash.gaps, _IN_PART))
    return crash


class _NamelessLoops:
    """Names the evaluation loop where the interpreter's symbols are stripped."""

    def __init__(self, notes: CoreImage, store: ModuleStore) -> None:
        self._notes = notes
        self._store = store
        self._parts: dict[str, int | None] = {}

    def named(self, thread: ThreadReport) -> ThreadReport:
        frames = tuple(self._named(frame) for frame in thread.stack.frames)
        return replace(thread, stack=replace(thread.stack, frames=frames))

    def _named(self, frame: Frame) -> Frame:
        if frame.function is not None or frame.kind is not FrameKind.NATIVE:
            return frame
        module = self._notes.module_at(frame.pc)
        file = self._store(module.value) if isinstance(module, Known) else module
        if isinstance(module, Gap) or isinstance(file, Gap):
            return frame
        path = module.value.path
        if path not in self._parts:
            is_interpreter = INTERPRETER.fullmatch(module.value.name) is not None
            self._parts[path] = loop_part(file.value) if is_interpreter else None
        part = self._parts[path]
        if part is None:
            return frame
        # A return address may be the first of another part.
        address = frame.pc - module.value.bias - (frame.index > 0)
        is_loop = file.value.unwind_start(address) == part
        return replace(frame, function=EVALUATION) if is_loop else frame


def close_python_stacks() -> None:
    """End the children that read Python frames; the next question starts new ones."""
    with _SHARING:
        while _SHARED:
            _SHARED.pop().close()
        atexit.unregister(close_python_stacks)


def _read(
    core: str, notes: CoreImage, store: ModuleStore
) -> tuple[tuple[PythonThread, ...], frozenset[int]]:
    """What we read ourselves, or pystack, which knows more versions; and who was read in part.

    Where a core leaves memory out, pystack leaves out the calls that it would have needed it for,
    and says nothing of them. Who reads more of a thread's calls is believed then.

    Raises:
        ToolError: the files at hand are not those that crashed, or pystack found nothing.

    """
    state = _state_of(notes)
    own = _threads_of(state) if state is not None and state.is_only else ()
    if state is not None and state.is_whole:
        return own, frozenset()
    try:
        theirs = read_by_pystack(core, notes, store)
    except ToolError:
        if not any(thread.frames for thread in own):
            raise
        theirs = ()
    return more_of_each(own, theirs)


def read_by_ourselves(notes: CoreImage) -> tuple[PythonThread, ...] | None:
    """The interpreter's threads out of its own structures; None where not all could be read."""
    state = _state_of(notes)
    return _threads_of(state) if state is not None and state.is_whole else None


def _state_of(notes: CoreImage) -> PythonState | None:
    threads = {thread.tid for thread in notes.threads}
    return python_state_of(notes, threads, most_frames=_MAX_FRAMES)


def _threads_of(state: PythonState) -> tuple[PythonThread, ...]:
    return tuple(_thread(state, tid, calls) for tid, calls in state.calls)


def _thread(state: PythonState, tid: int, calls: tuple[PythonCall, ...]) -> PythonThread:
    frames = (
        PythonFrame(
            function=call.function,
            file=call.file,
            line=call.line,
            is_entry=call.is_entry,
            tier=Tier.NOTES,
        )
        for call in calls
    )
    return PythonThread(tid=tid, frames=tuple(frames), holds_gil=tid == state.gil_holder)


def read_by_pystack(core: str, notes: CoreImage, store: ModuleStore) -> tuple[PythonThread, ...]:
    """Ask pystack, if the files that it will read are the ones that crashed.

    Raises:
        ToolError: they are not, or pystack is missing or found nothing.

    """
    if not has_pystack():
        raise ToolError("no Python frames: pystack is not installed", remedy="pip install pystack")
    program = next((m for m in notes.modules if m.path == notes.process.program), None)
    read = [m for m in notes.modules if m is program or INTERPRETER.fullmatch(m.name)]
    for module in read:
        answer = store(module)
        if isinstance(answer, Gap):
            raise ToolError(f"no Python frames: {answer.what}", remedy=answer.remedy)
    if program is None:
        raise ToolError("no Python frames: the core does not name its program", remedy="")
    elsewhere = [path for m in read if (path := store.path_of(m)) != m.path and m is not program]
    folders = tuple(path.rpartition("/")[0] for path in elsewhere)
    return _shared().read(core, store.path_of(program), folders)


def _shared() -> PythonStacks:
    with _SHARING:
        if not _SHARED:
            _SHARED.append(PythonStacks())
            atexit.register(close_python_stacks)
        return _SHARED[0]


def _merged(
    thread: ThreadReport, python: PythonThread | None
) -> tuple[ThreadReport, dict[int, int]]:
    """The thread with both halves, and each native frame's new index by its old one."""
    native = thread.stack.frames
    frames = merge_stack(native, python.frames if python is not None else ())
    moved = {
        frame.index: at for at, frame in enumerate(frames) if frame.kind is not FrameKind.PYTHON
    }
    recursion = thread.stack.recursion
    stack = replace(
        thread.stack,
        frames=tuple(replace(frame, index=at) for at, frame in enumerate(frames)),
        recursion=recursion
        and replace(recursion, first_index=moved.get(recursion.first_index, recursion.first_index)),
    )
    return replace(
        thread,
        stack=stack,
        fault_index=moved.get(thread.fault_index, thread.fault_index),
        gil=gil_of(python, native),
    ), moved


def _with_culprit(crash: Crash, threads: tuple[ThreadReport, ...], moved: dict[int, int]) -> Crash:
    """The same culprit at its new place; where no native code is the user's own, Python's."""
    culprit = crash.culprit
    if culprit is not None:
        culprit = replace(culprit, index=moved.get(culprit.index, culprit.index))
        return replace(crash, threads=threads, culprit=culprit)
    own = next((frame for frame in _python_frames(threads[0]) if is_own(frame)), None)
    excerpt = excerpt_of(own, before=1) if own is not None else None
    return replace(crash, threads=threads, culprit=own, excerpt=excerpt)


def _with_caller(crash: Crash) -> Crash:
    """One more sentence: which Python code led there, in this thread or in the one it works for."""
    sentence = ""
    caller = parallel_caller(crash.threads)
    if caller is not None and not _python_frames(crash.threads[0]):
        calls = tuple(one for one in caller.stack.frames if one.kind is FrameKind.PYTHON)
        crash = replace(crash, parallel_caller=ParallelCaller(tid=caller.tid, frames=calls))
        sentence = (
            f" The thread most likely works in a parallel loop of thread {caller.tid}, which in "
            f"Python was below {place_of_calls(calls)}."
        )
    elif place := place_of_calls(_python_frames(crash.threads[0])):
        sentence = f" In Python it was below {place}."
    return replace(crash, explanation=crash.explanation + sentence)


def _python_frames(thread: ThreadReport) -> tuple[Frame, ...]:
    return tuple(
        frame
        for frame in thread.stack.frames[thread.fault_index :]
        if frame.kind is FrameKind.PYTHON
    )
