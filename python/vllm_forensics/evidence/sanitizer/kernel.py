"""The Linux kernel's sanitizers, as dmesg shows them.

mm/kasan/report.c, kernel/kcsan/report.c, mm/kmsan/report.c, mm/kfence/report.c, lib/ubsan.c:

    BUG: KASAN: slab-use-after-free in copy_block+0x2a/0x40 [cache]
    Write of size 1 at addr ffff888105a3c028 by task insmod/1234
    Call Trace:
     copy_block+0x2a/0x40 [cache]

A frame behind a question mark is one that the kernel's unwinder did not vouch for: left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.sanitizer import ubsan
from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import PrintedFrame, PrintedReport, Region, Relation, Role

NEEDLES: Final = (b"SAN: ", b"BUG: KFENCE: ")

_ADDRESS: Final = r"(?:0x)?[0-9a-f]{1,16}"
_HEADER: Final = re.compile(
    r"(?:BUG: (?P<tool>KASAN|KCSAN|KMSAN|KFENCE): (?P<kind>[a-z][a-z -]{1,60}?)"
    r"(?: in (?P<where>[\w.$]{1,200}).{0,300})?"
    r"|(?P<trap>KASAN): (?P<trap_kind>(?:maybe |probably )?[a-z][a-z-]{1,60}) in range "
    rf"\[(?P<address>{_ADDRESS})-{_ADDRESS}\]"
    r"|(?P<undefined>UBSAN): (?P<check>[A-Za-z][A-Za-z -]{1,60}) in "
    r"(?P<place>\S{1,400}:\d{1,9}\S{0,12})"
    r")\s*$"
)
_FRAME: Final = re.compile(
    r"(?P<function>[A-Za-z_.$][\w.$]*)(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?"
    r"(?: \[(?P<module>[\w-]+)(?: [0-9a-f]{40})?\])?"
    r"(?: \(?(?P<file>[^\s():]+):(?P<line>\d{1,9})\)?)?"
    r"(?: \((?:discriminator|inlined) [^)]*\))?(?: \[inline\])?(?: \[(?P<late>[\w-]+)\])?$"
)
_NO_FRAME: Final = re.compile(r"[^+(:]*$")
_CALL: Final = r"Call [Tt]race:"
_RELATIONS: Final = {
    "inside of": Relation.INSIDE,
    "to the left of": Relation.BEFORE,
    "to the right of": Relation.AFTER,
    "before": Relation.BEFORE,
    "after": Relation.AFTER,
}
_FENCE_ACCESS: Final = re.compile(r"-(read|write)$")
_RACE: Final = re.compile(
    rf"(?:race at unknown origin, with )?(?P<type>read|write|read-write)(?: \([^)]*\))? to "
    rf"(?P<address>{_ADDRESS}) of (?P<size>\d+) bytes by (?P<task>(?:task|interrupt).{{0,40}}?)"
    r"(?: on cpu \d+)?:$"
)
_MAX_FRAMES: Final = 500


class KernelReport(ReportBuilder):
    """One report; its frames are lines of their own, without a number."""

    __slots__ = ("_offset", "_relation", "_taken", "place")

    def __init__(self, runtime: Runtime, kind: str, line: int, text: str) -> None:
        """Begin with the header; the stack follows below `Call Trace:` or directly."""
        super().__init__(runtime, kind, line, text)
        self.place: str | None = None
        """The function that the header names: what is above it in the stack only reports."""
        self._offset: int | None = None
        self._relation: Relation | None = None
        self._taken = False

    def near(self, offset: int, relation: Relation) -> None:
        """How far from an object, whose bounds stand in the next line."""
        self._offset, self._relation = offset, relation

    def object_at(self, start: int, size: int) -> None:
        """The object that the address belongs to, or lies beside."""
        if self.region is None:
            self.region = Region(
                kind="heap",
                start=f"0x{start:x}",
                end=f"0x{start + size:x}",
                size=size,
                offset=self._offset,
                relation=self._relation,
            )

    @property
    def has_evidence(self) -> bool:
        """An address, a size or a stack confirms the header."""
        return super().has_evidence or self.address is not None or self._taken

    def build(self) -> PrintedReport:
        """The report, its own printer's frames left out of the access."""
        for stack in self._stacks:
            if stack.role is Role.USE and self.place is not None:
                names = [frame.function for frame in stack.frames]
                above = names.index(self.place) if self.place in names else 0
                stack.frames = [
                    replace(frame, index=at) for at, frame in enumerate(stack.frames[above:])
                ]
        return super().build()

    def _read(self, stripped: str) -> bool:
        if stripped.startswith("? "):
            return True
        race = _RACE.match(stripped)
        if race is not None:
            self._race(race, stripped)
            return True
        if self._rule(stripped):
            return True
        if _NO_FRAME.match(stripped):
            return False
        match = _FRAME.match(stripped)
        if match is None:
            return False
        stack = self._stack
        if stack is not None and len(stack.frames) < _MAX_FRAMES:
            self._taken = True
            stack.frames.append(
                PrintedFrame(
                    index=len(stack.frames),
                    function=match["function"],
                    file=match["file"],
                    line=int(match["line"]) if match["line"] else None,
                    module=match["module"] or match["late"],
                )
            )
        return True

    def _race(self, match: re.Match[str], words: str) -> None:
        """KCSAN: the first access named is the one that was being watched."""
        if self.access_type is None:
            _access(self, match)
            self._open(Role.USE, match["task"], words, None)
            return
        what = f"Previous {match['type']} of size {match['size']} at {match['address']}"
        self._open(Role.PREVIOUS_ACCESS, match["task"], what, None)


