"""Valgrind's errors, as text: coregrind/m_errormgr.c, memcheck/mc_errors.c, helgrind, drd.

    ==123== Invalid read of size 8
    ==123==    at 0x1091C5: use (cache.c:5)
    ==123==  Address 0x4a40048 is 8 bytes inside a block of size 40 free'd
    ==123==    at 0x484417B: free (in /usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so)

Words and the stack below them, again and again. The XML output says the same in the same words, so
`valgrind_xml` hands them to the same builder.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import Leak, PrintedFrame, PrintedReport, Region, Relation, Role

NAME: Final = "Valgrind"
NEEDLE: Final = b"==    at 0x"
"""Below every header; no text that all the headers have in common is as rare."""
_HEX: Final = r"0x[0-9a-fA-F]{1,16}"
_MAX_FRAMES: Final = 1_000
_KINDS: Final = (
    (r"Invalid (?P<access>read|write) of size (?P<size>[\d,]+)", "invalid-{access}"),
    (r"Jump to the invalid address", "invalid-jump"),
    (
        r"Conditional jump or move depends on uninitialised value|Use of uninitialised value"
        r"|Syscall param .{1,200} (?:contains|points to) uninitialised byte"
        r"|Uninitialised byte\(s\) found during",
        "use-of-uninitialized-value",
    ),
    (
        r"Syscall param .{1,200} points to unaddressable byte|.{1,80} contains unaddressable byte"
        r"|Unaddressable byte\(s\) found during",
        "invalid-parameter",
    ),
    (r"Invalid free\(\)", "bad-free"),
    (r"Mismatched new/delete (?:size|alignment)", "new-delete-type-mismatch"),
    (r"Mismatched ", "alloc-dealloc-mismatch"),
    (r"Source and destination overlap in (?P<name>\w{1,80})", "{name}-param-overlap"),
    (r"Illegal memory pool address", "bad-memory-pool"),
    (r"Argument '.{1,80}' of function .{1,200} has a fishy", "negative-size-param"),
    (r"realloc\(\) with size 0", "realloc-size-zero"),
    (r"(?:Unsafe|Invalid) (?:allocation with )?(?:size of zero|zero size)", "allocation-size-zero"),
    (r"Invalid size value: \d+ alignment|Invalid alignment value", "invalid-allocation-alignment"),
    (r"(?:.{1,80} invalid|Invalid) size value", "invalid-allocation-size"),
    (
        r"(?P<bytes>[\d,]+) (?:\((?P<direct>[\d,]+) direct, [\d,]+ indirect\) )?bytes in "
        r"(?P<blocks>[\d,]+) blocks are (?P<how>definitely lost|indirectly lost|possibly lost"
        r"|still reachable) in (?:new )?loss record",
        "memory-leak",
    ),
    (
        r"Process terminating with default action of signal (?P<number>\d+)"
        r"(?: \((?P<signal>\w+)\))?",
        "{signal}",
    ),
    # helgrind
    (
        rf"Possible data race during (?P<access>read|write) of size (?P<size>\d+) at "
        rf"(?P<address>{_HEX}) by thread (?P<thread>#\d+)",
        "data-race",
    ),
    (r"Thread (?P<thread>#\d+): lock order \".{1,80}\" violated", "lock-order-inversion"),
    (
        r"Thread (?P<thread>#\d+) unlocked a not-locked lock",
        "unlock-of-an-unlocked-mutex",
    ),
    (
        r"Thread (?P<thread>#\d+) unlocked lock at .{1,40} currently held by",
        "unlock-of-a-foreign-mutex",
    ),
    (r"Thread (?P<thread>#\d+) unlocked an invalid lock", "unlock-of-an-invalid-mutex"),
    (r"Thread (?P<thread>#\d+): Attempt to re-lock a non-recursive lock", "double-lock-of-a-mutex"),
    (
        r"Thread (?P<thread>#\d+)(?:: |'s )Exiting thread still holds|"
        r"Thread (?P<holder>#\d+): Exiting thread still holds",
        "exit-with-a-locked-mutex",
    ),
    (r"Thread (?P<thread>#\d+)'s call to .{1,200} failed", "thread-api-error"),
    (r"Thread (?P<thread>#\d+): \S", "thread-api-misuse"),
    # drd
    (
        r"Conflicting (?P<access>load|store) by thread (?P<number>\d+)(?:/\d+)? at "
        rf"(?P<address>{_HEX}) size (?P<size>\d+)",
        "data-race",
    ),
    (r"Mutex not locked(?: by calling thread)?: ", "unlock-of-an-unlocked-mutex"),
    (r"The object at address .{1,40} is not a mutex|Not a mutex", "unlock-of-an-invalid-mutex"),
    (r"Recursive locking not allowed: ", "double-lock-of-a-mutex"),
    (r"Destroying locked mutex: ", "destroy-of-a-locked-mutex"),
    (r"Mutex reinitialization: |Probably a race condition: condition", "thread-api-misuse"),
    (
        r"(?:Attempt to|Destr[ou]\w+|Invalid|Not a|Barrier|Semaphore|Condition variable"
        r"|Reader-writer lock|The impossible happened: mutex|Mixing|Acquired at:)[^:]{0,120}: "
        r"(?:mutex|cond|barrier|semaphore|rwlock|spinlock) 0x",
        "thread-api-misuse",
    ),
    (r"The following (?:mutex|lock) was held too long|Acquired at:$", "lock-held-too-long"),
)  # fmt: skip
_HEADERS: Final = tuple((re.compile(pattern), name) for pattern, name in _KINDS)
_LINE: Final = re.compile(r"==(?:[\d:.]{1,24} )?(?P<pid>\d{1,10})== (?=[A-Z0-9a-z])")
_FRAME: Final = re.compile(rf"(?:at|by) ({_HEX}): (.*)")
_PLACE: Final = re.compile(r" \((?:in (?P<module>[^()]*(?:\([^()]*\)[^()]*)*)|"
                           r"(?P<file>[^()]+):(?P<line>\d{1,9}))\)$")  # fmt: skip
_WRITES: Final = {"read": "READ", "load": "READ", "write": "WRITE", "store": "WRITE"}
_RELATIONS: Final = {
    "inside": Relation.INSIDE,
    "before": Relation.BEFORE,
    "after": Relation.AFTER,
}


def header_of(text: str) -> tuple[int | None, str, str] | None:
    """The process, the header's words and what stands before them; None where this is no error."""
    line = _LINE.search(text)
    if line is None:
        return None
    words = text[line.end() :]
    if not is_header(words):
        return None
    return int(line["pid"]), words.rstrip(), text[: line.end()]


