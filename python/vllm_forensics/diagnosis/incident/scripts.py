"""Which script a Python stack is of, as its outermost frame tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.incident import PythonCall
from vllm_forensics.model.python_source import TOP_LEVEL

_FILE: Final = re.compile(r"(?:.{0,400}[/\\])?(?P<name>[\w.+ -]{1,120})")
_COMMAND: Final = re.compile(r"(?:.{0,400}[/\\])?(?i:bin|scripts)[/\\][^/\\]{1,120}")
"""Where pip puts the commands that packages bring, a `bin` within a package's folders included."""
_LIBRARY: Final = re.compile(
    r"(?:.{0,400}[/\\])?(?:(?:site|dist)-packages|python[23]\.\d{1,2}|Lib|importlib)[/\\]"
)
_RUNNER: Final = re.compile(r"<frozen runpy>|(?:.{0,400}[/\\])?runpy\.py")
_MAIN: Final = "__main__.py"
_HOSTS: Final = tuple(
    (re.compile(rf"(?:.{{0,400}}[/\\])?{folder}[/\\].{{1,200}}"), name)
    for folder, name in (
        ("_pytest", "pytest"),
        (r"gunicorn[/\\]app", "gunicorn"),
        (r"celery[/\\]bin", "celery"),
        (r"ipykernel", "ipykernel"),
        (r"streamlit[/\\]web", "streamlit"),
    )
)
"""Packages whose code stands outside of what they run; that of others is called by anybody."""


def script_of(calls: Sequence[PythonCall]) -> str | None:
    """The file that the interpreter began with: that of the outermost frame, a module's own code.

    Behind `python -m` stands runpy, and the module that it ran. A library's module is named only
    so: where a stack's outer part is missing, it may have been imported. Then the frames of a few
    programs that run other code tell it.
    """
    return _started(calls) or next(
        (name for host, name in _HOSTS if any(host.fullmatch(call.file) for call in calls)), None
    )


def _started(calls: Sequence[PythonCall]) -> str | None:
    outer = list(reversed(calls))
    runner = [number for number, call in enumerate(outer) if _RUNNER.fullmatch(call.file)]
    behind = outer[runner[-1] + 1 :] if runner and runner[0] == 0 else outer
    top = next(iter(behind), None)
    if top is None or top.function != TOP_LEVEL:
        return None
    is_started = bool(runner) or _COMMAND.fullmatch(top.file) is not None
    if not is_started and _LIBRARY.match(top.file) is not None:
        return None
    return _named(top.file)


def _named(file: str) -> str | None:
    """The file's name; of a package's `__main__.py` the package's. `<stdin>` is no file."""
    folder, _, last = file.replace("\\", "/").rpartition("/")
    if last == _MAIN:
        last = folder.rpartition("/")[2].removesuffix(".zip")
    found = _FILE.fullmatch(last)
    return found["name"] if found is not None else None
