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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.py.integration.exam import Json, Mismatch, compare  # noqa: E402 - beside the tests
from tests.py.integration.victim_cases import (  # noqa: E402
    CASES,
    Binaries,
    Flavour,
    VictimCase,
    build_victims,
    make_core,
)


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