def is_header(words: str) -> bool:
    """Do these words begin an error?"""
    return any(pattern.match(words) for pattern, _ in _HEADERS)


def parse_text_frame(text: str, index: int) -> PrintedFrame | None:
    """`at 0x1091C5: use (cache.c:5)`, `by 0x10: f (in /lib/x.so)`, `by 0x10: ???`."""
    match = _FRAME.match(text)
    if match is None:
        return None
    name = match[2]
    place = _PLACE.search(name)
    if place is not None:
        name = name[: place.start()]
    return PrintedFrame(
        index=index,
        pc=match[1],
        function=name if name not in {"", "???"} else None,
        file=place["file"] if place is not None else None,
        line=int(place["line"]) if place is not None and place["line"] else None,
        module=place["module"] if place is not None else None,
    )


class ValgrindReport(ReportBuilder):
    """One error: `feed` reads the text output; `tell` and `add_frame` take the XML's elements."""

    __slots__ = ("freed",)

    def __init__(self, words: str, line: int, pid: int | None = None) -> None:
        """Begin with the words of the header."""
        super().__init__(RUNTIME, None, line, words)
        self.freed = False
        self.pid = pid
        self.message = words
        match, name = next(
            (found, name) for pattern, name in _HEADERS if (found := pattern.match(words))
        )
        groups = match.groupdict()
        self.thread = groups.get("thread") or groups.get("holder")
        if "size" in groups:
            self.access_size = _number(groups["size"])
        if "access" in groups:
            self.access_type = _WRITES[groups["access"]]
        self.address = groups.get("address")
        if "signal" in groups:
            groups["signal"] = (groups["signal"] or f"signal {groups['number']}").lower()
            groups["signal"] = groups["signal"].removeprefix("sig").replace(" ", "-")
        elif groups.get("number") is not None:
            self.thread = f"#{groups['number']}"
        self.kind = name.format(**groups)
        if "how" in groups:
            self._read_leak(groups)
        self._open(Role.LEAK if "how" in groups else Role.USE, self.thread, None, None)

    def tell(self, words: str) -> bool:
        """Take words that stand alone or above a stack; False where they mean nothing."""
        words = words.strip()
        used = self._rule(words)
        stack = self._stack
        if used and stack is not None and stack.role is Role.LOCK_ACQUIRE:
            later = words.startswith("followed by")
            if later and not any(s.role is Role.USE and s.frames for s in self._stacks):
                stack.role = Role.USE  # the acquisition that broke the order
        return used

    def add_frame(self, frame: PrintedFrame) -> None:
        """One frame more of the stack that the last words introduced."""
        stack = self._stack
        if stack is None:
            return
        if stack.frames and frame.index == 0:  # a stack without words: not ours to name
            self._stack = None
        elif len(stack.frames) < _MAX_FRAMES:
            stack.frames.append(frame)

    def add_stack(self, role: Role, thread: str, frames: tuple[PrintedFrame, ...]) -> None:
        """A stack that stands elsewhere, of a thread that the error names."""
        self._open(role, thread, f"Thread {thread} was created", None)
        for frame in frames:
            self.add_frame(frame)

    def name_thread(self, thread: str | None) -> None:
        """The thread that ran into the error, where its words did not say."""
        self.thread = thread

    def build(self) -> PrintedReport:
        """The error; where the address lies says what an invalid access is."""
        if self.region is not None and self.region.kind == "heap":
            if self.kind in {"invalid-read", "invalid-write", "invalid-jump", "invalid-parameter"}:
                if self.freed:
                    self.kind = "heap-use-after-free"
                elif self.region.relation in {Relation.BEFORE, Relation.AFTER}:
                    self.kind = "heap-buffer-overflow"
            elif self.kind == "bad-free" and self.freed:
                self.kind = "double-free"
        return super().build()

    def _read(self, stripped: str) -> bool:
        if stripped.startswith(("at 0x", "by 0x")):
            index = len(self._stack.frames) if self._stack is not None else 0
            frame = parse_text_frame(stripped, 0 if stripped[0] == "a" else index)
            if frame is not None:
                self.add_frame(frame)
            return frame is not None
        return self.tell(stripped)

    def _read_leak(self, groups: dict[str, str | None]) -> None:
        size = groups["direct"] or groups["bytes"]
        self.leaks.append(
            Leak(
                direct=groups["how"] != "indirectly lost",
                size=_number(size),
                objects=_number(groups["blocks"]),
            )
        )
        self.hints.append(str(groups["how"]))


