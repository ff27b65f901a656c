"""Runs programs under the supervisor, and reads what it left."""

import json
import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NT_PRSTATUS = 1
NT_PRPSINFO = 3
NT_SIGINFO = 0x53494749
PT_LOAD = 1
PT_NOTE = 4

Event = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minicore:
    """The parts of a core that tests look at."""

    path: Path
    notes: tuple[tuple[str, int, bytes], ...]
    loads: tuple[tuple[int, int, int], ...]  # address, size in the file, size in memory

    @property
    def signal(self) -> tuple[int, int, int]:
        """Number, code and address of the signal that is given as the reason."""
        [data] = [data for owner, kind, data in self.notes if kind == NT_SIGINFO]
        number, _, code = struct.unpack_from("<iii", data)
        (address,) = struct.unpack_from("<Q", data, 16)
        return number, code, address

    @property
    def threads(self) -> list[int]:
        """The threads' ids, the crashing one first."""
        return [
            struct.unpack_from("<i", data, 32)[0]
            for owner, kind, data in self.notes
            if kind == NT_PRSTATUS and owner == "CORE"
        ]

    @property
    def command(self) -> bytes:
        """The arguments, as NT_PRPSINFO has them."""
        [data] = [data for owner, kind, data in self.notes if (owner, kind) == ("CORE", 3)]
        return data[56:].rstrip(b"\0")

    @property
    def selection(self) -> dict[str, Any]:
        """The note of our own: what was kept and dropped."""
        [data] = [data for owner, _, data in self.notes if owner == "FORENSICS"]
        value = json.loads(data)
        assert isinstance(value, dict)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a supervised program ended, and what the supervisor left."""

    status: int
    stdout: str
    stderr: str
    events: tuple[Event, ...]
    cores: tuple[Minicore, ...]

    @property
    def core(self) -> Minicore:
        """The only core."""
        [core] = self.cores
        return core

    def named(self, name: str) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if event["event"] == name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    """The real executable, writing into a folder of its own."""

    executable: Path
    folder: Path
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()  # a program that starts it

    def command(self, *command: str | Path) -> tuple[str, ...]:
        """The whole command line."""
        given = (str(part) for part in command)
        paths = ("--output", str(self.cores), "--events", str(self.events))
        return (*self.before, str(self.executable), *paths, *self.options, "--", *given)

    @property
    def cores(self) -> Path:
        return self.folder / "cores"

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    def run(self, *command: str | Path, timeout_s: float = 60) -> Ended:
        """Run to the end; nothing may be left of it, whatever the program did."""
        done = subprocess.run(
            self.command(*command),
            capture_output=True,
            text=True,
            errors="surrogateescape",
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self.environment},
            cwd=self.folder,  # the kernel too may leave a core
            timeout=timeout_s,
            check=False,
        )
        return self.result(done.returncode, done.stdout, done.stderr)

    def result(self, status: int, stdout: str = "", stderr: str = "") -> Ended:
        """What it left, for a run that was started by other means."""
        lines = self.events.read_text().splitlines() if self.events.exists() else []
        return Ended(
            status=status,
            stdout=stdout,
            stderr=stderr,
            events=tuple(json.loads(line) for line in lines),
            cores=tuple(read_core(path) for path in sorted(self.cores.iterdir())),
        )


def read_core(path: Path) -> Minicore:
    """Read headers and notes by the book (elf(5)): what is wrong in them must not go unseen."""
    data = path.read_bytes()
    assert data[:7] == b"\x7fELF\x02\x01\x01"
    (kind,) = struct.unpack_from("<H", data, 16)
    assert kind == 4, "ET_CORE"
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    notes: list[tuple[str, int, bytes]] = []
    loads = []
    for index in range(count):
        kind, _, offset, address, _, in_file, in_memory, _ = struct.unpack_from(
            "<IIQQQQQQ", data, start + index * size
        )
        assert offset + in_file <= len(data)
        if kind == PT_NOTE:
            notes += _read_notes(data[offset : offset + in_file])
        elif kind == PT_LOAD:
            assert in_file <= in_memory
            loads.append((address, in_file, in_memory))
    assert loads == sorted(loads)
    return Minicore(path=path, notes=tuple(notes), loads=tuple(loads))


def _read_notes(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    at = 0
    while at < len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        name_at = at + 12
        start = name_at + (name_size + 3) // 4 * 4
        yield data[name_at : name_at + name_size - 1].decode(), kind, data[start : start + size]
        at = start + (size + 3) // 4 * 4
