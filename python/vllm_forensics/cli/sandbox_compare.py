"""`forensics sandbox diff`: two runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import click

from vllm_forensics.cli.options import NO_COLOR, OUTPUT, format_option
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.cli.sandbox_scenario import (
    Options,
    add_scenario_options,
    is_file,
    say_fetching,
)

if TYPE_CHECKING:
    from vllm_forensics.model.sandbox_diff import SandboxDiff


def comparison_options(command: Callable[..., None]) -> Callable[..., None]:
    """How a comparison is shown."""
    for option in (
        NO_COLOR,
        OUTPUT,
        format_option(),
        click.option(
            "--picture",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Draw both pools, block by block and step by step, as SVG (or HTML, by its name).",
        ),
    ):
        command = option(command)
    return command


def end_of_comparison(found: SandboxDiff, given: Mapping[str, Any]) -> NoReturn:
    """Show a comparison, and end with the status that it means."""
    from vllm_forensics.model.sandbox_diff import Verdict
    from vllm_forensics.render.clean import clean

    found = clean(found)
    if given["output_format"] == "json":
        from vllm_forensics.render.sandbox_diff_wire import render_diff_json

        text = render_diff_json(found)
    else:
        from vllm_forensics.render.sandbox_diff import render_diff
        from vllm_forensics.render.terminal import TerminalStyle

        color = wants_color(no_color=given["no_color"], to_file=given["output"] is not None)
        text = render_diff(found, TerminalStyle(width=terminal_width(), color=color))
    emit(text, given["output"])
    if given["picture"] is not None:
        from vllm_forensics.render.sandbox_picture import render_picture

        emit(render_picture(found, html=given["picture"].endswith("html")), given["picture"])
        click.echo(f"picture written: {given['picture']}", err=True)
    raise click.exceptions.Exit(1 if found.verdict is Verdict.DIFFERENT else 0)


def diff_command(run: click.Command) -> click.Command:
    """The command, with the options of `run`."""

    @click.command(
        "diff",
        short_help="Where and why two runs part.",
        # A scenario may be spelt as it would be on the command line, in quotes.
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("left", metavar="A")
    @click.argument("right", metavar="B")
    @comparison_options
    @click.pass_context
    def diff(context: click.Context, /, left: str, right: str, **given: Any) -> None:
        """Compare two runs: the first step in which they part, and why.

        A and B are recordings (`sandbox run --events FILE`), or scenarios: options of `sandbox run`
        in one word, such as best-of=3 or "vllm=0.4.2 best-of=3"; "" for the options that stand
        apart. Next to a recording, a scenario is that recording's run with a change.

        Exit status: 0 the same decisions in every step, 1 they part, 2 it could not be compared.
        """
        from vllm_forensics.investigate.sandbox_diff import Scenario, compare_scenarios
        from vllm_forensics.investigate.sandbox_recording import read_recording

        files = [read_recording(text) if is_file(text) else None for text in (left, right)]
        base = files[0] or files[1]
        for file in (given["output"], given["picture"]):
            require_writable(file)
        options = Options.of(run, context)
        sides = [
            Scenario(name=text or "as given", wanted=options.scenario(text, base))
            if file is None
            else Scenario(name=text, recording=file)
            for text, file in zip((left, right), files, strict=True)
        ]
        end_of_comparison(compare_scenarios(sides[0], sides[1], on_fetch=say_fetching), given)

    return add_scenario_options(diff, run)