def _number(digits: str | None) -> int:
    return int((digits or "0").replace(",", "")[:18] or "0")


def _block(report: ReportBuilder, match: re.Match[str]) -> None:
    report.address = report.address or match["address"]
    size = _number(match["size"])
    offset = _number(match["offset"])
    relation = _RELATIONS[match["relation"]]
    if isinstance(report, ValgrindReport):
        report.freed = match["state"] == "free'd"
    at = int(match["address"], 16)
    start = {
        Relation.INSIDE: at - offset,
        Relation.BEFORE: at + offset,
        Relation.AFTER: at - offset - size,
    }[relation]
    report.region = Region(
        kind="heap",
        start=f"0x{start:x}" if start >= 0 else None,
        end=f"0x{start + size:x}" if start >= 0 else None,
        size=size,
        offset=offset,
        relation=relation,
    )


def _variable(report: ReportBuilder, match: re.Match[str]) -> None:
    report.address = report.address or match["address"]
    report.region = Region(
        kind="stack" if match["local"] else "global",
        offset=_number(match["offset"]),
        relation=Relation.INSIDE,
        name=match["name"] or match["local"],
    )


def _on_stack(report: ReportBuilder, match: re.Match[str]) -> None:
    report.address = report.address or match["address"]
    report.region = report.region or Region(kind="stack")


def _address(report: ReportBuilder, match: re.Match[str]) -> None:
    report.address = report.address or match["address"]


def _declared(report: ReportBuilder, match: re.Match[str]) -> None:
    region = report.region
    if region is not None and region.name is not None:
        report.region = Region(
            kind=region.kind,
            offset=region.offset,
            relation=region.relation,
            name=region.name,
            place=match["place"],
        )


