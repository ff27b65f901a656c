"""`forensics build`: the C++ sources under a debugger's or sanitizer's eye."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import click

from vllm_forensics.capture.build import COMPILERS, PRESETS, BuildPlan, BuildResult, build_specimen
from vllm_forensics.errors import UsageError

_RUNTIMES: Final = {
    "asan": "libasan.so",
    "asan-ubsan": "libasan.so",
    "ubsan": "libubsan.so",
    "tsan": "libtsan.so",
}
_PRELOAD: Final = (
    'LD_PRELOAD="$(gcc -print-file-name={runtime}) $(gcc -print-file-name=libstdc++.so)" '
    "PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0"
)


@click.command("build")
@click.option("--asan", is_flag=True, help="AddressSanitizer: heap and stack misuse.")
@click.option("--ubsan", is_flag=True, help="UndefinedBehaviorSanitizer; goes with --asan.")
@click.option("--tsan", is_flag=True, help="ThreadSanitizer: data races.")
@click.option("--preset", type=click.Choice(PRESETS), help="Name the preset outright.")
@click.option("--compiler", type=click.Choice(sorted(COMPILERS)), help="Default: CMake's choice.")
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Default: .forensics/PRESET."
)
@click.option("-q", "--quiet", is_flag=True, help="Only where the results are.")
def command(  # noqa: PLR0913, PLR0917 - click hands over one parameter an option
    asan: bool,  # noqa: FBT001
    ubsan: bool,  # noqa: FBT001
    tsan: bool,  # noqa: FBT001
    preset: str | None,
    compiler: str | None,
    folder: Path | None,
    quiet: bool,  # noqa: FBT001
) -> None:
    """Build the specimen (paged cache, worker, demos) as programs and as a Python module.

    Without a sanitizer: the debug preset.
    """
    chosen = preset or _preset(asan=asan, ubsan=ubsan, tsan=tsan)
    where = (folder or Path(".forensics") / chosen).resolve()
    plan = BuildPlan(preset=chosen, folder=where, compiler=compiler)
    started = time.monotonic()
    result = build_specimen(plan, None if quiet else show_step)
    if not quiet:
        click.echo(f"{chosen}: built in {time.monotonic() - started:.1f} s")
    for path in (*result.programs, *result.modules):
        click.echo(str(path))
    if not quiet:
        _hint(chosen, result)


def show_step(done: int, total: int) -> None:
    """Ninja's counter on standard error: one line that is written over at a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\rbuilding {done} of {total}", err=True, nl=done == total)


def _preset(*, asan: bool, ubsan: bool, tsan: bool) -> str:
    if tsan and (asan or ubsan):
        raise UsageError(
            "ThreadSanitizer cannot be combined with the others",
            remedy="build twice: forensics build --asan --ubsan, then forensics build --tsan",
        )
    names = [name for name, on in (("asan", asan), ("ubsan", ubsan), ("tsan", tsan)) if on]
    return "-".join(names) or "debug"


def _hint(preset: str, result: BuildResult) -> None:
    for program in result.programs:
        click.echo(f"\nnext  {program} --gtest_list_tests")
    for module in result.modules:
        start = f"PYTHONPATH={module.parent} python -c 'import _native'"
        runtime = _RUNTIMES.get(preset)
        click.echo(
            f"      {_PRELOAD.format(runtime=runtime)} {start}" if runtime else f"      {start}"
        )
