"""When it was, by whatever clock a log has: with a zone or without, with a year or without."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_DATED: Final = re.compile(
    rf"(?:(?P<month>\d\d)[-/](?P<day>\d\d)|(?P<name>{'|'.join(_MONTHS)}) (?P<day_of>[ \d]\d))"
    r"[T _](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
)
_UPTIME: Final = re.compile(r"\d{1,10}\.\d{1,9}")
_LEAP: Final = 2000


def moment(text: str | None) -> float | None:
    """Seconds since the epoch of a time with a zone; None where it is not said which moment."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo is not None else None


def naive_moment(text: str | None) -> float | None:
    """A dated time without a zone, as if it were UTC's."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    return found.replace(tzinfo=UTC).timestamp() if found.tzinfo is None else None


def clock_s(text: str | None) -> float | None:
    """Seconds since the year began, for whatever clock wrote a dated time."""
    match = _DATED.search(text) if text is not None else None
    if match is None:
        return None
    month = int(match["month"]) if match["month"] else 1 + _MONTHS.index(match["name"])
    try:
        day = datetime(_LEAP, month, int(match["day"] or match["day_of"]), tzinfo=UTC)
    except ValueError:
        return None
    hours, minutes, seconds = match["clock"].replace(",", ".").split(":")
    return _in_year(day) + 3_600.0 * int(hours) + 60.0 * int(minutes) + float(seconds)


def uptime_s(text: str | None) -> float | None:
    """Seconds since the machine was started, as the kernel's log has them: `8421.100000`."""
    return float(text) if text is not None and _UPTIME.fullmatch(text) is not None else None


def year_s(moment_s: float) -> float | None:
    """Of seconds since the epoch, those since its year began in UTC; None for what is no date."""
    try:
        return _in_year(datetime.fromtimestamp(moment_s, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def utc_text(moment_s: float) -> str | None:
    """Seconds since the epoch as a time; None for what is no date."""
    try:
        return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def span_text(seconds: float) -> str:
    """`4 hours`, `12 minutes`, `30 s`."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _in_year(at: datetime) -> float:
    """Every year is taken for a leap year: few clocks name theirs."""
    day = at.replace(year=_LEAP)
    return (day - datetime(_LEAP, 1, 1, tzinfo=UTC)).total_seconds()