def _previous(report: ReportBuilder, match: re.Match[str]) -> None:
    report.introduce(f"{match['previous'].capitalize()} at {report.address}")


def _origin(report: ReportBuilder, match: re.Match[str]) -> None:
    report.introduce(match[0].replace("Uninitialised", "Uninitialized"))


def _lock(report: ReportBuilder, match: re.Match[str]) -> None:
    report.locks.append(match[0].rstrip(":"))


def _drd_block(report: ReportBuilder, match: re.Match[str]) -> None:
    report.region = Region(
        kind="heap",
        start=match["start"],
        offset=_number(match["offset"]),
        relation=Relation.INSIDE,
    )


def _done(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    report.done = True


_ADDRESS: Final = rf"Address (?P<address>{_HEX}) is "
_IN_BLOCK: Final = (
    rf"{_ADDRESS}(?P<offset>[\d,]+) bytes (?P<relation>inside|before|after) an? "
    r"(?:recently re-allocated |unallocated )?block of size (?P<size>[\d,]+) "
)
RUNTIME: Final = Runtime(
    name=NAME,
    rules=(
        Section(_IN_BLOCK + r"(?P<state>free'd)", Role.FREE, _block),
        Section(_IN_BLOCK + r"(?P<state>alloc'd|client-defined)", Role.ALLOCATE, _block),
        Fact(_IN_BLOCK + r"(?P<state>in arena)", _block),
        Fact(r"Block was alloc'd by thread"),
        Section(r"Block was alloc'd at", Role.ALLOCATE),
        Section(r"Uninitialised value was created.{0,80}", Role.ORIGIN, _origin),
        Fact(
            rf"(?:Address|Location) (?P<address>{_HEX}) is (?P<offset>[\d,]+) bytes inside "
            r"(?:(?:data symbol|global var) \"(?P<name>[^\"]+)\"|local var \"(?P<local>[^\"]+)\")",
            _variable,
        ),
        Fact(rf"{_ADDRESS}on thread (?:#?\d+)'s stack", _on_stack),
        Fact(r"declared (?:at|in frame .*,) (?P<place>.*)", _declared),
        Fact(r"(?:in frame #\d+, created by|\d+ bytes below stack pointer)"),
        # drd, before the general form below
        Section(
            rf"Address {_HEX} is at offset (?P<offset>\d+) from (?P<start>{_HEX})\.",
            Role.ALLOCATE,
            _drd_block,
        ),
        Fact(_ADDRESS, _address),
        Fact(
            rf"(?:Access not within mapped region|Bad permissions for mapped region"
            rf"|Non-existent physical address|Stack overflow).* at address (?P<address>{_HEX})",
            _address,
        ),
        Section(
            r"This conflicts with a (?P<previous>previous (?:read|write) of size \d+) "
            r"by thread (?P<thread>#\d+)",
            Role.PREVIOUS_ACCESS,
            _previous,
        ),
        Fact(r"Locks? held: "),
        Section(rf"Observed \(incorrect\) order is: acquisition of lock at {_HEX}",
                Role.LOCK_ACQUIRE, _lock),
        Section(rf"Required order was established by acquisition of lock at {_HEX}",
                Role.LOCK_ACQUIRE, _lock),
        Section(rf"followed by a later acquisition of lock at {_HEX}", Role.LOCK_ACQUIRE, _lock),
        Section(rf"(?:Lock at|mutex|cond|rwlock|barrier|semaphore) {_HEX} was first observed",
                None, _lock),
        Section(r"Thread (?P<thread>#\d+) was created", Role.THREAD_CREATE),
        Section(r"Other segment (?:start|end) \(thread \d+", None),
        Section(r"Allocation context: ", None),
        Fact(r"\(thread finished, call stack no longer available\)"),
        Fact(r"If you believe this happened as a result|overflow in your program's main thread"
             r"|possible\), you can try to increase|main thread stack using the"
             r"|The main thread stack size used"),
        Fact(r"(?:HEAP SUMMARY|LEAK SUMMARY|ERROR SUMMARY|For lists of detected|-{3,}"
             r"|All heap blocks were freed|Use --|Rerun with|For counts of)", _done),
    ),
    first_role=None,
    ends_with_summary=False,
    patience=20,
)  # fmt: skip
