"""`forensics sandbox explore`: the orders in which things can happen."""

from __future__ import annotations

from typing import Any

import click

from vllm_forensics.cli.options import NO_COLOR, OUTPUT, format_option
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.cli.sandbox_scenario import (
    add_scenario_options,
    say_fetching,
    wanted_of,
)

_COUNT = click.IntRange(min=1, max=1_000_000)


def explore_command(run: click.Command) -> click.Command:
    """The command, with the options of `run`; a load and a pool that can be explored."""

    @click.command("explore", short_help="Every order of steps, transfers and ends.")
    @click.option(
        "--depth",
        type=_COUNT,
        default=24,
        show_default=True,
        help="The longest order, in actions.",
    )
    @click.option(
        "--states", type=_COUNT, default=5000, show_default=True, help="Stop at so many states."
    )
    @click.option(
        "--seconds", type=_COUNT, default=60, show_default=True, help="Stop after so long."
    )
    @click.option(
        "--aborts",
        type=click.IntRange(0, 8),
        default=1,
        show_default=True,
        help="How many clients may go away.",
    )
    @click.option(
        "--stops",
        type=click.IntRange(0, 8),
        default=1,
        show_default=True,
        help="How many requests may end before their last token.",
    )
    @click.option(
        "--gpu-blocks", type=_COUNT, default=6, show_default=True, help="Blocks of the pool."
    )
    @click.option(
        "--requests", type=_COUNT, default=3, show_default=True, help="Requests, all alike."
    )
    @click.option(
        "--prompt-len", type=_COUNT, default=40, show_default=True, help="Tokens of each prompt."
    )
    @click.option(
        "--max-tokens", type=_COUNT, default=3, show_default=True, help="Tokens of each output."
    )
    @click.option(
        "--emit-test",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Write a pytest file that plays the order that was found, and guards it later.",
    )
    @format_option()
    @OUTPUT
    @click.option("--quiet", is_flag=True, help="No progress.")
    @NO_COLOR
    def explore(**given: Any) -> None:
        """Try every order in which things can happen to a small load, the short ones first.

        What can happen: the scheduler sends one more step (with --async-scheduling while another
        is in flight), the worker completes the oldest one, its output ends a request that could
        go on, a transfer is done (--connector), a client goes away. States that were seen before
        are not gone on with. What breaks a rule is told by the shortest order that leads there.

        Exit status: 0 nothing broke, 1 something did, 2 it could not be explored.
        """
        from vllm_forensics.investigate.sandbox_explore import explore_sandbox
        from vllm_forensics.model.sandbox_explore import Bounds
        from vllm_forensics.render.clean import clean

        require_writable(given["output"])
        require_writable(given["emit_test"])
        bounds = Bounds(
            depth=given["depth"],
            states=given["states"],
            aborts=given["aborts"],
            stops=given["stops"],
            seconds=given["seconds"],
        )
        found = clean(
            explore_sandbox(
                wanted_of(given),
                bounds,
                on_fetch=say_fetching,
                on_progress=None if given["quiet"] else _say_progress,
            )
        )
        if given["output_format"] == "json":
            from vllm_forensics.render.sandbox_explore_wire import render_exploration_json

            text = render_exploration_json(found)
        else:
            from vllm_forensics.render.sandbox_explore import render_exploration
            from vllm_forensics.render.terminal import TerminalStyle

            color = wants_color(no_color=given["no_color"], to_file=given["output"] is not None)
            text = render_exploration(found, TerminalStyle(width=terminal_width(), color=color))
        emit(text, given["output"])
        if given["emit_test"] is not None and not found.healthy:
            from vllm_forensics.render.sandbox_test_file import render_sequence_test

            emit(render_sequence_test(found, given["vllm"]), given["emit_test"])
            click.echo(f"test written: {given['emit_test']}", err=True)
        raise click.exceptions.Exit(0 if found.healthy else 1)

    return add_scenario_options(explore, run)


def _say_progress(states: int, depth: int) -> None:
    if states % 10 == 0:
        click.echo(f"{states:,} states, orders of {depth} actions …", err=True)
