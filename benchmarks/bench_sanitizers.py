"""What each sanitizer costs on a cache's own work, against plain -O2, in one run.

    python benchmarks/bench_sanitizers.py [--compiler g++] [--runs 5] [--write FILE]

The kernels of sanitizer_kernels.cpp are built with this tree's sources in each way and run in
turns; the ratio is that of the fastest processor times. `--compiler` may be given again. `--write
docs/how-to/build-under-sanitizers.md` puts the table between its markers, which are
<!-- sanitizer-cost:begin --> and the like.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    ROOT / "benchmarks" / "sanitizer_kernels.cpp",
    *(ROOT / "csrc" / f"{name}.cpp" for name in ("arena", "block_allocator", "cache", "event_log")),
)
BEGIN = "<!-- sanitizer-cost:begin -->"
END = "<!-- sanitizer-cost:end -->"
KERNELS = {"copy": "copy", "scatter": "scatter", "walk": "table walk", "allocation": "allocation"}
BUILD_TIMEOUT_S = 900
RUN_TIMEOUT_S = 900
# As this tree's presets build; the names stay readable in the reports.
_SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to build and to run the kernels."""

    name: str
    flags: tuple[str, ...]
    launcher: tuple[str, ...] = ()


VARIANTS = (
    Variant(name="plain, -O2", flags=("-O2",)),
    Variant(
        name="hardened, -O2",
        flags=(
            *("-O2", "-D_FORTIFY_SOURCE=2", "-D_GLIBCXX_ASSERTIONS", "-fstack-protector-strong"),
            "-fstack-clash-protection",
        ),
    ),
    Variant(name="UBSan", flags=(*_SANITIZED, "-fsanitize=undefined")),
    Variant(name="ASan", flags=(*_SANITIZED, "-fsanitize=address")),
    Variant(name="ASan + UBSan", flags=(*_SANITIZED, "-fsanitize=address,undefined")),
    # It refuses to start where the kernel spreads addresses further than it knows.
    Variant(name="TSan", flags=(*_SANITIZED, "-fsanitize=thread"), launcher=("setarch", "-R")),
    Variant(
        name="valgrind memcheck", flags=("-O2",), launcher=("valgrind", "-q", "--error-exitcode=9")
    ),
)


def build(folder: Path, compiler: str, variant: Variant) -> Path:
    """Compile the kernels in one way."""
    target = folder / f"{compiler}-{VARIANTS.index(variant)}"
    command = [compiler, "-std=c++17", "-pthread", *variant.flags, f"-I{ROOT / 'csrc'}"]
    done = subprocess.run(
        [*command, "-o", str(target), *map(str, SOURCES)],
        capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{compiler}, {variant.name}: the build failed:\n{done.stderr}")
    return target


def measure_once(program: Path, variant: Variant) -> dict[str, float]:
    """Seconds of processor time by kernel."""
    quiet = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")}
    done = subprocess.run(
        [*variant.launcher, str(program)],
        capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False, env=quiet,
    )  # fmt: skip
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{variant.name} ended with {done.returncode}:\n{done.stderr}")
    rows = (line.split() for line in done.stdout.splitlines())
    return {name: float(seconds) for name, seconds in rows}


def measure(folder: Path, compiler: str, runs: int) -> dict[str, dict[str, float]]:
    """The fastest seconds by variant and kernel; the variants take turns."""
    present = [v for v in VARIANTS if not v.launcher or shutil.which(v.launcher[0])]
    programs = {}
    for variant in present:
        print(f"{compiler}: building {variant.name}", file=sys.stderr)
        programs[variant.name] = build(folder, compiler, variant)
    fastest: dict[str, dict[str, float]] = {variant.name: {} for variant in present}
    for turn in range(runs):
        print(f"{compiler}: run {turn + 1} of {runs}", file=sys.stderr)
        for variant in present:
            for kernel, seconds in measure_once(programs[variant.name], variant).items():
                best = fastest[variant.name].get(kernel, seconds)
                fastest[variant.name][kernel] = min(best, seconds)
    return fastest


def render_row(name: str, seconds: dict[str, float], plain: dict[str, float]) -> str:
    """One variant's ratios."""
    ratios = (seconds[kernel] / plain[kernel] for kernel in KERNELS)
    return f"| {name} | " + " | ".join(_ratio(ratio) for ratio in ratios) + " |"


def _ratio(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


def render(measured: dict[str, dict[str, dict[str, float]]], runs: int) -> str:
    """A Markdown table a compiler."""
    lines = []
    for compiler, variants in measured.items():
        plain = variants[VARIANTS[0].name]
        lines += [
            f"| {compiler} {version_of(compiler)} | " + " | ".join(KERNELS.values()) + " |",
            "|---|" + "---:|" * len(KERNELS),
            *(render_row(name, seconds, plain) for name, seconds in variants.items()),
            "",
        ]
    lines.append(
        f"Processor time against plain -O2, the fastest of {runs} runs each, by "
        "`benchmarks/bench_sanitizers.py`."
    )
    return "\n".join(lines)


def version_of(compiler: str) -> str:
    """Ask a compiler for its version, in digits."""
    command = [compiler, "-dumpfullversion", "-dumpversion"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def write_table(path: Path, table: str) -> None:
    """Put the table between the markers of a file."""
    text = path.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path}: put {BEGIN} and {END} where the table belongs")
    path.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, then print or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", action="append", help="default: g++; may be given again")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    compilers = options.compiler or ["g++"]
    if missing := [name for name in compilers if shutil.which(name) is None]:
        sys.exit(f"not installed: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as name:
        measured = {compiler: measure(Path(name), compiler, options.runs) for compiler in compilers}
    table = render(measured, options.runs)
    print(table)
    if options.write:
        write_table(options.write, table)


if __name__ == "__main__":
    main()
