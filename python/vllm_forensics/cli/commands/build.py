"""`forensics build`: a project, or our own sources, under a sanitizer's eye, and the proof."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vllm_forensics.capture.build import COMPILERS, PRESETS, BuildPlan
from vllm_forensics.cli.options import OUTPUT, format_option
from vllm_forensics.cli.output import emit, require_writable
from vllm_forensics.errors import UsageError
from vllm_forensics.model.build import Flavour, Sanitizer, Step

if TYPE_CHECKING:
    from vllm_forensics.model.build import BuildManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What was asked for on the command line."""

    asan: bool
    ubsan: bool
    tsan: bool
    hardened: bool
    preset: str | None
    tests: bool
    source: Path | None
    compiler: str | None
    python: Path | None
    folder: Path | None
    requirements: tuple[str, ...]
    head_dims: tuple[int, ...]
    tries: bool
    output_format: str
    output: str | None
    quiet: bool


@click.command("build")
@click.option("--asan", is_flag=True, help="AddressSanitizer: heap and stack misuse.")
@click.option("--ubsan", is_flag=True, help="UndefinedBehaviorSanitizer; goes with --asan.")
@click.option("--tsan", is_flag=True, help="ThreadSanitizer: data races.")
@click.option(
    "--hardened",
    is_flag=True,
    help="No sanitizer: cheap checks (stack protector, fortified libc, checked containers).",
)
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="Your project: a folder with pyproject.toml, setup.py or CMakeLists.txt, or a tar of one "
    "(an sdist). vLLM is known too. Default: our own sources.",
)
@click.option("--preset", type=click.Choice(PRESETS), help="Our own sources: name it outright.")
@click.option("--tests", is_flag=True, help="Our own sources: build their C++ tests too.")
@click.option(
    "--compiler", type=click.Choice(sorted(COMPILERS)), help="Default: gcc, or what there is."
)
@click.option(
    "--python",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Build for this Python. Default: the active environment's, or the one running this.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Default: .forensics/FLAVOUR, in the project.",
)
@click.option(
    "--with",
    "requirements",
    multiple=True,
    metavar="REQUIREMENT",
    help="Install this too, for the build and beside its result: pytest, numpy. Repeatable.",
)
@click.option(
    "--head-dim",
    "head_dims",
    type=click.IntRange(min=1),
    multiple=True,
    help="vLLM's attention kernels: for this head dimension alone; again for more. "
    "Default: 64 and 128.",
)
@click.option(
    "--try",
    "tries",
    is_flag=True,
    help="Run the build's example under `forensics run`: a call with a block out of range.",
)
@format_option()
@OUTPUT
@click.option("-q", "--quiet", is_flag=True, help="Only where the results are.")
def command(**options: object) -> None:
    """Build a C or C++ extension under sanitizers, without an edit, and prove that it was.

    The project is built from a copy: its tree stays as it is. Without --source: our specimen (paged
    cache, worker, demos). Without a flavour: a debug build.

    Exit status: 0 all is proved, 1 something came out plain, 2 it could not be built. With --try:
    0 also says that the fault was reported, 1 that it was not.
    """
    chosen = BuildOptions(**options)  # type: ignore[arg-type]
    require_writable(chosen.output)
    if chosen.tries and chosen.source is None:
        raise UsageError("our own sources have no example", remedy="forensics demo")
    manifest = _build_own(chosen) if chosen.source is None else _build_project(chosen)
    emit(_render(manifest, chosen), chosen.output)
    noticed = _try(manifest) if chosen.tries and manifest.proved else True
    raise click.exceptions.Exit(0 if manifest.proved and noticed else 1)


class Progress:
    """Steps and their time on standard error; a counter that is written over at a terminal."""

    def __init__(self) -> None:
        """Nothing has begun."""
        self._name = ""
        self._began = time.monotonic()
        self._live = sys.stderr.isatty()

    def begin(self, name: str) -> None:
        """A step begins."""
        self._name, self._began = name, time.monotonic()
        self._show("")

    def advance(self, done: int, total: int | None) -> None:
        """So many files are compiled, of so many where that is known."""
        if done or total:
            of = f"{done} of {total}" if total is not None else f"compiler call {done}"
            self._show(f" {of}, {time.monotonic() - self._began:.0f} s")

    def end(self, step: Step) -> None:
        """It is done."""
        clear = "\r\x1b[K" if self._live else ""
        click.echo(f"{clear}{step.name}: {step.seconds:.1f} s", err=True)

    def _show(self, text: str) -> None:
        if self._live:
            click.echo(f"\r\x1b[K{self._name}{text} …", err=True, nl=False)


