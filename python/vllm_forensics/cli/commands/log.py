"""`forensics log`: which process died first, of what, and what is only echo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from vllm_forensics.cli.options import INCLUDE_SECRETS, NO_COLOR, OUTPUT, QUIET, format_option
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.investigate.incident import investigate_incidents
from vllm_forensics.render.clean import clean

if TYPE_CHECKING:  # few runs need it
    from vllm_forensics.investigate.log_symbols import LogNamer

_EXAMPLES: Final = """\b
Examples:
  forensics log serve.log
  kubectl logs --previous worker-3 | forensics log -
  journalctl -k -u serve | forensics log --format json -
  forensics log --symbols app-1.0-cp311-linux_x86_64.whl dmesg.txt    # names for offsets
"""


@click.command("log", epilog=_EXAMPLES)
@click.argument("logs", nargs=-1, type=click.Path(readable=False, allow_dash=True))
@format_option()
@OUTPUT
@click.option(
    "--symbols",
    multiple=True,
    metavar="PLACE",
    help="Name offsets in modules by this folder, wheel, zip or file. Repeatable.",
)
@INCLUDE_SECRETS
@QUIET
@NO_COLOR
def command(
    logs: tuple[str, ...],
    output_format: str,
    output: str | None,
    symbols: tuple[str, ...],
    **flags: bool,
) -> None:
    """Say which process died first, of what, where, and what is only echo.

    LOGS are files, pipes, folders or patterns with whatever dying programs left: dumps of
    faulthandler and of signal handlers, tracebacks, the kernel's and systemd's lines, Kubernetes'
    and Ray's messages. `-` is standard input.

    Exit status: 0 no death, 1 a death, 2 could not tell.
    """
    require_writable(output)
    with _namer(symbols) as namer:
        answer = investigate_incidents(logs, namer)
    shown = clean(answer, include_secrets=flags["include_secrets"])
    if output_format == "json":
        from vllm_forensics.render.incident_wire import render_incidents_json

        text = render_incidents_json(shown)
    else:
        from vllm_forensics.render.incident import render_incidents
        from vllm_forensics.render.terminal import Detail, TerminalStyle

        style = TerminalStyle(
            width=terminal_width(),
            color=wants_color(no_color=flags["no_color"], to_file=output is not None),
            detail=Detail.SENTENCE if flags["quiet"] else Detail.FULL,
        )
        text = render_incidents(shown, style)
    emit(text, output)
    if answer.incidents:
        raise click.exceptions.Exit(1)
    raise click.exceptions.Exit(0 if answer.complete else 2)


@contextmanager
def _namer(places: tuple[str, ...]) -> Iterator[LogNamer | None]:
    if not places:
        yield None
        return
    from vllm_forensics.investigate.log_symbols import LogNamer
    from vllm_forensics.investigate.symbol_index import open_symbols
    from vllm_forensics.investigate.symbolize import Symbolizer

    with open_symbols(places) as symbols:
        yield LogNamer(Symbolizer(symbols), symbols)
