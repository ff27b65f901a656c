#!/usr/bin/env python3
"""Measure which planted fault does what: build the demos, run each one, print a Markdown table.

Every demo is built with every compiler that is found, in each preset, and run on its own, with a
time limit and without leaving a core. `--write docs/reference/faults.md` puts the table between
the markers `<!-- fault-table:begin -->` and `<!-- fault-table:end -->`; `--check FILE` exits with 1
when what is there was not measured like this. Needs cmake and ninja.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- fault-table:begin -->"
END = "<!-- fault-table:end -->"
COMPILERS = ("g++", "clang++")
PRESETS = ("debug", "release", "asan", "ubsan", "tsan")
BUILD_TIMEOUT_S = 900
RUN_TIMEOUT_S = 30
ADDR_NO_RANDOMIZE = 0x0040000  # sys/personality.h

# SUMMARY: AddressSanitizer: heap-use-after-free (minimal_demo+0x1234) in …
_SUMMARY = re.compile(r"^SUMMARY: (\w+Sanitizer): ([\w -]+?)(?: [/(<].*)?$", re.MULTILINE)
# csrc/cache.cpp:80:5: runtime error: member call on null pointer of type 'struct Block'
_RUNTIME_ERROR = re.compile(r"runtime error: (.+?)(?: of type .*)?$", re.MULTILINE)
# FATAL: ThreadSanitizer: unexpected memory mapping 0x5b8d7b4c2000-0x5b8d7b4e1000
_TSAN_REFUSES = "unexpected memory mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one run of one demo ended."""

    status: int | None
    """As subprocess has it: -n for signal n; None when the time ran out."""
    output: str

    def describe(self) -> str:
        """Say what happened in a few words: who reported it, or how the process ended."""
        if self.status is None:
            return "hangs"
        if error := _RUNTIME_ERROR.search(self.output):
            return f"UndefinedBehaviorSanitizer: {error[1].strip()}"
        if summary := _SUMMARY.search(self.output):
            return f"{summary[1]}: {summary[2].strip()}"
        if self.status < 0:
            return signal.Signals(-self.status).name
        return f"exit {self.status}" if self.status else "runs clean"


def _isolate(*, fixed_addresses: bool) -> None:
    """Run in the child before exec: no core, and addresses that TSan accepts where it must."""
    # Of 1 byte, not 0: the kernel skips a core_pattern that pipes for this limit only (core(5)).
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    if fixed_addresses:
        ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def _environment() -> dict[str, str]:
    """Drop what would change a sanitizer's answer, and the time it takes to look up names."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")}
    quick = dict.fromkeys(("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"), "symbolize=0")
    return kept | quick


def run_demo(demo: Path, name: str, *, fixed_addresses: bool = False) -> Outcome:
    """Run one fault in a process of its own."""
    try:
        done = subprocess.run(
            [demo, f"--gtest_filter={name}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=demo.parent,
            env=_environment(),
            timeout=RUN_TIMEOUT_S,
            errors="replace",
            check=False,
            preexec_fn=lambda: _isolate(fixed_addresses=fixed_addresses),
        )
    except subprocess.TimeoutExpired:
        return Outcome(status=None, output="")
    if _TSAN_REFUSES in done.stdout and not fixed_addresses:
        return run_demo(demo, name, fixed_addresses=True)
    return Outcome(status=done.returncode, output=done.stdout)


def build_demo(folder: Path, compiler: str, preset: str, jobs: int) -> Path:
    """Build `minimal_demo` in `folder`/compiler-preset and return it."""
    target = folder / f"{compiler}-{preset}"
    configure = ["cmake", "--preset", preset, "-S", str(ROOT), "-B", str(target)]
    options = [f"-DCMAKE_CXX_COMPILER={compiler}", "-DFORENSICS_BUILD_TESTS=OFF"]
    build = ["cmake", "--build", str(target), "--target", "minimal_demo", "--parallel", str(jobs)]
    for command in (configure + options, build):
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, timeout=BUILD_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            sys.exit(f"{compiler} {preset}: the build failed:\n{done.stdout}{done.stderr}")
    return target / "minimal_demo"


def list_faults(demo: Path) -> tuple[str, ...]:
    """Name all tests of the demo as Suite.Test, in its order."""
    done = subprocess.run(
        [demo, "--gtest_list_tests"], capture_output=True, text=True, timeout=60, check=True
    )
    names = []
    suite = ""
    for line in done.stdout.splitlines():
        if line.startswith(" "):
            names.append(suite + line.strip())
        else:
            suite = line.strip()
    return tuple(names)


def measure(folder: Path, compilers: tuple[str, ...], jobs: int) -> dict[tuple[str, str, str], str]:
    """Build and run everything: (fault, preset, compiler) to what happened."""
    answers: dict[tuple[str, str, str], str] = {}
    faults: tuple[str, ...] = ()
    for compiler in compilers:
        for preset in PRESETS:
            print(f"{compiler} {preset}", file=sys.stderr)
            demo = build_demo(folder, compiler, preset, jobs)
            faults = faults or list_faults(demo)
            for fault in faults:
                answers[fault, preset, compiler] = run_demo(demo, fault).describe()
    return answers


def render_cell(answers: dict[str, str]) -> str:
    """Put what each compiler's build did in one cell: once where they agree."""
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    return "<br>".join(f"{compiler}: {answer}" for compiler, answer in answers.items())


