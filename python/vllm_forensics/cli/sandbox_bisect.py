"""`forensics sandbox bisect`: in which version of vLLM a behaviour changed."""

from __future__ import annotations

from typing import Any

import click

from vllm_forensics.cli.options import NO_COLOR, OUTPUT, format_option
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.cli.sandbox_scenario import (
    Options,
    add_scenario_options,
    is_file,
    say_fetching,
)


def bisect_command(run: click.Command) -> click.Command:
    """The command, with the options of `run`."""

    @click.command(
        "bisect",
        short_help="The version in which a behaviour changed.",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("scenario", default="")
    @click.option(
        "--versions",
        required=True,
        metavar="A..B|A,B,C",
        help="The range to search, looked up in the package index; or a list.",
    )
    @click.option(
        "--look-at",
        type=click.Choice(["outcome", "decisions", "order"]),
        default="outcome",
        show_default=True,
        help="What counts as behaviour: how the run ends, each decision, or the order of the free "
        "list too.",
    )
    @format_option()
    @OUTPUT
    @NO_COLOR
    @click.pass_context
    def bisect(context: click.Context, /, scenario: str, **given: Any) -> None:
        """Search released versions for the one in which a run began to behave otherwise.

        SCENARIO is a load (`--load FILE` of sandbox run), a recording, or options in one word; left
        out, the options that stand apart. Wheels are fetched by pip, once, and as few as a binary
        search takes. A version that cannot be driven is skipped, and said.

        Exit status: 0 both ends behave alike, 1 the change was found, 2 it could not be searched.
        """
        from vllm_forensics.investigate.sandbox_bisect import Told
        from vllm_forensics.investigate.sandbox_bisect import bisect as search
        from vllm_forensics.model.sandbox_bisect import LookAt
        from vllm_forensics.render.clean import clean
        from vllm_forensics.render.sandbox_bisect import render_bisection, render_bisection_json
        from vllm_forensics.render.terminal import TerminalStyle

        require_writable(given["output"])
        wanted = _scenario(scenario, Options.of(run, context))
        told = Told(fetch=say_fetching, trial=lambda name: click.echo(f"trying {name}", err=True))
        found = clean(search(wanted, given["versions"], LookAt(given["look_at"]), told=told))
        if given["output_format"] == "json":
            text = render_bisection_json(found)
        else:
            color = wants_color(no_color=given["no_color"], to_file=given["output"] is not None)
            text = render_bisection(found, TerminalStyle(width=terminal_width(), color=color))
        emit(text, given["output"])
        raise click.exceptions.Exit(0 if found.changed_in is None else 1)

    command = add_scenario_options(bisect, run)
    command.params = [one for one in command.params if one.name not in {"vllm", "engine"}]
    return command


def _scenario(text: str, options: Options) -> Any:
    """What is run on each version: a recording's load, a load file's, or what the options say."""
    if not is_file(text):
        return options.scenario(text)
    from vllm_forensics.investigate.sandbox_recording import is_recording, read_recording

    if is_recording(text):
        return options.change_of(read_recording(text))
    return options.with_load(text)
