"""`forensics run`: a program under the supervisor, explained if it dies."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vllm_forensics.capture.sanitized_program import instrumented, run_plain
from vllm_forensics.capture.strace import remove_log, run_straced
from vllm_forensics.capture.supervisor import (
    CoreContents,
    SupervisedResult,
    SupervisedTree,
    evidence_folder,
    remove_evidence,
    remove_if_empty,
    run_supervised,
)
from vllm_forensics.cli.options import NO_COLOR, NO_STORE
from vllm_forensics.cli.output import require_writable, terminal_width
from vllm_forensics.cli.run_teller import RunTeller
from vllm_forensics.cli.watcher import Watcher, watcher_options, with_sanitizer
from vllm_forensics.errors import ForensicsError, UsageError
from vllm_forensics.render.clean import clean, mask_arguments

if TYPE_CHECKING:
    from vllm_forensics.model.run import RunReport
    from vllm_forensics.model.sanitized import RunPlan


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
@click.option(
    "--stall",
    type=click.FloatRange(min=1),
    help="Seconds without output or processor time after which it is looked into, once a stall.",
)
@click.option("--probe", help="A command that fails when the program hangs; with --stall.")
@watcher_options
@click.option("--strace", is_flag=True, help="Trace system calls; no minicore then.")
@click.option(
    "--full",
    is_flag=True,
    help="Keep all that the kernel's core would hold; prefer the kernel's where it wrote one.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How to report; JSON needs --output.",
)
@click.option("--output", type=click.Path(dir_okay=False), help="Write the report to this file.")
@click.option("--include-secrets", is_flag=True, help="Keep environment and arguments.")
@NO_STORE
@NO_COLOR
def command(  # noqa: PLR0913, PLR0917 - click hands over one parameter an option
    program: tuple[str, ...],
    folder: Path | None,
    budget: int,
    stall: float | None,
    probe: str | None,
    watcher: Watcher,
    strace: bool,  # noqa: FBT001
    full: bool,  # noqa: FBT001
    output_format: str,
    output: str | None,
    include_secrets: bool,  # noqa: FBT001
    no_store: bool,  # noqa: FBT001
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
    _refuse_contradictions(strace=strace, full=full, stall=stall, probe=probe, watcher=watcher)
    where = evidence_folder(folder)
    try:
        require_writable(output)
        plan = None if strace else watcher.plan(program, where)
    except ForensicsError:
        remove_if_empty(where)
        raise
    shown = program if include_secrets else mask_arguments(program)
    teller = RunTeller(
        output_format=output_format,
        output=output,
        include_secrets=include_secrets,
        no_store=no_store,
        no_color=no_color,
        always=folder is not None or output is not None,
    )
    if strace:
        status, report = _trace(program, shown, where)
        if not teller.tell(report):
            remove_log(where)
        raise click.exceptions.Exit(status)
    keep = CoreContents(budget_bytes=budget << 20, full=full, secrets=include_secrets)
    watch = None if stall is None else _StallReporter(stall, probe)
    with _command_line(program, plan) as started:
        if plan is None or plan.supervised:
            result = run_supervised(started, where, keep, watch, _answer)
        else:
            result = run_plain(started)
    told = False
    if plan is not None:
        told = teller.tell(with_sanitizer(_explain(shown, result, full=full), plan))
    elif not result.died_of_nothing or teller.always:
        told = teller.tell(_explain(shown, result, full=full))
    if not told:
        remove_evidence(where)
    raise click.exceptions.Exit(result.status)


def _refuse_contradictions(
    *, strace: bool, full: bool, stall: float | None, probe: str | None, watcher: Watcher
) -> None:
    if strace and (full or stall is not None or _was_given("budget")):
        raise UsageError(
            "a process has one tracer: with strace there is no minicore, full, small or of a stall",
            remedy="leave out --strace, or --full, --budget and --stall",
        )
    if probe is not None and stall is None:
        raise UsageError("--probe needs to know how often", remedy="add --stall SECONDS")
    if strace and watcher.watches:
        raise UsageError(
            "what system calls prove and what a sanitizer sees are two runs",
            remedy="leave out --strace, or the sanitizer",
        )


def _command_line(
    program: tuple[str, ...], plan: RunPlan | None
) -> AbstractContextManager[Sequence[str]]:
    return nullcontext(program) if plan is None else instrumented(plan)


class _StallReporter:
    """Looks into the program when it stalls, and says what it saw on standard error at once."""

    def __init__(self, seconds: float, probe: str | None) -> None:
        from vllm_forensics.capture.stall import StallOptions, StallWatch

        command = tuple(shlex.split(probe)) if probe else ()
        self._watch = StallWatch(StallOptions(seconds=seconds, probe=command))

    def __call__(self, tree: SupervisedTree) -> None:
        root = _root_of(tree)
        stall = None if root is None else self._watch.look(root)
        if stall is not None:
            _look_into(tree, stall.root, f"stalled: {stall.reason}")


def _answer(tree: SupervisedTree) -> None:
    """Somebody sent SIGUSR2: what does the program do?"""
    root = _root_of(tree)
    if root is not None:
        _look_into(tree, root, "looked into: SIGUSR2 asked for it")


def _root_of(tree: SupervisedTree) -> int | None:
    from vllm_forensics.evidence.supervisor_log import parse_supervisor_log

    processes = parse_supervisor_log(tree.events()).processes
    return processes[0].pid if processes else None


def _look_into(tree: SupervisedTree, root: int, why: str) -> None:
    from vllm_forensics.investigate.hang import look_at_supervised
    from vllm_forensics.investigate.triage import TriageOptions
    from vllm_forensics.render.hang import render_hang
    from vllm_forensics.render.terminal import TerminalStyle

    try:
        report = clean(look_at_supervised(root, tree, TriageOptions()))
    except ForensicsError:
        return  # it ended while it was looked at: its end is told
    sys.stderr.write(f"{why}\n{render_hang(report, TerminalStyle(width=terminal_width()))}")


def _was_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


def _trace(program: tuple[str, ...], shown: tuple[str, ...], where: Path) -> tuple[int, RunReport]:
    result = run_straced(program, where)
    from vllm_forensics.investigate.run import explain_straced_run
    from vllm_forensics.investigate.triage import TriageOptions

    return result.status, explain_straced_run(shown, result, TriageOptions())


def _explain(program: tuple[str, ...], result: SupervisedResult, *, full: bool) -> RunReport:
    # The program starts before the explaining half is loaded: that takes longer than the start.
    from vllm_forensics.investigate.run import explain_run
    from vllm_forensics.investigate.triage import TriageOptions

    return explain_run(program, result, TriageOptions(), prefer_kernel_cores=full)
