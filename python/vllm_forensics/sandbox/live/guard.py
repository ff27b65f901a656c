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

    @wraps(original)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        if not watching.watches(self):
            return original(self, *arguments, **options)
        # A wrapper may look through an iterator, which then is used up.
        given = [list(value) if isinstance(value, Iterator) else value for value in arguments]
        call = _Call()
        calls.append(call)
        try:
            return watched(self, *given, **options)
        except OUR_ERRORS as error:
            if error is call.raised:
                raise
            watching.give_up(error)
            if call.raised is not None:
                raise call.raised from None
            return call.result if call.made else original(self, *given, **options)
        finally:
            calls.pop()

    return method
