"""Our wrappers around the methods of an engine that serves: no error of ours may reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, Protocol

import msgspec

from vllm_forensics.errors import ForensicsError
from vllm_forensics.sandbox.engine_errors import ENGINE_ERRORS
from vllm_forensics.sandbox.recorder import Wrapper

OUR_ERRORS: Final = (*ENGINE_ERRORS, ForensicsError, msgspec.MsgspecError)
"""What our code can raise over an engine that it does not know."""


_LOOKED_THROUGH: Final = frozenset({"free_blocks", "touch", "finish_requests"})
"""Their wrappers look through what they are given: an iterator would be used up by that."""


class Watching(Protocol):
    """Who is told of what the wrappers see."""

    def watches(self, instance: object) -> bool:
        """Whether this scheduler, manager or pool is the one that is recorded."""

    def give_up(self, error: BaseException) -> None:
        """Record no more: we do not understand this engine."""


class _Call:
    """One call of an engine's method: whether it was made, and what came of it."""

    __slots__ = ("made", "raised", "result")

    def __init__(self) -> None:
        self.made = False
        self.result: Any = None
        self.raised: BaseException | None = None


def guarded(original: Callable[..., Any], wrapper: Wrapper, watching: Watching) -> Any:
    """The method as `wrapper` makes it, for the instances that are watched; itself for all others.

    Where the wrapper fails, the watching ends, and the engine gets what its own method gave.
    """
    calls: list[_Call] = []

    @wraps(original)
    def observed(*arguments: Any, **options: Any) -> Any:
        call = calls[-1]
        call.made = True
        try:
            call.result = original(*arguments, **options)
        except BaseException as error:
            call.raised = error
            raise
        return call.result

    watched = wrapper(observed)
    looked_through = original.__name__ in _LOOKED_THROUGH

    @wraps(original)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        if not watching.watches(self):
            return original(self, *arguments, **options)
        if looked_through:
            arguments = tuple(
                list(value) if isinstance(value, Iterator) else value for value in arguments
            )
        call = _Call()
        calls.append(call)
        try:
            return watched(self, *arguments, **options)
        except OUR_ERRORS as error:
            if error is call.raised:
                raise
            watching.give_up(error)
            if call.raised is not None:
                raise call.raised from None
            return call.result if call.made else original(self, *arguments, **options)
        finally:
            calls.pop()

    return method
