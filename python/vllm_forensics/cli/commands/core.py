"""`forensics core`: explain core dumps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import click

from vllm_forensics.capture.cluster import cluster
from vllm_forensics.capture.private_folder import private_folder
from vllm_forensics.capture.process import replace_process, run_attached
from vllm_forensics.cli.herd_teller import HerdTeller
from vllm_forensics.cli.moments import moment
from vllm_forensics.cli.options import (
    ALL_FRAMES,
    INCLUDE_SECRETS,
    NO_COLOR,
    NO_STORE,
    OUTPUT,
    QUIET,
    TIMEOUT,
    format_option,
)
from vllm_forensics.cli.output import ProgressLine, emit, error_text, terminal_width, wants_color
from vllm_forensics.errors import EvidenceError, UsageError, naming
from vllm_forensics.investigate.herd import Progress
from vllm_forensics.investigate.symbol_index import SymbolIndex, open_symbols
from vllm_forensics.investigate.triage import (
    TriageOptions,
    gdb_command,
    triage_each,
    with_kept_modules,
)
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash, Report
from vllm_forensics.render.clean import clean

if TYPE_CHECKING:
    from vllm_forensics.render.terminal import TerminalStyle


_FROM_ENVIRONMENT: Final = "DEBUGINFOD_URLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
    """What was asked for on the command line."""

    output_format: str
    output: str | None
    executable: str | None
    sysroot: str | None
    symbols: tuple[str, ...]
    open_gdb: bool
    depth: str | None
    no_gdb: bool
    pid: int | None
    since: str | None
    journal: bool
    debuginfod: str | None
    scheduler: str | None
    audit: bool
    all_frames: bool
    timeout: float
    include_secrets: bool
    why: tuple[str, str] | None
    no_store: bool
    quiet: bool
    no_color: bool


@click.command("core")
@click.argument("paths", nargs=-1, type=click.Path(readable=False))  # triage says what is wrong
@format_option()
@OUTPUT
@click.option(
    "--executable", type=click.Path(exists=True), help="The program, if it is elsewhere here."
)
@click.option(
    "--sysroot",
    type=click.Path(exists=True, file_okay=False),
    help="A folder with the files of the machine that crashed: a container's, an image's.",
)
@click.option(
    "--symbols",
    multiple=True,
    metavar="PLACE",
    help="Debug information: a folder, wheel, zip or file; may be given again.",
)
@click.option(
    "--pid",
    type=click.IntRange(min=1),
    help="Look at a living process and all that it started: does it hang, and on what?",
)
@click.option("--gdb", "open_gdb", is_flag=True, help="Open gdb on the core, everything set.")
@click.option(
    "--depth",
    type=click.Choice([depth.value for depth in Depth]),
    help="notes: the core alone; stack: calls and lines too; full: also gdb's arguments and "
    "objects. Default: full for one core of each group, stack for the others.",
)
@click.option("--no-gdb", is_flag=True, help="The same as --depth stack.")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only cores written since then: 90m, 12h, 7d, or a date (2026-11-29, 2026-11-29T08:00).",
)
@click.option(
    "--journal",
    is_flag=True,
    help="All crashes that systemd's journal knows, also those whose core is gone.",
)
@click.option(
    "--debuginfod",
    is_flag=False,
    flag_value=_FROM_ENVIRONMENT,
    metavar="[URL]",
    help="Fetch what the crashing stack lacks from this server, or from those of $DEBUGINFOD_URLS. "
    "Nothing is ever fetched without.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Share the work with a Dask cluster that runs already: tcp://host:8786.",
)
@click.option(
    "--why",
    nargs=2,
    metavar="A B",
    help="Instead: why are A and B one bug, or two? Each is a core or a signature.",
)
@click.option("--audit", is_flag=True, help="Check the mapped modules one by one instead.")
@ALL_FRAMES
@TIMEOUT
@INCLUDE_SECRETS
@NO_STORE
@QUIET
@NO_COLOR
def command(paths: tuple[str, ...], **options: object) -> None:
    """Explain core dumps: what died, where, why, and what to do next.

    PATHS are files, folders or patterns; without any, the newest core that can be found.

    Exit status: 0 nothing wrong found, 1 a fault found, 2 could not tell. With --why: 0 one bug, 1
    two.
    """
    chosen = CoreOptions(**options)  # type: ignore[arg-type]
    with open_symbols(chosen.symbols) as symbols:
        _explain(paths, chosen, symbols)


def _explain(paths: tuple[str, ...], chosen: CoreOptions, symbols: SymbolIndex) -> None:
    paths, servers = _servers(paths, chosen.debuginfod)
    if servers and (chosen.audit or chosen.pid is not None):
        raise UsageError(
            "--debuginfod is for cores that are explained, not for --pid or --audit",
            remedy="forensics core --debuginfod CORE    # such as a snapshot that --pid names",
        )
    settings = TriageOptions(
        executable=chosen.executable,
        sysroot=chosen.sysroot,
        timeout_s=chosen.timeout,
        depth=_depth(chosen),
        symbols=symbols,
        since_s=None if chosen.since is None else moment(chosen.since),
        journal=chosen.journal,
        debuginfod=servers,
    )
    if chosen.pid is not None:
        _look_at(chosen.pid, chosen, settings)
    if chosen.why is not None:
        if paths:
            raise UsageError("--why compares A and B alone", remedy="forensics core --why A B")
        _why(chosen.why, chosen, settings)
    if chosen.open_gdb:
        _open_gdb(paths, settings)
    if chosen.audit:
        _print_audit(paths, chosen, symbols)
        return
    teller = HerdTeller(
        as_json=chosen.output_format == "json",
        output=chosen.output,
        include_secrets=chosen.include_secrets,
        no_store=chosen.no_store,
        style=partial(_style, chosen),
    )
    with cluster(chosen.scheduler) as executor:
        progress = None if chosen.quiet else _shown_progress()
        found = triage_each(paths, settings, executor=executor, on_progress=progress)
        with contextlib.closing(found):
            report = teller.tell(found)
    raise click.exceptions.Exit(_status(report))


def _servers(paths: tuple[str, ...], asked: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths and the servers. `--debuginfod CORE`: the core is a path, no server's address."""
    if asked is None:
        return paths, ()
    from vllm_forensics.capture.debuginfod import servers_of

    if asked != _FROM_ENVIRONMENT and not asked.startswith(("http:", "https:")):
        paths, asked = (asked, *paths), _FROM_ENVIRONMENT
    return paths, servers_of(None if asked == _FROM_ENVIRONMENT else asked)


