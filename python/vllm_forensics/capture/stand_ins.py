"""Stands a launcher in for the Pythons that a script or a program starts by their bare names."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vllm_forensics.capture.interpreters import python_command

_MAX_SCRIPTS: Final = 1000


@contextlib.contextmanager
def stand_ins(launcher: str) -> Iterator[str]:
    """A folder for the front of PATH, until the end: python, and the scripts of its environment.

    Small shell scripts, no links: a Python finds its environment by the path that it is started by.
    """
    programs = Path(launcher).parent
    with tempfile.TemporaryDirectory(prefix="forensics-path-") as folder:
        for path in sorted(programs.iterdir())[:_MAX_SCRIPTS]:
            found = python_command([str(path)])
            if found is None or path.name.startswith("python-"):
                continue
            words = [launcher] if found.script is None else [launcher, *found.arguments]
            stand_in = Path(folder) / path.name
            stand_in.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
            stand_in.chmod(0o755)
        yield folder