class Silence:
    """Says nothing while it builds."""

    def begin(self, name: str) -> None:
        """Nothing."""

    def advance(self, done: int, total: int | None) -> None:
        """Nothing."""

    def end(self, step: Step) -> None:
        """Nothing."""


def show_step(done: int, total: int) -> None:
    """Ninja's counter on standard error: one line that is written over at a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\rbuilding {done} of {total}", err=True, nl=done == total)


def _build_project(chosen: BuildOptions) -> BuildManifest:
    from vllm_forensics.investigate.build import ProjectRequest, build_project

    if chosen.preset is not None:
        raise UsageError("presets are those of our own sources", remedy="leave out --preset")
    if chosen.tests:
        raise UsageError("--tests builds those of our own sources", remedy="leave out --tests")
    assert chosen.source is not None  # noqa: S101 - the caller asked
    request = ProjectRequest(
        source=chosen.source,
        flavour=_flavour(chosen),
        python=chosen.python or _default_python(),
        compiler=chosen.compiler,
        folder=chosen.folder,
        requirements=chosen.requirements,
        head_dims=chosen.head_dims,
        wants_example=chosen.tries,
    )
    return build_project(request, Silence() if chosen.quiet else Progress())


def _try(manifest: BuildManifest) -> bool:
    """Run the example as the printed command does; was its fault reported?"""
    from vllm_forensics.cli.commands.run import command as run

    assert manifest.example is not None  # noqa: S101 - it was asked for
    flags = [f"--{name}" for name in manifest.flavour.split("-")] if manifest.sanitizers else []
    build = ["--build", manifest.folder] if manifest.sanitizers else []
    click.echo(f"trying {manifest.example}", err=True)
    status = run.main([*flags, *build, "--", "python", manifest.example], standalone_mode=False)
    # 1 is how Python ends when the example itself does not work.
    return isinstance(status, int) and status > 1


def _build_own(chosen: BuildOptions) -> BuildManifest:
    from vllm_forensics.investigate.own_build import build_own

    if not chosen.quiet and _holds_a_project(Path.cwd()):
        click.echo("these are our own sources; for the project here: --source .", err=True)
    preset = chosen.preset or _flavour(chosen).name
    folder = (chosen.folder or Path(".forensics") / preset).resolve()
    plan = BuildPlan(preset=preset, folder=folder, compiler=chosen.compiler, tests=chosen.tests)
    return build_own(plan, None if chosen.quiet else show_step)


def _holds_a_project(folder: Path) -> bool:
    own = folder / "python" / "vllm_forensics"
    names = ("pyproject.toml", "setup.py", "CMakeLists.txt")
    return not own.is_dir() and any((folder / name).is_file() for name in names)


def _default_python() -> Path:
    active = os.environ.get("VIRTUAL_ENV")
    beside = Path(active) / "bin" / "python" if active else None
    return beside if beside is not None and beside.exists() else Path(sys.executable)


def _flavour(chosen: BuildOptions) -> Flavour:
    if chosen.tsan and (chosen.asan or chosen.ubsan):
        raise UsageError(
            "ThreadSanitizer cannot be combined with the others",
            remedy="build twice: forensics build --asan --ubsan, then forensics build --tsan",
        )
    wanted = (
        (Sanitizer.ADDRESS, chosen.asan),
        (Sanitizer.UNDEFINED, chosen.ubsan),
        (Sanitizer.THREAD, chosen.tsan),
    )
    sanitizers = tuple(sanitizer for sanitizer, on in wanted if on)
    if chosen.hardened and sanitizers:
        raise UsageError(
            "a hardened build is one without sanitizers: fortified functions bypass them",
            remedy="build twice: once with the sanitizers, once with --hardened",
        )
    return Flavour(sanitizers=sanitizers, hardened=chosen.hardened)


def _render(manifest: BuildManifest, chosen: BuildOptions) -> str:
    if chosen.output_format == "json":
        from vllm_forensics.render.build_wire import render_build_json

        return render_build_json(manifest)
    from vllm_forensics.render.build import render_build
    from vllm_forensics.render.clean import clean

    return render_build(clean(manifest), quiet=chosen.quiet)