def _shown_progress() -> Callable[[Progress], None]:
    line = ProgressLine("cores")
    told = False

    def show(progress: Progress) -> None:
        nonlocal told
        latest = progress.latest
        if not told and isinstance(latest, Crash):
            told = True
            line.say(f"first  {clean(latest).explanation}")
        groups = f"{progress.groups:,} group{'' if progress.groups == 1 else 's'}"
        line.update(progress.done, progress.total, groups)

    return show


def _why(asked: tuple[str, str], chosen: CoreOptions, settings: TriageOptions) -> NoReturn:
    """Exit status: 0 one bug, 1 two."""
    from vllm_forensics.investigate.why import investigate_why
    from vllm_forensics.render.why import render_why, render_why_json

    answer = clean(investigate_why(*asked, settings), include_secrets=chosen.include_secrets)
    is_text = chosen.output_format == "text"
    emit(render_why(answer, _style(chosen)) if is_text else render_why_json(answer), chosen.output)
    raise click.exceptions.Exit(0 if answer.same else 1)


def _depth(chosen: CoreOptions) -> Depth | None:
    if chosen.depth is not None:
        return Depth(chosen.depth)
    return Depth.STACK if chosen.no_gdb else None


def _style(chosen: CoreOptions) -> TerminalStyle:
    from vllm_forensics.render.terminal import Detail, TerminalStyle

    return TerminalStyle(
        width=terminal_width(),
        color=wants_color(no_color=chosen.no_color, to_file=chosen.output is not None),
        all_frames=chosen.all_frames,
        detail=Detail.SENTENCE if chosen.quiet else Detail.FULL,
    )


