"""The stacks of a report while it is read: which is open, what is due, what each stands for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from vllm_forensics.model.sanitizer import PrintedFrame, Role, StackEvent


@dataclass(slots=True)
class OpenStack:
    """One stack, and who said what of it."""

    role: Role
    thread: str | None
    what: str | None
    creator: str | None
    frames: list[PrintedFrame] = field(default_factory=list)


class StackCollector:
    """What a report's stacks are, as far as they were read."""

    __slots__ = ("_cut", "_lost", "_skip_due", "_skipping", "_stack", "_stacks")

    def __init__(self) -> None:
        """Begin without a stack."""
        self._stacks: list[OpenStack] = []
        self._stack: OpenStack | None = None
        self._skipping = self._lost = self._cut = False
        self._skip_due = -1

    @property
    def next_index(self) -> int | None:
        """The number of the next frame of its stack; -1 where none is to come, None if unknown."""
        if self._stack is not None:
            return self._stack.frames[-1].index + 1 if self._stack.frames else 0
        return None if self._lost else self._skip_due

    @property
    def last_index(self) -> int:
        """The number of the last frame of the stack that is open; -1 where there is none."""
        return self._stack.frames[-1].index if self._stack and self._stack.frames else -1

    @property
    def awaits_use(self) -> bool:
        """Is the first frame of all still to come?"""
        return len(self._stacks) == 1 and not self._stacks[0].frames and not self._lost

    @property
    def top_place(self) -> str | None:
        """FILE:LINE of the use's innermost frame that has one."""
        frames = (
            frame for stack in self._stacks if stack.role is Role.USE for frame in stack.frames
        )
        return next((f"{frame.file}:{frame.line}" for frame in frames if frame.line), None)

    @property
    def thread_before(self) -> str | None:
        """The thread of the stack before the one that was opened last."""
        return self._stacks[-2].thread if len(self._stacks) > 1 else None

    def lose_stack(self) -> None:
        """What follows may be another report's: this stack ends here, and not by itself."""
        self._stack, self._skipping, self._lost, self._cut = None, True, True, True

    def introduce(self, words: str) -> None:
        """Say what the stack that was opened last is in the words that other runtimes use."""
        if self._stack is not None:
            self._stack.what = words

    def set_stack_thread(self, thread: str | None) -> None:
        """The thread of the stack that was opened last, where a later line names it."""
        if self._stack is not None:
            self._stack.thread = thread

    def _open(self, role: Role, thread: str | None, what: str | None, creator: str | None) -> None:
        self._stack = OpenStack(role, thread, what, creator)
        self._stacks.append(self._stack)
        self._skipping = self._lost = False

    def _skip(self) -> None:
        """Frames that stand for nothing we tell of are to come."""
        self._stack, self._skipping, self._lost, self._skip_due = None, True, False, 0

    def _chain(self) -> tuple[StackEvent, ...]:
        """In the order in which things happened where that is known; else as printed."""
        events = [
            StackEvent(
                role=stack.role,
                thread=stack.thread,
                frames=tuple(stack.frames),
                what=stack.what,
                created_by=stack.creator,
            )
            for stack in self._stacks
            if stack.frames or (stack.what is not None and stack.role is Role.THREAD_CREATE)
        ]
        origins = [event for event in events if event.role is Role.ORIGIN]
        rest = [event for event in events if event.role is not Role.ORIGIN]
        # MemorySanitizer prints the newest first: use, stored, created.
        return tuple(sorted((*reversed(origins), *rest), key=lambda event: _TIME[event.role]))


_TIME: Final = {
    Role.ORIGIN: 0,
    Role.ALLOCATE: 0,
    Role.FREE: 1,
    Role.PREVIOUS_ACCESS: 2,
    Role.USE: 3,
    Role.LOCK_ACQUIRE: 4,
    Role.LEAK: 4,
    Role.THREAD_CREATE: 5,
}
