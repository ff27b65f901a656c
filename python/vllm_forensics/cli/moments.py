"""Points in time as people type them."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Final

from vllm_forensics.errors import UsageError

_AGO: Final = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str) -> float:
    """Seconds since the epoch: `90m`, `12h`, `7d` ago, or a local date with or without a time.

    Raises:
        UsageError: it is neither.

    """
    ago = _AGO.fullmatch(text.strip().lower())
    if ago is not None:
        return time.time() - int(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{text!r} is no point in time", remedy="90m, 12h, 7d, or a date such as 2026-11-29"
        ) from error
