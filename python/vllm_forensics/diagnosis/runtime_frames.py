"""Which frames are not the user's own code, or tell no bugs apart.

The tables are data, in a folder for each version of signatures: one pattern a line, with why it is
there and an example. A runtime's frame is never blamed. For signatures, prefix frames, which only
raise, are passed over at the beginning of a stack, and from a sentinel frame on its tail is left
out.
"""

from __future__ import annotations

import pkgutil
import re
from functools import lru_cache
from typing import Final, NamedTuple

from vllm_forensics.model.sanitizer_sieve import SIGNATURE_VERSION
from vllm_forensics.model.stack import Frame, FrameKind


class FrameRule(NamedTuple):
    """One line of a table."""

    pattern: str
    """A regular expression of the whole name."""
    why: str
    example: str


def _table(name: str) -> tuple[FrameRule, ...]:
    """A table that is part of this version of signatures; read like the modules beside it."""
    file = f"signature_v{SIGNATURE_VERSION}/{name}.tsv"
    data = pkgutil.get_data(__package__, file)
    if data is None:
        raise ImportError(f"{file} is missing: install vllm-forensics again")
    lines = data.decode().splitlines()
    return tuple(FrameRule(*line.split("\t")) for line in lines if not line.startswith("#"))


def _any_of(table: tuple[FrameRule, ...], flags: int = 0) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{rule.pattern})" for rule in table), flags)


RUNTIME_MODULES: Final = _table("runtime_modules")
RUNTIME_FUNCTIONS: Final = _table("runtime_functions")
RUNTIME_PYTHON_FILES: Final = _table("runtime_python_files")
"""Of a Python frame's file: Python's own library, and what only hands a call on."""
PREFIX_FUNCTIONS: Final = _table("prefix_functions")
"""What stands between a bug and the signal: it is the same for every bug that it reports."""
SENTINEL_FUNCTIONS: Final = _table("sentinel_functions")
"""Where a stack's tail begins, which no longer tells bugs apart."""
INTERPRETER: Final = re.compile(r"(lib)?python\d(\.\d+)?[a-z]*(\.so.*)?")
"""Of a module's file name: it holds Python."""
SYSTEM_FILES: Final = re.compile(
    r".*(?:/|^)(?:libsanitizer|compiler-rt|sanitizer_common|sysdeps|libstdc\+\+-v3|nptl|csu|glibc[^/]*)/.*|"
    r".*/(?:include|Include)/c\+\+/.*|"
    # Go's own runtime, and what logs a panic on its way
    r".*/go[\w.-]{0,30}/src/(?:internal/)?runtime/[\w.-]{1,80}|"
    r".*/[\w.-]{1,60}/src/runtime/(?:panic|signal_unix|asm_\w{1,10}|proc)\.go|"
    r".*/apimachinery(?:@[^/]{1,80})?/pkg/util/runtime/runtime\.go|"
    r"(?:\./)?(?:libio|stdio-common|wcsmbs)/[\w.-]{1,80}\.[chS]"
)
"""Sources of the C library and of compilers' runtimes."""
_OWN_EXTENSIONS: Final = "/lib-dynload/"
_PYTHON_FILES: Final = _any_of(RUNTIME_PYTHON_FILES, re.DOTALL)
_MODULES: Final = _any_of(RUNTIME_MODULES)
_FUNCTIONS: Final = _any_of(RUNTIME_FUNCTIONS)
_RAISING: Final = _any_of(PREFIX_FUNCTIONS)
_ENDING: Final = _any_of(SENTINEL_FUNCTIONS)


@lru_cache(maxsize=4096)
def is_runtime_module(path: str) -> bool:
    """Is the file a runtime's, by its name, or one of Python's own extension modules?"""
    if _OWN_EXTENSIONS in path:
        return True
    return _MODULES.fullmatch(path.rsplit("/", 1)[-1]) is not None


def is_own(frame: Frame) -> bool:
    """Is this a call of the user's own code? A frame that nobody can place is not."""
    if frame.kind is FrameKind.PYTHON:
        return frame.file is not None and _PYTHON_FILES.fullmatch(frame.file) is None
    if frame.kind is FrameKind.SIGNAL or (frame.module is None and frame.function is None):
        return False
    if frame.module is not None and is_runtime_module(frame.module):
        return False
    return frame.function is None or not _is_runtime_function(frame.function)


@lru_cache(maxsize=4096)
def _is_runtime_function(name: str) -> bool:
    return _FUNCTIONS.fullmatch(name) is not None


def is_raising(frame: Frame) -> bool:
    """Does the function do nothing but report what its caller found?"""
    return frame.function is not None and _RAISING.fullmatch(frame.function) is not None


def is_ending(frame: Frame) -> bool:
    """Does a stack's tail begin here, which all bugs below it share?"""
    return frame.function is not None and _ENDING.fullmatch(frame.function) is not None
