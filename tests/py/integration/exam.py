"""Compares one report of `forensics core --format json` with what the victim really did."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from tests.py.integration.victim_cases import (
    WITHOUT_LINES,
    Binaries,
    Flavour,
    MadeCore,
    VictimCase,
    run_tool,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One field of a report that is not what the victim did."""

    case: str
    field: str
    expected: str
    reported: str


def symbol_at(module: Path, offset: int) -> str:
    """The plain qualified name of the function at an offset of an unstripped module."""
    output = run_tool(("addr2line", "-f", "-C", "-e", str(module), hex(offset)))
    return plain_name(output.splitlines()[0])


def plain_name(demangled: str) -> str:
    """Drop arguments, qualifiers and clone suffixes from a demangled name."""
    unnamed, call = "(anonymous namespace)", "operator()"
    text = demangled.replace(unnamed, "\0").replace(call, "\1").partition("(")[0]
    return text.partition(" [clone")[0].replace("\0", unnamed).replace("\1", call)


def as_object(value: object) -> Json:
    """A JSON object, or an empty one in its place."""
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> list[Json]:
    """The objects of a JSON list."""
    return [as_object(item) for item in value] if isinstance(value, list) else []


def compare(case: VictimCase, binaries: Binaries, made: MadeCore, report: Json) -> list[Mismatch]:
    """Return every field of the report that contradicts the ground truth."""
    crashes = as_objects(report.get("crashes"))
    if len(crashes) != 1:
        failures = json.dumps(report.get("failures"))
        return [Mismatch(case=case.name, field="crashes", expected="1", reported=failures)]
    checks = (
        *_signal_checks(case, made, crashes[0]),
        *_fault_checks(case, made, as_object(crashes[0].get("fault"))),
        *_culprit_checks(case, binaries, crashes[0]),
    )
    return [
        Mismatch(case=case.name, field=field, expected=expected, reported=json.dumps(reported))
        for field, expected, reported, right in checks
        if not right
    ]


Check = tuple[str, str, object, bool]


def _signal_checks(case: VictimCase, made: MadeCore, crash: Json) -> Iterator[Check]:
    signal = as_object(crash.get("signal"))
    name, code, sender = signal.get("name"), signal.get("code"), signal.get("sender_pid")
    yield "pid", str(made.pid), crash.get("pid"), crash.get("pid") == made.pid
    yield "signal.name", "/".join(case.signals), name, name in case.signals
    yield "signal.code", "/".join(case.codes), code, not case.codes or code in case.codes
    if case.send is not None:
        yield "signal.sender_pid", str(made.sender_pid), sender, sender == made.sender_pid
    if case.reraised is not None:
        reraised = crash.get("reraised_by")
        expected = "a handler" if case.reraised else "null"
        yield "reraised_by", expected, reraised, (reraised is not None) == case.reraised
    if made.crashed_tid is not None:
        crashed = [thread for thread in as_objects(crash.get("threads")) if thread.get("crashed")]
        tid = crashed[0].get("id") if crashed else None
        yield "threads[].id", str(made.crashed_tid), tid, tid == made.crashed_tid


def _fault_checks(case: VictimCase, made: MadeCore, fault: Json) -> Iterator[Check]:
    kind, access, message = fault.get("kind"), fault.get("access"), fault.get("message")
    yield "fault.kind", "/".join(case.kinds), kind, kind in case.kinds
    yield "fault.access", str(case.access), access, access == case.access
    if made.address_low is not None and made.address_high is not None:
        address = fault.get("address")
        expected = f"{made.address_low:#x}..{made.address_high:#x}"
        if made.address_low == made.address_high:
            expected = f"{made.address_low:#x}"
        right = is_hex(address) and made.address_low <= int(address, 16) <= made.address_high
        yield "fault.address", expected, address, right
    if case.size_bytes is not None:
        size = fault.get("size")
        yield "fault.size", str(case.size_bytes), size, size == case.size_bytes
    right = all(isinstance(message, str) and part in message for part in case.message)
    yield "fault.message", " … ".join(case.message), message, right


def is_hex(text: object) -> TypeGuard[str]:
    """Whether this is a hex string of JSON."""
    return isinstance(text, str) and set(text) <= set("0123456789abcdefx") and text[:2] == "0x"


def _culprit_checks(case: VictimCase, binaries: Binaries, crash: Json) -> Iterator[Check]:
    culprit = as_object(crash.get("culprit"))
    accepted = case.culprits_in(binaries.flavour)
    best, module = accepted[0], str(culprit.get("module"))
    yield "culprit.module", best.module, culprit.get("module"), Path(module).name == best.module
    function, file, line = culprit.get("function"), culprit.get("file"), culprit.get("line")
    names = "/".join(place.function for place in accepted)
    stripped = binaries.flavour is Flavour.STRIPPED
    right = function in {place.function for place in accepted} or (stripped and function is None)
    yield "culprit.function", names, function, right
    if binaries.flavour in WITHOUT_LINES:
        place = json.dumps([file, line])
        yield "culprit.file, line", "null", place, file is None and line is None
        symbol = _symbol_of(culprit, binaries, crash)
        right = symbol in {place.function for place in accepted}
        yield "culprit.module_offset", names, symbol, right
    else:
        places = [(place.file, number) for place in accepted for number in sorted(place.lines)]
        expected = " or ".join(f"{name}:{number}" for name, number in places)
        right = (Path(str(file)).name, line) in places
        yield "culprit.file, line", expected, f"{file}:{line}", right


def _symbol_of(culprit: Json, binaries: Binaries, crash: Json) -> str | None:
    """The twin's name for the culprit's offset, which its frame in the crashed thread carries."""
    twin = binaries.twins / Path(str(culprit.get("module"))).name
    if not twin.is_file():
        return None
    keys = ("module", "function", "file", "line")
    for thread in as_objects(crash.get("threads")):
        before: object = "signal"
        for frame in as_objects(thread.get("frames")) if thread.get("crashed") else ():
            offset = frame.get("module_offset")
            if all(frame.get(key) == culprit.get(key) for key in keys):
                if culprit.get("module_offset") not in {None, offset} or not is_hex(offset):
                    before = frame.get("kind")
                    continue
                # A caller's pc is its return address, which may be the next function's first byte.
                return symbol_at(twin, int(offset, 16) - (0 if before == "signal" else 1))
            before = frame.get("kind")
    return None
