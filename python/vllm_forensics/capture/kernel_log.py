"""The kernel's own log, where this user may read it: whom the out-of-memory killer ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

_DEVICE: Final = "/dev/kmsg"
_RECORD: Final = 8192
_MOST_RECORDS: Final = 100_000
_KILLED: Final = re.compile(rb"[Kk]illed process (\d+)")


def out_of_memory_kills(since_s: float, device: str = _DEVICE) -> frozenset[int] | None:
    """Process ids that the kernel killed for want of memory; None where its log cannot be read.

    `since_s` is on the monotonic clock, as the log's own stamps are (dev-kmsg in the kernel's
    documentation): "priority,sequence,microseconds,flags;text".
    """
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return killed_since(since_s, _records(descriptor))
    finally:
        os.close(descriptor)


def killed_since(since_s: float, records: Iterable[bytes]) -> frozenset[int]:
    """The process ids in those records that are not older than `since_s`."""
    found = set()
    for record in records:
        head, _, text = record.partition(b";")
        fields = head.split(b",")
        if len(fields) < 3 or not fields[2].isdigit() or int(fields[2]) / 1e6 < since_s:
            continue
        if match := _KILLED.search(text):
            found.add(int(match.group(1)))
    return frozenset(found)


def _records(descriptor: int) -> Iterator[bytes]:
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(descriptor, _RECORD)
        except BlockingIOError:
            return
        except OSError:  # a record was overwritten while we read: go on behind it
            continue
        if not record:
            return
        yield record
