"""Puts the recorder of the sandbox around the classes of a vLLM that serves, for good."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from types import CodeType, FunctionType
from typing import Any, Final

from vllm_forensics.errors import ForensicsError
from vllm_forensics.model.event import EventKind
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.engine.v1_hooks import (
    found_since,
    given_back,
    hooks,
    unknown_blocks,
)
from vllm_forensics.sandbox.live.guard import OUR_ERRORS, guarded
from vllm_forensics.sandbox.live.live_recorder import LiveRecorder
from vllm_forensics.sandbox.live.session import LiveSession
from vllm_forensics.sandbox.recorder import Wrapper

_NEEDED: Final = frozenset(
    {"add_request", "schedule", "update_from_output", "get_new_blocks", "free_blocks"}
)
"""Without these there is nothing to tell."""
_FOR_REQUEST: Final = frozenset({"allocate_slots", "free"})
"""Their first argument is the request that they work for."""
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
    codes: list[CodeType] = []
    for (owner, name), wrapper in methods.items():
        if name in owner.__dict__:
            original = _ORIGINALS.setdefault((owner, name), owner.__dict__[name])
            if name in _FOR_REQUEST:
                codes += [original.__code__] if isinstance(original, FunctionType) else []
                setattr(owner, name, _marking(original, session.recorder))
            elif name in _OFTEN:
                setattr(owner, name, _OFTEN[name](original, session))
            else:
                setattr(owner, name, guarded(original, wrapper, session))
    session.recorder.for_request = frozenset(codes)
    return unseen


def _marking(original: Callable[..., Any], recorder: LiveRecorder) -> Callable[..., Any]:
    """Notes for which request the engine works; nothing in it can fail.

    One of these is called for each request and step: whatever more it does is felt. So the note
    stands until the next one, or until the step is scheduled, or taken in.
    """

    @wraps(original)
    def method(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        recorder.working_on = request
        return original(self, request, *arguments, **options)

    return method


def _allocating(original: Callable[..., Any], session: LiveSession) -> Callable[..., Any]:
    @wraps(original)
    def get_new_blocks(self: Any, *arguments: Any, **options: Any) -> Any:
        blocks = original(self, *arguments, **options)
        if self is session.pool:
            try:
                session.recorder.allocated_all(GPU, [block.block_id for block in blocks])
            except OUR_ERRORS as error:
                session.give_up(error)
        return blocks

    return get_new_blocks


def _evicting(original: Callable[..., Any], session: LiveSession) -> Callable[..., Any]:
    @wraps(original)
    def evict(self: Any, *arguments: Any, **options: Any) -> Any:
        evicted = original(self, *arguments, **options)
        if evicted and self is session.pool:
            try:
                session.recorder.noted(EventKind.EVICT, GPU, arguments[0].block_id)
            except OUR_ERRORS as error:
                session.give_up(error)
        return evicted

    return evict


def _freeing(original: Callable[..., Any], session: LiveSession) -> Callable[..., Any]:
    @wraps(original)
    def free_blocks(self: Any, ordered_blocks: Any, *arguments: Any, **options: Any) -> Any:
        if self is session.pool:
            blocks = ordered_blocks = list(ordered_blocks)
            try:
                session.recorder.freed_all(GPU, given_back(self, blocks))
            except OUR_ERRORS as error:
                session.give_up(error)
        return original(self, ordered_blocks, *arguments, **options)

    return free_blocks


def _caching(original: Callable[..., Any], session: LiveSession) -> Callable[..., Any]:
    unknown_of = unknown_blocks(original)

    @wraps(original)
    def cache(self: Any, request: Any, blocks: Any, *arguments: Any, **options: Any) -> Any:
        unknown = []
        if self is session.pool:
            try:
                unknown = unknown_of(self, blocks, arguments, options)
            except OUR_ERRORS as error:
                session.give_up(error)
        result = original(self, request, blocks, *arguments, **options)
        if unknown:
            try:
                session.recorder.cached(found_since(unknown), request.request_id)
            except OUR_ERRORS as error:
                session.give_up(error)
        return result

    return cache


_OFTEN: Final = {
    "cache_full_blocks": _caching,
    "get_new_blocks": _allocating,
    "_maybe_evict_cached_block": _evicting,
    "free_blocks": _freeing,
}
"""Called many times a step: a guard that knows nothing of the call would be felt."""


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
            running = session.begin_step()
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
