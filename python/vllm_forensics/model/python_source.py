"""How Python's frames name code and its files."""

from __future__ import annotations

import re
from typing import Final

TOP_LEVEL: Final = "<module>"
"""What Python calls a module's own code, as if it were a function."""
_PACKAGES: Final = re.compile(
    r".{0,1000}[/\\](?:(?:site|dist)-packages|lib(?:64)?[/\\]python[23](?:\.\d{1,2})?|Lib)[/\\]"
)


def in_package(path: str) -> str:
    """A file's path from its package on: `/v/lib/python3.12/site-packages/a/b.py` is `a/b.py`.

    Python's own modules are shortened alike.
    """
    return _PACKAGES.sub("", path)
