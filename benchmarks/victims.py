"""Sit the exam: crash every victim in every flavour, triage its core, compare with the truth.

    python benchmarks/victims.py [--flavour debug-O2] [--case null_read] [--keep DIR]

Prints each wrong field and, per flavour, how many crashes were wholly right. Exit status 0 when all
were, 1 when some were not, 2 when the exam itself could not be held.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "py" / "integration"))

from victim_cases import (  # noqa: E402 - the cases live beside the tests
    CASES,
    WITHOUT_LINES,
    Binaries,
    Flavour,
    MadeCore,
    VictimCase,
    build_victims,
    make_core,
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


def examine(
    case: VictimCase, *, binaries: Binaries, folder: Path, command: list[str], keep: bool
) -> list[Mismatch]:
    """Crash one victim, have it triaged, and compare."""
    try:
        made = make_core(case, binaries, folder)
        report = triage(command, made.core)
    except (RuntimeError, TimeoutError, subprocess.TimeoutExpired, ValueError) as error:
        return [Mismatch(case=case.name, field="exam", expected="a report", reported=str(error))]
    if keep:
        folder.joinpath("report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
        folder.joinpath("truth.txt").write_text(f"{case}\n{made}\n", encoding="utf-8")
    else:
        shutil.rmtree(folder)
    return compare(case, binaries, made, report)


def triage(command: list[str], core: Path, *, timeout_s: float = 120) -> Json:
    """Run `forensics core --format json` on one core; ValueError if it printed no JSON object."""
    arguments = [*command, "core", "--format", "json", str(core)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=timeout_s, check=False)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise ValueError(f"status {done.returncode}: {done.stderr[-300:]}") from error
    if not isinstance(report, dict):
        raise ValueError("the report is no JSON object")
    return report


def say(text: str) -> None:
    """Print one line now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flavours = [str(flavour) for flavour in Flavour]
    parser.add_argument("--flavour", action="append", choices=flavours, help="default: all")
    parser.add_argument("--case", action="append", metavar="NAME", help="default: all")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep cores and reports here")
    parser.add_argument("--build", type=Path, metavar="DIR", help="keep the binaries here")
    parser.add_argument("--forensics", default="forensics", metavar="CMD", help="how to start it")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def main() -> int:
    """Hold the exam."""
    arguments = parse_arguments()
    cases = [case for case in CASES if not arguments.case or case.name in arguments.case]
    unknown = set(arguments.case or ()) - {case.name for case in cases}
    if unknown:
        sys.stderr.write(f"no such case: {', '.join(sorted(unknown))}\n")
        return 2
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="victims-") as name:
        for flavour in map(Flavour, arguments.flavour or list(Flavour)):
            folder = (arguments.keep or Path(name)).resolve() / flavour
            if folder.exists():
                sys.stderr.write(f"{folder} exists: give --keep a new folder\n")
                return 2
            wrong += hold(arguments, flavour, cases, folder)
    return 1 if wrong else 0


def hold(
    arguments: argparse.Namespace, flavour: Flavour, cases: list[VictimCase], folder: Path
) -> int:
    """Examine one flavour, print what is wrong, and return how many crashes were."""
    build = arguments.build or REPOSITORY / "build" / "victims"
    binaries = build_victims(build, flavour, compiler=arguments.compiler)
    command, keep = shlex.split(arguments.forensics), arguments.keep is not None

    def examine_one(case: VictimCase) -> list[Mismatch]:
        return examine(
            case, binaries=binaries, folder=folder / case.name, command=command, keep=keep
        )

    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        results = list(pool.map(examine_one, cases))
    for mismatch in (one for result in results for one in result):
        say(
            f"{flavour:9} {mismatch.case:34} {mismatch.field:22} "
            f"expected {mismatch.expected}  reported {mismatch.reported}"
        )
    failed = sum(bool(result) for result in results)
    say(f"{flavour}: {len(cases) - failed} of {len(cases)} right, {failed} wrong")
    return failed


if __name__ == "__main__":
    sys.exit(main())
