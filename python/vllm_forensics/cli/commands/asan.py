"""`forensics asan`: every sanitizer report in noisy logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

import click

from vllm_forensics import __version__
from vllm_forensics.capture.logs import repository_root
from vllm_forensics.cli.options import (
    ALL_FRAMES,
    INCLUDE_SECRETS,
    NO_COLOR,
    OUTPUT,
    QUIET,
    format_option,
)
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.sanitizer import AsanOptions, investigate_logs
from vllm_forensics.model.sanitizer import SanitizerAnswer
from vllm_forensics.render.clean import clean
from vllm_forensics.render.sanitizer_clean import clean_answer

if TYPE_CHECKING:  # what few runs need is imported when it is asked for
    from vllm_forensics.investigate.symbolize import Symbolizer
    from vllm_forensics.render.terminal import TerminalStyle


@dataclass(frozen=True, slots=True, kw_only=True)
class AsanCommandOptions:
    """What was asked for on the command line."""

    output_format: str
    output: str | None
    own: tuple[str, ...]
    symbolize: bool
    symbols: tuple[str, ...]
    baseline: str | None
    suppressions: str | None
    all_frames: bool
    everything: bool
    include_secrets: bool
    quiet: bool
    verbose: bool
    why: tuple[str, str] | None
    no_color: bool


FORMATS: Final = ("markdown", "sarif", "github", "gitlab", "junit")
_EXAMPLES: Final = """\b
Examples:
  forensics asan asan.log
  kubectl logs worker-3 | forensics asan -
  forensics asan --format json build.log > known.json
  forensics asan --baseline known.json build.log      # only what is new
  forensics asan --why old.log new.log:2              # one bug, or two?
  forensics asan --format sarif --output asan.sarif asan.log
"""


@click.command("asan", epilog=_EXAMPLES)
@click.argument("logs", nargs=-1, type=click.Path(readable=False, allow_dash=True))
@format_option(*FORMATS)
@OUTPUT
@click.option(
    "--own",
    multiple=True,
    metavar="PATH",
    help="Your own code: a folder, file or module, or a part of its path. Repeatable.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    help="Only what is not in this file: an answer in JSON, signatures one a line, or a log.",
)
@click.option(
    "--suppressions",
    metavar="FILE",
    help="Leave out what these rules match, and count it: TYPE:PATTERN, as the sanitizers' own.",
)
@click.option(
    "--why",
    nargs=2,
    metavar="A B",
    help="Are two reports one bug? Each is LOG, LOG:N (a report or its line) or a signature.",
)
@click.option("--all", "everything", is_flag=True, help="Tell every kind of report in full.")
@click.option(
    "--symbolize", is_flag=True, help="Name frames that the log does not, from the modules here."
)
@click.option(
    "--symbols",
    multiple=True,
    metavar="PLACE",
    help="With --symbolize: a folder, wheel, zip or file with debug information. Repeatable.",
)
@ALL_FRAMES
@INCLUDE_SECRETS
@QUIET
@click.option("-v", "--verbose", is_flag=True, help="Signatures, and rules that matched nothing.")
@NO_COLOR
def command(logs: tuple[str, ...], **options: object) -> None:
    """Explain every sanitizer report in logs, as allocate, free and use.

    LOGS are files, pipes, folders, patterns or the name given to log_path; `-` is standard input.

    Exit status: 0 no report, 1 a report, 2 could not tell. With --baseline or --suppressions: 0
    when no report is left. With --why: 0 one bug, 1 two.
    """
    chosen = AsanCommandOptions(**options)  # type: ignore[arg-type]
    require_writable(chosen.output)
    if chosen.why is not None:
        _why(logs, chosen)
    if chosen.symbols and not chosen.symbolize:
        raise UsageError("--symbols is of no use alone", remedy="add --symbolize")
    with _symbolizer(chosen) as symbolizer:
        answer = investigate_logs(
            logs,
            AsanOptions(
                own=chosen.own,
                with_source=chosen.output_format == "text",
                baseline=chosen.baseline,
                suppressions=chosen.suppressions,
                symbolizer=symbolizer,
            ),
        )
    shown = clean_answer(answer, include_secrets=chosen.include_secrets)
    emit(_render(shown, chosen), chosen.output)
    raise click.exceptions.Exit(_status(answer))


@contextmanager
def _symbolizer(chosen: AsanCommandOptions) -> Iterator[Symbolizer | None]:
    if not chosen.symbolize:
        yield None
        return
    from vllm_forensics.investigate.symbol_index import open_symbols
    from vllm_forensics.investigate.symbolize import Symbolizer

    with open_symbols(chosen.symbols) as symbols:
        yield Symbolizer(symbols)


def _why(logs: tuple[str, ...], chosen: AsanCommandOptions) -> NoReturn:
    """Exit status: 0 one bug, 1 two."""
    from vllm_forensics.investigate.sanitizer_why import investigate_why
    from vllm_forensics.render.why import render_why, render_why_json

    if chosen.why is None or chosen.output_format not in {"text", "json"}:
        raise UsageError("--why is told in text or JSON", remedy="--format text or json")
    answer = clean(investigate_why(*chosen.why, logs), include_secrets=chosen.include_secrets)
    is_text = chosen.output_format == "text"
    emit(render_why(answer, _style(chosen)) if is_text else render_why_json(answer), chosen.output)
    raise click.exceptions.Exit(0 if answer.same else 1)


def _render(answer: SanitizerAnswer, chosen: AsanCommandOptions) -> str:
    if chosen.output_format in FORMATS:
        return _for_a_forge(answer, chosen.output_format)
    if chosen.output_format == "json":
        from vllm_forensics.render.sanitizer_wire import render_sanitizer_json

        return render_sanitizer_json(answer)
    from vllm_forensics.render.sanitizer import Extent, render_sanitizer

    extent = Extent(everything=chosen.everything, verbose=chosen.verbose)
    return render_sanitizer(answer, _style(chosen), extent)


def _for_a_forge(answer: SanitizerAnswer, output_format: str) -> str:
    """The lists that code forges and CI servers read; paths are relative to the repository."""
    renderer = import_module(f"vllm_forensics.render.{output_format}")
    arguments = (__version__,) if output_format == "sarif" else ()
    render = getattr(renderer, f"render_{output_format}")
    text: str = render(answer, repository_root(), *arguments)
    return text


def _style(chosen: AsanCommandOptions) -> TerminalStyle:
    from vllm_forensics.render.terminal import Detail, TerminalStyle

    return TerminalStyle(
        width=terminal_width(),
        color=wants_color(no_color=chosen.no_color, to_file=chosen.output is not None),
        all_frames=chosen.all_frames,
        detail=Detail.SENTENCE if chosen.quiet else Detail.FULL,
    )


def _status(answer: SanitizerAnswer) -> int:
    """0 no report, 1 a report, 2 could not tell."""
    if any(log.reports for log in answer.logs):
        return 1
    return 0 if answer.complete else 2
