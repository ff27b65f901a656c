"""A command as Python prints it, a list of its arguments: which program it starts."""

from __future__ import annotations

from typing import Final

STARTED: Final = (
    r"[\[(][\"'](?:[^\"']{0,200}/)?"
    r"(?:python[\d.]{0,5}[\"'](?:, [\"']-{1,2}[\w=-]{1,40}[\"']){0,6}, "
    r"[\"'](?:[^\"']{0,200}/)?)?(?P<name>(?!-)[\w.+-]{1,60})[\"']"
)
"""`['/usr/bin/python3', '-u', 'serve.py', …]`: the script, not the interpreter."""
