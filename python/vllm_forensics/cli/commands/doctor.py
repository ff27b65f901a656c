"""`forensics doctor`: will a crash here leave evidence?"""

from __future__ import annotations

from pathlib import Path

import click

from vllm_forensics.cli.options import NO_COLOR, OUTPUT, format_option
from vllm_forensics.cli.output import emit, terminal_width, wants_color
from vllm_forensics.investigate.doctor import examine
from vllm_forensics.render.clean import clean
from vllm_forensics.render.doctor import render_checkup, render_checkup_json
from vllm_forensics.render.terminal import TerminalStyle


@click.command("doctor")
@format_option()
@OUTPUT
@NO_COLOR
def command(output_format: str, output: str | None, no_color: bool) -> None:  # noqa: FBT001
    """Check whether a crash in this folder would leave evidence, and prove it by crashing a child.

    Exit status: 0 cores are written here, 1 they are not.
    """
    checkup = clean(examine(Path.cwd()))
    if output_format == "json":
        emit(render_checkup_json(checkup), output)
    else:
        style = TerminalStyle(
            width=terminal_width(),
            color=wants_color(no_color=no_color, to_file=output is not None),
        )
        emit(render_checkup(checkup, style), output)
    raise click.exceptions.Exit(0 if checkup.is_ready else 1)
