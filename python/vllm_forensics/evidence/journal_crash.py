"""A record of systemd-coredump as a crash: who, where, when, its stack, what became of the core.

The stack stands in MESSAGE, as lines of `#0  0x00007f… name (libfoo.so + 0x1234)`, since version
244 with the offset; names are mangled, `n/a` where there is none (systemd-coredump(8)).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from vllm_forensics.evidence.journal_records import EMBEDDED, Fields
from vllm_forensics.model.journal import CoreState, JournalCrash, JournalFrame, JournalThread
from vllm_forensics.model.process import Architecture, Mapping
from vllm_forensics.model.signals import signal_number

_FACTS: Final = {
    "executable": ("COREDUMP_EXE",),
    "command": ("COREDUMP_CMDLINE",),
    "comm": ("COREDUMP_COMM",),
    "user": ("COREDUMP_UID",),
    "unit": ("COREDUMP_UNIT", "COREDUMP_USER_UNIT"),
    "slice": ("COREDUMP_SLICE",),
    "cgroup": ("COREDUMP_CGROUP",),
    "host": ("COREDUMP_HOSTNAME", "_HOSTNAME"),
    "package": ("COREDUMP_PACKAGE_NAME",),
    "package version": ("COREDUMP_PACKAGE_VERSION",),
    "pid": ("COREDUMP_PID",),
}
_MAX_FACT: Final = 4096
_MAX_THREADS: Final = 256
_MAX_FRAMES: Final = 256
_MAX_MAPPINGS: Final = 20_000
_THREAD: Final = re.compile(r"^ *Stack trace of thread (?P<tid>\d{1,20}):$")
_FRAME: Final = re.compile(
    r"^ *#\d{1,6} +0x(?P<pc>[0-9a-f]{1,16}) +(?P<name>\S.*?) \((?P<module>[^()]*?)"
    r"(?: \+ 0x(?P<offset>[0-9a-f]{1,16}))?\)$"
)
_BUILD: Final = re.compile(
    r"^ *(?:Found )?[Mm]odule (?P<module>\S+) with build-id:? (?P<build>[0-9a-f]{8,80})$"
)
_BINARY: Final = re.compile(r"^ *ELF object binary architecture: (?P<name>.+)$")
_MAPPING: Final = re.compile(
    r"(?P<start>[0-9a-f]{1,16})-(?P<end>[0-9a-f]{1,16}) (?P<rights>[-rwxsp]{4}) "
    r"(?P<offset>[0-9a-f]{1,16}) \S+ \d+ *(?P<path>.*)"
)
_ARCHITECTURES: Final = {
    "AMD x86-64": Architecture.X86_64,
    "Intel 80386": Architecture.I386,
    "AARCH64": Architecture.AARCH64,
    "AArch64": Architecture.AARCH64,
    "RISC-V": Architecture.RISCV64,
    "PowerPC64": Architecture.PPC64LE,
    "IBM S/390": Architecture.S390X,
}
"""By dwelf_elf_e_machine_string of libdw, which systemd asks."""
# docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope; before systemd drivers
# /docker/ID and /kubepods/…/ID: the runtime's 64 hexadecimal digits.
_CONTAINER: Final = re.compile(
    r"(?:(?<=/)(?P<runtime>[a-z][a-z-]*)[-/])?(?P<id>[0-9a-f]{64})(?:\.scope)?"
)
_POD: Final = re.compile(r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_RUNTIMES: Final = {"cri-containerd": "containerd", "crio": "cri-o", "libpod": "podman"}
_DELETED: Final = " (deleted)"


def journal_crash(fields: Fields) -> JournalCrash | None:
    """Read one record; None where it does not even say which process it was."""
    pid = _number(fields.get("COREDUMP_PID"))
    if pid is None:
        return None
    message = fields.get("MESSAGE", "") + "\n" + fields.get("COREDUMP_STACKTRACE", "")
    core = fields.get("COREDUMP_FILENAME")
    state = CoreState.FILE if core is not None else CoreState.NONE
    where: str | None = None
    if (value := fields.get("COREDUMP", "")).startswith(EMBEDDED):
        state, where = CoreState.JOURNAL, value.removeprefix(EMBEDDED) or None
    package = _package(fields.get("COREDUMP_PACKAGE_JSON", ""))
    seconds = _seconds(fields)
    return JournalCrash(
        pid=pid,
        signal=_signal(fields),
        seconds=seconds,
        state=state,
        core=core or None,
        member=f"core.{pid}{where}" if where is not None else None,
        truncated=fields.get("COREDUMP_TRUNCATED") == "1",
        core_limit=_number(fields.get("COREDUMP_RLIMIT")),
        architecture=_ARCHITECTURES.get(_binary(message) or package.get("", "")),
        facts=(*_facts(fields), *((("time", _written(seconds)),) if seconds is not None else ())),
        threads=tuple(_threads(message)),
        mappings=tuple(_mappings(fields.get("COREDUMP_PROC_MAPS", ""))),
        builds=tuple({**_builds(message), **{k: v for k, v in package.items() if k}}.items()),
    )


def _facts(fields: Fields) -> Iterator[tuple[str, str]]:
    for name, sources in _FACTS.items():
        value = next((fields[source] for source in sources if fields.get(source)), None)
        if value is not None:
            yield name, value[:_MAX_FACT]
    container = _container(fields)
    if container is not None:
        yield "container", container


def _container(fields: Fields) -> str | None:
    """`docker 0123456789ab`, by the control group; else by the command of what manages it."""
    groups = fields.get("COREDUMP_CGROUP", "") + "\n" + fields.get("COREDUMP_PROC_CGROUP", "")
    found = _CONTAINER.search(groups[: 1 << 16])
    pod = _POD.search(groups[: 1 << 16])
    if found is not None:
        runtime = found["runtime"] or ("kubernetes" if pod else "")
        named = f"{_RUNTIMES.get(runtime, runtime)} {found['id'][:12]}".strip()
        return f"{named}, pod {pod['uid'].replace('_', '-')}" if pod else named
    manager = fields.get("COREDUMP_CONTAINER_CMDLINE")
    return f"started by {manager[:_MAX_FACT]}" if manager else None


def _signal(fields: Fields) -> int | None:
    number = _number(fields.get("COREDUMP_SIGNAL"))
    return number if number is not None else signal_number(fields.get("COREDUMP_SIGNAL_NAME", ""))


def _seconds(fields: Fields) -> float | None:
    for name in ("COREDUMP_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP"):
        number = _number(fields.get(name))
        if number is not None:
            return number / 1e6
    return None


def _threads(message: str) -> Iterator[JournalThread]:
    tid: int | None = None
    frames: list[JournalFrame] = []
    count = 0
    for line in message.splitlines():
        thread = _THREAD.match(line)
        if thread is not None:
            if tid is not None:
                yield JournalThread(tid=tid, frames=tuple(frames))
            tid, frames, count = int(thread["tid"]), [], count + 1
            if count > _MAX_THREADS:
                return
        elif tid is not None and len(frames) < _MAX_FRAMES and (found := _FRAME.match(line)):
            frames.append(
                JournalFrame(
                    pc=int(found["pc"], 16),
                    function=None if found["name"] == "n/a" else found["name"],
                    module=None if found["module"] in {"", "n/a"} else found["module"],
                    offset=int(found["offset"], 16) if found["offset"] else None,
                )
            )
    if tid is not None:
        yield JournalThread(tid=tid, frames=tuple(frames))


def _builds(message: str) -> dict[str, str]:
    return {
        found["module"]: found["build"]
        for line in message.splitlines()
        if (found := _BUILD.match(line)) is not None
    }


def _package(text: str) -> dict[str, str]:
    """Build-ids by module; under the empty name, what the machine is called."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    builds = {
        str(name): value["buildId"]
        for name, value in found.items()
        if name and isinstance(value, dict) and isinstance(value.get("buildId"), str)
    }
    return builds | {"": str(found.get("elfArchitecture", ""))}


def _binary(message: str) -> str | None:
    for line in message.splitlines():
        if (found := _BINARY.match(line)) is not None:
            return found["name"].strip()
    return None


def _mappings(text: str) -> Iterator[Mapping]:
    for _, line in zip(range(_MAX_MAPPINGS), text.splitlines(), strict=False):
        found = _MAPPING.fullmatch(line)
        if found is None:
            continue
        path = found["path"]
        yield Mapping(
            start=int(found["start"], 16),
            end=int(found["end"], 16),
            readable=found["rights"][0] == "r",
            writable=found["rights"][1] == "w",
            executable=found["rights"][2] == "x",
            path=path.removesuffix(_DELETED) or None,
            file_offset=int(found["offset"], 16),
            deleted=path.endswith(_DELETED),
        )


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= 20
    return int(text) if text is not None and is_number else None


def _written(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return str(seconds)