def _status(report: Report) -> int:
    """0 nothing wrong found, 1 a fault found, 2 could not tell."""
    if report.groups:
        return 1
    return 2 if report.failures else 0


def _look_at(pid: int, chosen: CoreOptions, settings: TriageOptions) -> NoReturn:
    """A living tree instead of a core.

    Exit status 1: it hangs, or is busy; 0: neither was seen; 2: nor could it be looked into.
    """
    from vllm_forensics.capture.supervisor import evidence_folder
    from vllm_forensics.investigate.hang import look_at
    from vllm_forensics.model.hang import HangKind
    from vllm_forensics.render.hang import render_hang, render_hang_json
    from vllm_forensics.render.terminal import TerminalStyle

    report = look_at(pid, evidence_folder(None), settings)
    shown = clean(report, include_secrets=chosen.include_secrets)
    if chosen.output_format == "json":
        emit(render_hang_json(shown), chosen.output)
    else:
        color = wants_color(no_color=chosen.no_color, to_file=chosen.output is not None)
        emit(render_hang(shown, TerminalStyle(width=terminal_width(), color=color)), chosen.output)
    quiet = all(finding.kind is HangKind.IDLE for finding in report.findings)
    if quiet and not report.snapshots:
        raise click.exceptions.Exit(2)
    raise click.exceptions.Exit(0 if quiet else 1)


def _open_gdb(paths: tuple[str, ...], settings: TriageOptions) -> None:
    from vllm_forensics.capture.core_sources import find_cores, opened_core

    cores = find_cores(paths)
    if len(cores) != 1:
        raise UsageError(
            f"--gdb opens one core, but {len(cores)} were named", remedy="forensics core --gdb CORE"
        )
    # The links, and what was expanded, must last as long as gdb and be gone after it.
    with (
        naming(cores[0]),
        private_folder("forensics-gdb-") as folder,
        opened_core(cores[0], str(folder)) as kept,
    ):
        if settings.debuginfod:
            settings = _with_fetched(kept.file, settings)
        if not settings.symbols and kept.file == cores[0]:
            folder.rmdir()
            replace_process(gdb_command(cores[0], settings))
        bundled = with_kept_modules(settings, kept)
        status = run_attached(gdb_command(kept.file, bundled, folder))
    raise click.exceptions.Exit(status)


def _with_fetched(core: str, settings: TriageOptions) -> TriageOptions:
    from vllm_forensics.investigate.debuginfod import fetched_symbols
    from vllm_forensics.investigate.module_store import ModuleStore

    def store_of(symbols: SymbolIndex | None) -> ModuleStore:
        return ModuleStore(settings.executable, symbols, settings.sysroot)

    symbols, gaps = fetched_symbols(core, settings.debuginfod, store_of, settings.symbols)
    for gap in gaps:
        click.echo(f"not fetched: {clean(gap).what}", err=True)
    return replace(settings, symbols=symbols)


def _print_audit(paths: tuple[str, ...], chosen: CoreOptions, symbols: SymbolIndex) -> None:
    from vllm_forensics.capture.core_sources import find_cores
    from vllm_forensics.investigate.audit import audit_core
    from vllm_forensics.render.audit import render_audit

    audits, unread = [], []
    cores = find_cores(paths)
    if not cores:
        raise UsageError("no core dump was found", remedy="forensics core --audit CORE")
    for core in cores:
        try:
            audits.append(audit_core(core, chosen.executable, symbols))
        except EvidenceError as error:
            unread.append(clean(error_text(f"{core} {error.message}", error.remedy)))
    if audits:
        emit(render_audit(clean(tuple(audits)), terminal_width()), chosen.output)
    for text in unread:
        click.echo(text, err=True)
    if not audits:
        raise click.exceptions.Exit(2)
