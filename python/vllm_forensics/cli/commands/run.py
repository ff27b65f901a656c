"""`forensics run`: a program under the supervisor, explained if it dies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vllm_forensics.capture.supervisor import (
    CoreContents,
    SupervisedResult,
    evidence_folder,
    remove_evidence,
    run_supervised,
)
from vllm_forensics.cli.output import emit, terminal_width, wants_color
from vllm_forensics.errors import UsageError
from vllm_forensics.render.clean import clean, mask_arguments

if TYPE_CHECKING:
    from vllm_forensics.model.run import RunReport


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the evidence goes. Default: a new folder in .forensics/run.",
)
@click.option(
    "--budget", type=click.IntRange(min=1), default=64, show_default=True, help="MB a core."
)
@click.option("--full", is_flag=True, help="Keep all that the kernel's core would hold.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How to report; JSON needs --output.",
)
@click.option("--output", type=click.Path(dir_okay=False), help="Write the report to this file.")
@click.option("--include-secrets", is_flag=True, help="Keep environment and arguments.")
@click.option("--no-color", is_flag=True, help="No colours.")
def command(  # noqa: PLR0913, PLR0917 - click hands over one parameter an option
    program: tuple[str, ...],
    folder: Path | None,
    budget: int,
    full: bool,  # noqa: FBT001
    output_format: str,
    output: str | None,
    include_secrets: bool,  # noqa: FBT001
    no_color: bool,  # noqa: FBT001
) -> None:
    """Run a program so that a crash of it, or of any process that it starts, leaves evidence.

    Needs no root, no core_pattern and no limit. The report goes to standard error or to --output;
    standard output is the program's.

    Exit status: the program's own, 128 + n for signal n.
    """
    if not program:
        raise UsageError("no command was given", remedy="forensics run -- python serve.py")
    if output_format == "json" and output is None:
        raise UsageError(
            "standard output belongs to the program", remedy="add --output report.json"
        )
    where = evidence_folder(folder)
    keep = CoreContents(budget_bytes=budget << 20, full=full, secrets=include_secrets)
    result = run_supervised(program, where, keep)
    if result.died_of_nothing and folder is None and output is None:
        remove_evidence(where)
    else:
        shown = program if include_secrets else mask_arguments(program)
        report = _explain(shown, result)
        _tell(clean(report, include_secrets=include_secrets), output_format, output, no_color)
    raise click.exceptions.Exit(result.status)


def _explain(program: tuple[str, ...], result: SupervisedResult) -> RunReport:
    # The program starts before the explaining half is loaded: that takes longer than the start.
    from vllm_forensics.investigate.run import explain_run
    from vllm_forensics.investigate.triage import TriageOptions

    return explain_run(program, result.status, result.events, TriageOptions())


def _tell(report: RunReport, output_format: str, output: str | None, no_color: bool) -> None:  # noqa: FBT001
    from vllm_forensics.render.run import render_run_json

    if output_format == "json":
        emit(render_run_json(report), output)
        return
    color = output is None and wants_color(no_color=no_color, to_file=False)
    text = _text(report, color=color)
    if output is not None:
        emit(text, output)
    else:
        sys.stderr.write(text)


def _text(report: RunReport, *, color: bool) -> str:
    from vllm_forensics.investigate.triage import group, own_frames
    from vllm_forensics.model.report import Report
    from vllm_forensics.render.run import render_endings
    from vllm_forensics.render.terminal import TerminalStyle, render_terminal

    style = TerminalStyle(width=terminal_width(), color=color)
    crashes = Report(crashes=report.crashes, groups=group(report.crashes), failures=())
    explained = render_terminal(crashes, style, own_frames(crashes)) if report.crashes else ""
    return explained + render_endings(report, style)