def open_report(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    """A report where the line is a header, and what stands before it."""
    match = _HEADER.search(text)
    if match is None:
        return None
    tool = match["tool"] or match["trap"] or match["undefined"]
    words = match["kind"] or match["trap_kind"] or match["check"]
    kind = "-".join(words.strip().lower().split())
    if tool == "UBSAN":
        kind = _CHECKS.get(kind, kind)
    elif tool == "KASAN":
        kind = kind.removeprefix("maybe-").removeprefix("probably-")
    wanted = _FENCE_ACCESS.search(kind) if tool == "KFENCE" else None
    if wanted is not None:
        kind = kind if kind.startswith("invalid-") else kind[: wanted.start()]
    report = KernelReport(_RUNTIMES[tool], kind, number, match[0].strip())
    report.message = match[0].strip()
    report.provisional = True
    report.place = match["where"]
    report.access_type = wanted[1].upper() if wanted is not None else None
    report.location = match["place"]
    if match["address"] is not None:
        report.address = _hex(match["address"])
    return report, text[: match.start()]


_CHECKS: Final = {
    "array-index-out-of-bounds": "bounds",
    "division-overflow": "integer-divide-by-zero",
    "shift-out-of-bounds": "shift-exponent",
    "invalid-load": "bool",
    "misaligned-access": "alignment",
    "null-ptr-deref": "null",
    "object-size-mismatch": "object-size",
    "alignment-assumption": "alignment",
    "negation-overflow": "signed-integer-overflow",
}
"""lib/ubsan.c names its handler; the -fsanitize= check is the name that all else here uses."""


def _hex(digits: str) -> str:
    return f"0x{digits.removeprefix('0x')}"


def _access(report: ReportBuilder, match: re.Match[str]) -> None:
    report.access_type = "WRITE" if match["type"].lower().endswith("write") else "READ"
    report.access_size = int(match["size"])
    _freed(report, match)


def _freed(report: ReportBuilder, match: re.Match[str]) -> None:
    report.address = _hex(match["address"])
    report.thread = _thread(match["task"])


def _thread(words: str) -> str:
    """`insmod/1234` is named `task 1234` further down."""
    name, slash, number = words.rpartition("/")
    return f"task {number}" if slash and name and number.isdigit() else words


def _at(report: ReportBuilder, match: re.Match[str]) -> None:
    report.address = report.address or _hex(match["address"])


def _near(report: ReportBuilder, match: re.Match[str]) -> None:
    if isinstance(report, KernelReport):
        report.near(int(match["offset"]), _RELATIONS[match["relation"]])


def _object(report: ReportBuilder, match: re.Match[str]) -> None:
    if isinstance(report, KernelReport):
        report.object_at(int(match["start"], 16), int(match["size"]))


def _hint(report: ReportBuilder, match: re.Match[str]) -> None:
    report.hints.append(match[0])


def _undefined(report: ReportBuilder, match: re.Match[str]) -> None:
    report.message = match[0]
    found = ubsan.check_of(match[0].replace(" is not a valid", ", which is not a valid"))
    report.kind = found or report.kind


def _origin(report: ReportBuilder, match: re.Match[str]) -> None:
    report.introduce(f"Uninitialized value was {match['how']}")


def _done(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    report.done = True


_TASK: Final = r"(?P<thread>(?:task )?[^ :]{1,80})(?: on cpu \d+)?(?: at [\d.]+s)?:"
_END: Final = (
    Fact(r"={20,}$|---\[ end (?:trace|Kernel)", _done),
    Fact(r"CPU: \d|Hardware name: |Workqueue: |Tainted: |</?(?:TASK|IRQ|NMI|SOFTIRQ|EOI)>$"),
    Fact(r"R[A-Z0-9]{2}: |Code: |Modules linked in:|CR\d: |FS: |DR\d: |PKRU: |Sanitized? "),
)
_ADDRESS_RULES: Final = (
    Fact(
        rf"(?P<type>Read|Write) of size (?P<size>\d+) at addr (?P<address>{_ADDRESS}) "
        r"by task (?P<task>\S{1,80})",
        _access,
    ),
    Fact(rf"Free of addr (?P<address>{_ADDRESS}) by task (?P<task>\S{{1,80}})", _freed),
    Section(_CALL, Role.USE),
    Section(rf"Allocated by {_TASK}", Role.ALLOCATE),
    Section(rf"Freed by {_TASK}", Role.FREE),
    Section(r"(?:Last|Second to last) (?:potentially related work creation|call_rcu)", None),
    Section(r"The buggy address belongs to|page last (?:allocated|free)|page_owner", None),
    Fact(
        r"The buggy address is located (?P<offset>\d+) bytes "
        r"(?P<relation>inside of|to the left of|to the right of|before|after)",
        _near,
    ),
    Fact(
        rf"(?:freed |allocated )?(?P<size>\d+)-byte region "
        rf"\[(?P<start>{_ADDRESS}), ?{_ADDRESS}\)",
        _object,
    ),
    Section(r"Memory state around the buggy address|which belongs to", None),
    Fact(r">?[0-9a-f]{8,16}:(?: [0-9a-f]{2})+|\^$"),
    *_END,
)
_RUNTIMES: Final = {
    "KASAN": Runtime(
        name="KernelAddressSanitizer",
        rules=_ADDRESS_RULES,
        first_role=None,
        ends_with_summary=False,
        patience=60,
    ),
    "KFENCE": Runtime(
        name="KFENCE",
        rules=(
            Section(
                rf"[A-Z][a-z -]{{2,40}} at (?P<address>{_ADDRESS})\b.{{0,80}}:$", Role.USE, _at
            ),
            Fact(
                rf"kfence-#\d+: (?P<start>{_ADDRESS})-{_ADDRESS}, size=(?P<size>\d+), cache=",
                _object,
            ),
            Section(rf"allocated by {_TASK}", Role.ALLOCATE),
            Section(rf"freed by {_TASK}", Role.FREE),
            *_END,
        ),
        first_role=None,
        ends_with_summary=False,
        patience=60,
    ),
    "KCSAN": Runtime(
        name="KernelConcurrencySanitizer",
        rules=(
            Fact(r"value changed: 0x[0-9a-f]+ -> 0x[0-9a-f]+", _hint),
            *_END,
        ),
        first_role=None,
        ends_with_summary=False,
        patience=60,
    ),
    "KMSAN": Runtime(
        name="KernelMemorySanitizer",
        rules=(
            Section(r"Uninit was (?P<how>created|stored to memory) at:", Role.ORIGIN, _origin),
            Section(r"Local variable .{1,200} (?P<how>created) at:", Role.ORIGIN, _origin),
            Fact(r"Bytes? .{1,60} (?:is|are) uninitialized", _hint),
            Fact(rf"Memory access of size \d+ starts at {_ADDRESS}", _hint),
            *_END,
        ),
        ends_with_summary=False,
        patience=60,
    ),
    "UBSAN": Runtime(
        name="KernelUndefinedBehaviorSanitizer",
        rules=(
            Section(_CALL, Role.USE),
            *_END,
            Fact(
                r"(?:index|shift exponent|left shift of|signed integer overflow|division|negation"
                r"|load|member|store|reference|addition|subtraction|pointer|assumption"
                r"|-?\d+ [-+*] -?\d+ cannot) .{1,300}|signed integer overflow:",
                _undefined,
            ),
        ),
        first_role=None,
        ends_with_summary=False,
        patience=60,
    ),
}
