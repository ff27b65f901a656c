"""Puts the recorder of the sandbox around the classes of a vLLM that serves, for good."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from vllm_forensics.errors import ForensicsError
from vllm_forensics.sandbox.engine.v1_hooks import hooks
from vllm_forensics.sandbox.live.guard import guarded
from vllm_forensics.sandbox.live.session import LiveSession
from vllm_forensics.sandbox.recorder import Wrapper

_NEEDED: Final = frozenset(
    {"add_request", "schedule", "update_from_output", "get_new_blocks", "free_blocks"}
)
"""Without these there is nothing to tell."""
_FOR_REQUEST: Final = frozenset({"allocate_slots", "free"})
_ORIGINALS: Final[dict[tuple[type, str], Any]] = {}
"""What stood in the classes before us: a later session must not wrap an earlier one's wrappers."""


def put_around(scheduler: Any, session: LiveSession) -> list[str]:
    """Record the scheduler's classes in `session`; the methods that this vLLM does not have.

    Raises:
        ForensicsError: one of those is among them without which nothing can be told.
        ImportError: this vLLM has its classes elsewhere.
        AttributeError: likewise.

    """
    scheduler_class = importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler
    methods = hooks(importlib.import_module, session.recorder)
    for name, wrapper in _of_scheduler(session).items():
        methods[scheduler_class, name] = wrapper
    unseen = sorted(name for owner, name in methods if name not in owner.__dict__)
    missing = _NEEDED.intersection(unseen)
    if missing or not isinstance(scheduler, scheduler_class):
        raise ForensicsError(
            f"this vLLM has no {', '.join(sorted(missing)) or scheduler_class.__qualname__}",
            remedy="report its version",
        )
    for (owner, name), wrapper in methods.items():
        if name in owner.__dict__:
            original = _ORIGINALS.setdefault((owner, name), owner.__dict__[name])
            light = name in _FOR_REQUEST
            method = _marking(original, session) if light else guarded(original, wrapper, session)
            setattr(owner, name, method)
    return unseen


def _marking(original: Callable[..., Any], session: LiveSession) -> Callable[..., Any]:
    """Notes for which request the engine works; nothing in it can fail.

    One of these is called for each request and step: a guard around it would be felt.
    """
    recorder = session.recorder

    @wraps(original)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        before = recorder.request
        recorder.request = getattr(arguments[0], "request_id", None) if arguments else None
        try:
            return original(self, *arguments, **options)
        except BaseException:
            recorder.failing = recorder.failing or recorder.request
            raise
        finally:
            recorder.request = before

    return method


def _of_scheduler(session: LiveSession) -> dict[str, Wrapper]:
    return {
        "add_request": _adding(session),
        "schedule": _scheduling(session),
        "update_from_output": _completing(session),
        "finish_requests": _finishing(session),
        "reset_prefix_cache": _resetting(session),
    }


def _adding(session: LiveSession) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def add_request(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
            if request.request_id not in self.requests:
                session.added(request)
            return original(self, request, *arguments, **options)

        return add_request

    return wrap


def _scheduling(session: LiveSession) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def schedule(self: Any, *arguments: Any, **options: Any) -> Any:
            session.recorder.step += 1
            running = [request.request_id for request in self.running]
            try:
                output = original(self, *arguments, **options)
            except BaseException as error:
                session.raised(error)
                raise
            session.scheduled(output, running)
            return output

        return schedule

    return wrap


def _completing(session: LiveSession) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def update(self: Any, scheduler_output: Any, *arguments: Any, **options: Any) -> Any:
            try:
                result = original(self, scheduler_output, *arguments, **options)
            except BaseException as error:
                session.raised(error)
                raise
            session.completed(scheduler_output)
            return result

        return update

    return wrap


def _finishing(session: LiveSession) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def finish(self: Any, request_ids: Any, finished_status: Any, *more: Any) -> Any:
            before = session.unfinished()
            result = original(self, request_ids, finished_status, *more)
            session.aborted(before, finished_status.name)
            return result

        return finish

    return wrap


def _resetting(session: LiveSession) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def reset(self: Any, *arguments: Any, **options: Any) -> Any:
            done = original(self, *arguments, **options)
            session.reset(done=bool(done))
            return done

        return reset

    return wrap
