"""`forensics report`: the incidents that logs, cores, sanitizer reports and traces tell of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from vllm_forensics.cli.options import (
    ALL_FRAMES,
    INCLUDE_SECRETS,
    NO_COLOR,
    OUTPUT,
    QUIET,
    TIMEOUT,
    format_option,
)
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.investigate.joined import investigate_report
from vllm_forensics.investigate.symbol_index import open_symbols
from vllm_forensics.investigate.triage import TriageOptions, own_frames
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.joined import JoinedReport
from vllm_forensics.model.report import Report
from vllm_forensics.render.clean import clean

_EXAMPLES: Final = """\b
Examples:
  forensics report incident-17/
  forensics report serve.log core.4242 dmesg.txt trace.txt
  forensics report --format markdown --output issue.md incident-17/
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCommandOptions:
    """What was asked for on the command line."""

    output_format: str
    output: str | None
    symbols: tuple[str, ...]
    executable: str | None
    sysroot: str | None
    no_gdb: bool
    timeout: float
    all_frames: bool
    include_secrets: bool
    quiet: bool
    no_color: bool


@click.command("report", epilog=_EXAMPLES)
@click.argument("evidence", nargs=-1, type=click.Path(readable=False))
@format_option("markdown")
@OUTPUT
@click.option(
    "--symbols",
    multiple=True,
    metavar="PLACE",
    help="A folder, wheel, zip or file with debug information. Repeatable.",
)
@click.option(
    "--executable",
    type=click.Path(exists=True),
    metavar="FILE",
    help="The program, where it is not at its old path.",
)
@click.option(
    "--sysroot",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Files of the machine that crashed.",
)
@click.option("--no-gdb", is_flag=True, help="Stacks alone: faster, without values.")
@TIMEOUT
@ALL_FRAMES
@INCLUDE_SECRETS
@QUIET
@NO_COLOR
def command(evidence: tuple[str, ...], **options: object) -> None:
    """Join all that is left of a crash: who died first, and what each source says of it.

    Several incidents are told one by one, with the files that belong to each.

    EVIDENCE are files and folders: logs, cores and minicores, bundles, sanitizers' logs, traces of
    strace, the supervisor's log, the sandbox's events. Each is known by its content.

    Exit status: 0 no death, 1 a death, 2 could not tell.
    """
    chosen = ReportCommandOptions(**options)  # type: ignore[arg-type]
    require_writable(chosen.output)
    with open_symbols(chosen.symbols) as symbols:
        report = investigate_report(
            evidence,
            TriageOptions(
                executable=chosen.executable,
                sysroot=chosen.sysroot,
                timeout_s=chosen.timeout,
                depth=Depth.STACK if chosen.no_gdb else None,
                symbols=symbols,
            ),
        )
    shown = clean(report, include_secrets=chosen.include_secrets)
    emit(_render(shown, chosen), chosen.output)
    if report.first_death is not None:
        raise click.exceptions.Exit(1)
    raise click.exceptions.Exit(0 if report.complete else 2)


def _render(report: JoinedReport, chosen: ReportCommandOptions) -> str:
    if chosen.output_format == "json":
        from vllm_forensics.render.joined_wire import render_joined_json

        return render_joined_json(report)
    own = own_frames(Report(crashes=report.crashes, groups=(), failures=()))
    if chosen.output_format == "markdown":
        from vllm_forensics.render.joined_markdown import render_joined_markdown

        return render_joined_markdown(report, own)
    from vllm_forensics.render.joined import render_joined
    from vllm_forensics.render.terminal import Detail, TerminalStyle

    style = TerminalStyle(
        width=terminal_width(),
        color=wants_color(no_color=chosen.no_color, to_file=chosen.output is not None),
        all_frames=chosen.all_frames,
        detail=Detail.SENTENCE if chosen.quiet else Detail.FULL,
    )
    return render_joined(report, style, own)
