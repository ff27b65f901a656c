"""The machine's settings for core dumps: read, changed for a while, put back whatever happens."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

CORE_PATTERN: Final = Path("/proc/sys/kernel/core_pattern")
_RELATIVE: Final = "core.%p"
_CAP_SYS_RESOURCE: Final = 24
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """Where the kernel would put a core of a process in some folder."""

    pattern: str
    hard_limit: int

    @property
    def lands_in_folder(self) -> bool:
        """Does a core land in the crashing process's own folder, as core(5) says?"""
        return bool(self.pattern) and "/" not in self.pattern and not self.pattern.startswith("|")

    @property
    def may_be_written(self) -> bool:
        """Does the hard limit allow any core, or may we raise it?"""
        return self.hard_limit != 0 or _may_raise_limits()


def read_core_settings() -> CoreSettings:
    """The present pattern and hard limit; an empty pattern where /proc is not readable."""
    try:
        pattern = CORE_PATTERN.read_text(encoding="utf-8").strip()
    except OSError:
        pattern = ""
    return CoreSettings(pattern=pattern, hard_limit=resource.getrlimit(resource.RLIMIT_CORE)[1])


@contextlib.contextmanager
def cores_in_working_directory() -> Iterator[bool]:
    """See to it that cores land in the crashing process's folder; says whether that is so.

    The pattern is changed only where it must be and may be, and is put back at the end of the
    block, also after an exception, Ctrl-C, SIGTERM or SIGHUP. A pattern that somebody else set
    meanwhile is left alone.
    """
    before = read_core_settings()
    if before.lands_in_folder or not _try_write(_RELATIVE):
        yield before.lands_in_folder and before.may_be_written
        return
    try:
        with _ending_signals_as_exceptions():
            yield before.may_be_written
    finally:
        if read_core_settings().pattern == _RELATIVE:
            _try_write(before.pattern)


def _may_raise_limits() -> bool:
    """Has this process CAP_SYS_RESOURCE (capabilities(7))? Root in a container has it not."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return False
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and bool(int(found.group(1), 16) >> _CAP_SYS_RESOURCE & 1)


def _try_write(pattern: str) -> bool:
    try:
        CORE_PATTERN.write_text(pattern, encoding="utf-8")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _ending_signals_as_exceptions() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that `finally` runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
