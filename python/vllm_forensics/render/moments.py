"""Points in time as they are shown, always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def utc(seconds: float) -> str: ...
@overload
def utc(seconds: None) -> None: ...
@overload
def utc(seconds: float | None) -> str | None: ...
def utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as 2026-11-29T08:00:00Z."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def day(seconds: float) -> str:
    """Seconds since the epoch as 2026-11-29."""
    return utc(seconds)[:10]
