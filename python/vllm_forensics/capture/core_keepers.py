"""What keepers of cores write beside them: systemd-coredump, apport (Ubuntu), abrt (Fedora).

systemd-coredump stores a few journal fields as extended attributes of the file (252: pid, uid, gid,
signal, timestamp, rlimit, hostname, comm, exe) and names it core.COMM.UID.BOOT.PID.TIME; apport
wraps the core in a text file of `Key: value` lines, as one gzip stream whose pieces are base64
lines; abrt makes a folder with one small file a fact.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vllm_forensics.errors import EvidenceError

Facts = tuple[tuple[str, str], ...]

_SYSTEMD_NAME: Final = re.compile(
    r"core\.(?P<comm>.+)\.(?P<uid>\d+)\.(?P<boot>[0-9a-f]{32})\.(?P<pid>\d+)\.(?P<usec>\d{10,20})"
    r"(?:\.(?:zst|lz4|xz))?$"
)
# /var/lib/apport/coredump/core._usr_bin_serve.1000.BOOT-ID.4242.TICKS: crashes that get no report.
_APPORT_NAME: Final = re.compile(
    r"core\.(?P<exe>_.+)\.(?P<uid>\d+)\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\."
    r"(?P<pid>\d+)\.\d+$"
)
# wsl-crash-1726372480-366-_home_me_serve-11.dmp: |/wsl-capture-crash %t %E %p %s of WSL 2.3.17 on.
_WSL_NAME: Final = re.compile(
    r"wsl-crash-(?P<seconds>\d{9,11})-(?P<pid>\d+)-(?P<exe>.+)-(?P<signal>\d+)\.dmp"
)
_ATTRIBUTES: Final = {
    "executable": "exe",
    "user": "uid",
    "host": "hostname",
    "pid": "pid",
}
_APPORT_FACTS: Final = {
    "ExecutablePath": "executable",
    "ProcCmdline": "command",
    "Date": "time",
    "Package": "package",
    "DistroRelease": "system",
    "Uname": "kernel",
}
_ABRT_FILES: Final = {
    "executable": "executable",
    "cmdline": "command",
    "uid": "user",
    "hostname": "host",
    "package": "package",
    "time": "time",
    "pid": "pid",
}
_APPORT_HEAD: Final = b"ProblemType:"
_MAX_FACT: Final = 4096
_MAX_LINE: Final = 64 << 20
_MAX_FIELDS: Final = 100_000


def named_facts(path: str) -> tuple[Facts, str | None]:
    """What a keeper's name for the file says, and which keeper it was; neither for others' names.

    In the names of apport and WSL a path's slashes are `_` (so `_` may be either) or `!`.
    """
    found = systemd_facts(path)
    if found:
        return found, "systemd-coredump"
    name = path.rsplit("/", 1)[-1]
    by_apport = _APPORT_NAME.fullmatch(name)
    if by_apport is not None:
        return (
            ("executable", by_apport["exe"]),
            ("user", by_apport["uid"]),
            ("pid", by_apport["pid"]),
        ), "apport"
    by_wsl = _WSL_NAME.fullmatch(name)
    if by_wsl is None:
        return (), None
    return (
        ("executable", by_wsl["exe"]),
        ("pid", by_wsl["pid"]),
        ("time", _time_of(float(by_wsl["seconds"]))),
        ("system", "WSL"),
    ), "wsl-capture-crash"


def systemd_facts(path: str) -> Facts:
    """What systemd-coredump noted of a file of its; nothing where the name is another's."""
    match = _SYSTEMD_NAME.fullmatch(path.rsplit("/", 1)[-1])
    if match is None:
        return ()
    facts = {
        "comm": match["comm"],
        "user": match["uid"],
        "pid": match["pid"],
        "time": _time_of(int(match["usec"]) / 1e6),
    }
    for name, attribute in _ATTRIBUTES.items():
        value = _attribute(path, f"user.coredump.{attribute}")
        if value:
            facts[name] = value
    return tuple(facts.items())


def abrt_facts(folder: Path) -> Facts:
    """What abrt noted in a problem's folder."""
    facts = {}
    for file, name in _ABRT_FILES.items():
        try:
            with (folder / file).open("rb") as stream:
                text = stream.read(_MAX_FACT).decode("utf-8", "backslashreplace").strip()
        except OSError:
            continue
        if text:
            facts[name] = _time_of(float(text)) if name == "time" and text.isdigit() else text
    return tuple(facts.items())


def is_apport(head: bytes) -> bool:
    """Is this how a crash report of apport begins?"""
    return head.startswith(_APPORT_HEAD)


class ApportReport:
    """An apport .crash file, read once from its start: facts first, then the core's bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """`pieces` are the file's bytes."""
        self._lines = _lines(pieces)
        self.facts: Facts = ()

    def core(self) -> Iterator[bytes]:
        """The core, still compressed; `facts` are complete when it ends.

        Raises:
            EvidenceError: the report holds no core, or its base64 is damaged.

        """
        found: dict[str, str] = {}
        inside = seen = False
        for _, line in zip(range(_MAX_FIELDS * 1000), self._lines, strict=False):
            if line.startswith(b" "):
                if inside:
                    yield _decoded(line)
                continue
            key, _, value = line.partition(b":")
            inside = key == b"CoreDump"
            seen = seen or inside
            name = _APPORT_FACTS.get(key.decode("ascii", "replace"))
            if name is not None:
                found[name] = value[:_MAX_FACT].decode("utf-8", "backslashreplace").strip()
                self.facts = tuple(found.items())
        if not seen:
            raise EvidenceError(
                "is a crash report of apport without a core in it",
                remedy="apport keeps none above a part of the memory; take the next crash with "
                "ulimit -c unlimited",
            )


def _decoded(line: bytes) -> bytes:
    try:
        return base64.b64decode(line.strip(), validate=True)
    except binascii.Error as error:
        raise EvidenceError(
            f"could not be read to its end: its base64 is damaged: {error}",
            remedy="copy the file once more",
        ) from error


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > _MAX_LINE:
            raise EvidenceError(
                "holds a line without end", remedy="this is no crash report of apport"
            )
    if rest:
        yield rest


def _attribute(path: str, name: str) -> str | None:
    try:
        return os.getxattr(path, name)[:_MAX_FACT].decode("utf-8", "backslashreplace")
    except OSError:
        return None


def _time_of(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return str(seconds)