def render_table(answers: dict[tuple[str, str, str], str], compilers: tuple[str, ...]) -> str:
    """Write fault by preset as Markdown, with the compilers' versions below."""
    lines = [
        "| fault | " + " | ".join(PRESETS) + " |",
        "|---" * (len(PRESETS) + 1) + "|",
    ]
    for fault in dict.fromkeys(fault for fault, _, _ in answers):
        cells = [
            render_cell({compiler: answers[fault, preset, compiler] for compiler in compilers})
            for preset in PRESETS
        ]
        lines.append(f"| `{fault}` | " + " | ".join(cells) + " |")
    versions = ", ".join(f"{compiler} {version_of(compiler)}" for compiler in compilers)
    return "\n".join([*lines, "", f"Measured with {versions} by `scripts/fault_table.py`."])


def version_of(compiler: str) -> str:
    """Ask a compiler for its version, in digits."""
    done = subprocess.run(
        [compiler, "-dumpfullversion", "-dumpversion"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def split_at_markers(text: str, path: Path) -> tuple[str, str, str]:
    """Cut the text before, between and after the markers."""
    head, begin, rest = text.partition(BEGIN)
    table, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path}: put {BEGIN} and {END} where the table belongs")
    return head + BEGIN, table.strip(), END + tail


def rows_of(table: str) -> list[str]:
    """Keep what is measured; versions may differ where the outcome does not."""
    return [line for line in table.splitlines() if line.startswith("|")]


def main() -> int:
    """Measure, then print, write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=Path, help="keep the builds here and use them again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--write", type=Path, metavar="FILE", help="replace the table in FILE")
    goal.add_argument("--check", type=Path, metavar="FILE", help="exit 1 if FILE's table is old")
    arguments = parser.parse_args()
    compilers = tuple(compiler for compiler in COMPILERS if shutil.which(compiler))
    if not compilers:
        sys.exit(f"no compiler found: install one of {', '.join(COMPILERS)}")
    file = arguments.write or arguments.check
    parts = split_at_markers(file.read_text(), file) if file else None

    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.build_dir or Path(scratch)).resolve()
        table = render_table(measure(folder, compilers, arguments.jobs), compilers)

    if parts is None:
        print(table)
        return 0
    head, old, tail = parts
    if arguments.write:
        file.write_text(f"{head}\n{table}\n{tail}")
        return 0
    if rows_of(old) == rows_of(table):
        return 0
    print(f"{file}: the table of faults is old; it should be\n\n{table}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
