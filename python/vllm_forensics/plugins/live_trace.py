"""Opens a trace when a scheduler is built in this process, whichever way vLLM comes to that."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from msgspec.structs import replace

from vllm_forensics.capture.trace_file import TraceFile
from vllm_forensics.sandbox.live.guard import OUR_ERRORS
from vllm_forensics.sandbox.live.header import header_of
from vllm_forensics.sandbox.live.hooks import put_around
from vllm_forensics.sandbox.live.lines import HeaderLine
from vllm_forensics.sandbox.live.session import LiveSession

LIMIT_VARIABLE: Final = "VLLM_FORENSICS_TRACE_MIB"
_LIMIT_MIB: Final = 256
_MODULE: Final = "vllm.v1.core.sched.scheduler"
_LOG: Final = logging.getLogger("vllm.forensics")
"""Below vLLM's own logger, so that its lines look like vLLM's."""
_MARK: Final = "_vllm_forensics_watched"
_SESSIONS: Final[list[LiveSession]] = []
"""The one that is recorded: classes can be wrapped for one only."""


def watch(folder: str) -> None:
    """Record every scheduler that is built in this process, each to a file of its own."""
    module = sys.modules.get(_MODULE)
    if module is not None:
        _patch(module, folder)
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        # Importing it here would cost every process of vLLM that needs no scheduler.
        sys.meta_path.insert(0, _Waiting(folder))


class _Waiting(MetaPathFinder):
    """Finds nothing itself: sees to it that the scheduler's module is patched once it is there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that all others would give, with a loader that tells us."""
        del path, target
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader, self._folder)
        return spec


class _Telling(Loader):
    """Loads as another does, then patches; asked for anything else, it is that other."""

    def __init__(self, loader: Any, folder: str) -> None:
        self._loader = loader
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the other does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """As the other does, then patch what it made."""
        self._loader.exec_module(module)
        _patch(module, self._folder)


def _patch(module: ModuleType, folder: str) -> None:
    scheduler = getattr(module, "Scheduler", None)
    if not isinstance(scheduler, type) or "__init__" not in scheduler.__dict__:
        _say(f"{_MODULE} has no Scheduler that is known")
        return
    original = scheduler.__dict__["__init__"]
    if hasattr(original, _MARK):
        return

    @wraps(original)
    def build(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        _begin(self, folder)

    setattr(build, _MARK, True)
    setattr(scheduler, "__init__", build)  # noqa: B010 - the class is a stranger's


def _begin(scheduler: Any, folder: str) -> None:
    """Nothing that goes wrong here may keep a server from starting."""
    if _SESSIONS:
        _SESSIONS.pop().stop("another scheduler was built in this process")
    try:
        store = TraceFile(folder, limit_bytes=_limit_bytes())
        session = LiveSession(store, _say)
        session.begin(scheduler, _header(scheduler, put_around(scheduler, session)))
    except (*OUR_ERRORS, ImportError) as error:
        _say(f"{type(error).__name__}: {error}")
    else:
        _SESSIONS.append(session)
        _LOG.info("forensics: the life of every block is recorded to %s", store.path)


def _header(scheduler: Any, unseen: list[str]) -> HeaderLine:
    vllm = sys.modules.get("vllm")
    header = header_of(
        scheduler,
        version=getattr(vllm, "__version__", None),
        file=str(getattr(vllm, "__file__", "")),
        pid=os.getpid(),
    )
    return replace(header, live=replace(header.live, unseen=unseen))


def _limit_bytes() -> int:
    text = os.environ.get(LIMIT_VARIABLE, "")
    return (int(text) if text.isdecimal() and int(text) else _LIMIT_MIB) << 20


def _say(why: str) -> None:
    _LOG.warning("forensics: no (more) trace of blocks, and the server goes on: %s", why)
