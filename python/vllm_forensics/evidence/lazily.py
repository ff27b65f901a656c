"""Regular expressions that are compiled when they are first used: most never are for most texts."""

from __future__ import annotations

import re
from typing import cast


def lazily(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Stands for `re.compile(pattern, flags)`, and costs a start of the program nothing."""
    return cast("re.Pattern[str]", _Lazily(pattern, flags))


class _Lazily:
    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Asked once for each name: from then on it is an attribute of this object's own."""
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value
