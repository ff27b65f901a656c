"""What a crash's screen says in words: headlines, signals, names, places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vllm_forensics.model.cases import Seen
from vllm_forensics.model.finding import Access
from vllm_forensics.model.report import Crash, ThreadReport
from vllm_forensics.model.signals import code_name, signal_name
from vllm_forensics.model.stack import Frame, FrameKind
from vllm_forensics.render.moments import day
from vllm_forensics.render.short_names import short_name

_KEPT_FACTS: Final = ("time", "user", "unit", "container", "host", "package", "system")
GIL: Final = {"holds": "holds the GIL", "waits": "waits for the GIL"}


def is_new(crash: Crash) -> bool:
    """Does the store keep crashes, and none like this?"""
    return crash.seen is not None and crash.seen.count == 0


def seen(record: Seen) -> str:
    """How often the bug was seen, since when, and what was noted of it."""
    note = f" · {record.note}" if record.note else ""
    if not record.count or record.first_s is None or record.last_s is None:
        return f"new: never before on record{note}"
    last = "" if day(record.last_s) == day(record.first_s) else f", last {day(record.last_s)}"
    return f"{count(record.count, 'time')} since {day(record.first_s)}{last}{note}"


def kept(crash: Crash) -> str:
    """Who kept the core, and what is written beside it."""
    facts = dict(crash.kept_facts)
    parts = [f"{name} {facts[name]}" for name in _KEPT_FACTS if name in facts]
    return " · ".join([f"by {crash.keeper}", *parts])


def fetched(crash: Crash) -> Iterator[str]:
    """Which source lines came from a server."""
    frames = crash.threads[0].stack.frames if crash.threads else ()
    for module in crash.modules:
        if module.debug_from is None or not module.debug_from.startswith(("http:", "https:")):
            continue
        lines = [
            f"#{frame.index}" for frame in frames if frame.module == module.path and frame.file
        ]
        what = f"the lines of {', '.join(lines[:8])}" if lines else "names"
        more = " and more" if len(lines) > 8 else ""
        yield f"{what}{more} in {library(module.path)}, from {module.debug_from}"


def headline(crash: Crash) -> str:
    """The crash in a title: who did what to which address."""
    name = function(crash.culprit) if crash.culprit else (crash.program or "?").rsplit("/", 1)[-1]
    verbs = {Access.READ: "read", Access.WRITE: "wrote to", Access.EXECUTE: "jumped to"}
    address = crash.fault.address
    if crash.fault.access is not None and address is not None:
        return f"{name} {verbs[crash.fault.access]} address {address:#x}"
    return f"{crash.fault.kind.value.replace('-', ' ')} in {name}"


def what(crash: Crash) -> str:
    """The same for a row of an overview."""
    if crash.fault.access is not None and crash.fault.address is not None:
        words = {Access.READ: "read of", Access.WRITE: "write to", Access.EXECUTE: "jump to"}
        return f"{words[crash.fault.access]} {crash.fault.address:#x}"
    if crash.fault.message:
        text = crash.fault.message
        return f'"{text[:23]}…"' if len(text) > 24 else f'"{text}"'
    return signal_name(crash.signal.number)


def signal_text(crash: Crash) -> str:
    """The signal with its code, its address, and who sent it."""
    signal = crash.signal
    text = f"{signal_name(signal.number)} ({code_name(signal)})"
    if signal.address is not None:
        text += f", si_addr {signal.address:#x}"
    if signal.sender_pid is not None and signal.sender_pid != crash.pid:
        text += f", sent by process {signal.sender_pid}"
    if crash.delivered.number != signal.number:
        text += f"; the process ended with {signal_name(crash.delivered.number)}"
    return text


def others(threads: tuple[ThreadReport, ...]) -> str:
    """The other threads, by where most of them are."""
    at = [function(thread.stack.frames[0]) for thread in threads if thread.stack.frames]
    counts = sorted(((at.count(name), name) for name in dict.fromkeys(at)), reverse=True)
    where = ", ".join(f"{count} in {name}" for count, name in counts[:3])
    states = [
        f"{number} {GIL[gil]}"
        for gil in GIL
        if (number := sum(thread.gil == gil for thread in threads))
    ]
    return " · ".join([f"{count(len(threads), 'more thread')}: {where}", *states])


def function(frame: Frame | None) -> str:
    """A frame's function; module and offset where its name is not known or not trusted."""
    if frame is None:
        return "?"
    if frame.kind is FrameKind.SIGNAL:
        return "(signal handler called)"
    if frame.function is not None and frame.names_trusted:
        return short_name(frame.function)
    if frame.module is None:
        return f"{frame.pc:#x}"
    return f"{frame.module.rsplit('/', 1)[-1]}+{frame.module_offset or 0:#x}"


def place(frame: Frame) -> str:
    """A frame's source line, or the module where it has none."""
    if frame.file is not None and frame.line is not None:
        return f"{short(frame.file)}:{frame.line}"
    return f"in {frame.module.rsplit('/', 1)[-1]}" if frame.module and frame.function else ""


def short(path: str | None) -> str:
    """The last two parts of a path: enough to recognise a source file."""
    return "/".join((path or "?").rsplit("/", 2)[-2:])


def library(path: str | None) -> str:
    """A library's name without version and platform: `libc`, `libpython3.11`, `_ctypes`."""
    name = (path or "?").rsplit("/", 1)[-1]
    return name.split(".so")[0].split(".cpython-")[0]


def count(number: int, noun: str, plural: str = "s") -> str:
    """`1 core`, `2 cores`, `1,000 crashes`."""
    return f"{number:,} {noun}{'' if number == 1 else plural}"
