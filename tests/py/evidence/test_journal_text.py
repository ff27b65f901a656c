"""Exported journals as logs: times, hosts, and lines that keep their numbers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.journal_text import as_log

EXPORT = b"""\
__REALTIME_TIMESTAMP=1768464765123456
_HOSTNAME=node1
SYSLOG_IDENTIFIER=kernel
MESSAGE=python[42]: segfault at 18 ip 01 sp 02 error 4 in a.so[1000+20]
PRIORITY=6

__REALTIME_TIMESTAMP=1768464766000000
_COMM=serve
_PID=42
MESSAGE
%bone
two
_HOSTNAME=node1

""" % (7).to_bytes(8, "little")


def log_of(data: bytes, size: int = 1 << 16) -> list[bytes]:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(as_log(data[:4096], pieces)).split(b"\n")


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_each_message_stands_where_it_stood_with_its_time_and_host(size: int) -> None:
    lines = log_of(EXPORT, size)

    assert lines[3].startswith(b"2026-01-15T08:12:45.123456+00:00 node1 kernel: python[42]: seg")
    assert lines[10:12] == [
        b"2026-01-15T08:12:46.000000+00:00 node1 serve[42]: one",
        b"2026-01-15T08:12:46.000000+00:00 node1 serve[42]: two",
    ]
    assert [number for number, line in enumerate(lines) if line] == [3, 10, 11]


def test_json_lines_are_read_alike_and_damaged_ones_kept() -> None:
    record = {
        "__CURSOR": "s=1",
        "__REALTIME_TIMESTAMP": "1768464765123456",
        "_HOSTNAME": "node1",
        "SYSLOG_IDENTIFIER": "serve",
        "MESSAGE": [102, 114, 101, 101, 40, 41, 0xFF],
    }

    lines = log_of(json.dumps(record).encode() + b"\n{damaged\n")

    assert lines[0] == b"2026-01-15T08:12:45.123456+00:00 node1 serve: free()\xff"
    assert lines[1] == b"{damaged"


def test_any_other_text_is_left_as_it_is() -> None:
    assert log_of(b"MESSAGE=x\n") == [b"MESSAGE=x", b""]


@given(st.binary(max_size=200), st.integers(1, 64))
def test_nothing_makes_it_fail_or_grow(data: bytes, size: int) -> None:
    lines = log_of(EXPORT + data, size)

    assert sum(map(len, lines)) < 40 * (len(EXPORT) + len(data))
