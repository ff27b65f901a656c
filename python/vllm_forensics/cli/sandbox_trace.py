"""`forensics sandbox show`: what a live engine's trace tells."""

from __future__ import annotations

from typing import Any

import click

from vllm_forensics.cli.options import NO_COLOR, OUTPUT
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color


@click.command("show", short_help="What the trace of a live engine tells.")
@click.argument("traces", nargs=-1, required=True, type=click.Path(), metavar="TRACE...")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How to print; of several traces as JSON, one line each.",
)
@OUTPUT
@NO_COLOR
def show_command(traces: tuple[str, ...], **given: Any) -> None:
    """Check each step of a trace as a worker would use it, and tell how the trace ends.

    TRACE is a file that a vLLM with VLLM_FORENSICS_TRACE=DIR wrote, or a folder of them. No vLLM
    is needed here.

    Exit status: 0 every request came to its end and no rule was broken, 1 otherwise, 2 unreadable.
    """
    from vllm_forensics.investigate.sandbox_trace import show_trace, traces_in
    from vllm_forensics.model.sandbox import Outcome
    from vllm_forensics.render.clean import clean

    require_writable(given["output"])
    files = traces_in(traces)
    runs = [(clean(file), clean(show_trace(file))) for file in files]
    if given["output_format"] == "json":
        from vllm_forensics.render.sandbox_wire import render_sandbox_json

        texts = [render_sandbox_json(run) for _, run in runs]
    else:
        from vllm_forensics.render.sandbox import render_sandbox
        from vllm_forensics.render.terminal import TerminalStyle

        color = wants_color(no_color=given["no_color"], to_file=given["output"] is not None)
        style = TerminalStyle(width=terminal_width(), color=color)
        texts = [
            (f"{file}\n" if len(runs) > 1 else "") + render_sandbox(run, style)
            for file, run in runs
        ]
    emit("\n".join(texts) if given["output_format"] == "text" else "".join(texts), given["output"])
    done = all(run.outcome is Outcome.FINISHED for _, run in runs)
    raise click.exceptions.Exit(0 if done else 1)
