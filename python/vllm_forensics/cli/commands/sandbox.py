"""`forensics sandbox`: a real scheduler without a GPU, every block watched."""

from __future__ import annotations

from typing import Any

import click

from vllm_forensics.cli.options import NO_COLOR, OUTPUT, format_option
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.cli.sandbox_bisect import bisect_command
from vllm_forensics.cli.sandbox_compare import diff_command
from vllm_forensics.cli.sandbox_explore import explore_command
from vllm_forensics.cli.sandbox_replay import replay_command
from vllm_forensics.cli.sandbox_scenario import say_fetching, wanted_of
from vllm_forensics.cli.sandbox_trace import show_command
from vllm_forensics.model.sandbox import CheckWhen, Generation, Outcome, Plant, Policy


@click.group("sandbox")
def command() -> None:
    """Drive a vLLM's own scheduler and block manager, without a GPU and without torch.

    Every block is watched from allocation to release, and each step's block tables are checked as
    a worker would use them.
    """


class _Check(click.ParamType[tuple[CheckWhen, int]]):
    """each, end, or a number of steps."""

    name = "each|N|end"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[CheckWhen, int]:
        """When to check, and how often."""
        if value in {"each", "end"}:
            return CheckWhen(value), 1
        number = value.removeprefix("every").strip(" :=")
        if number.isdecimal() and 0 < int(number) < 10**9:
            return CheckWhen.EVERY, int(number)
        return self.fail(f"{value!r} is not each, end, or a number of steps", param, ctx)


class _When(click.ParamType[tuple[str, int]]):
    """A step, every N steps, or the end."""

    name = "STEP|every N|end"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Which of them, and the number."""
        if value == "end":
            return "end", 0
        word = "every" if value.startswith("every") else "step"
        number = value.removeprefix("every").strip(" :=")
        if number.isdecimal() and len(number) < 10 and (word == "step" or int(number) > 0):
            return word, int(number)
        return self.fail(f"{value!r} is not a step, every N, or end", param, ctx)


_COUNT = click.IntRange(min=1, max=1_000_000)


@command.command("run")
@click.option(
    "--vllm",
    metavar="PATH|VERSION",
    help="Which vLLM: a checkout, site-packages or .whl, a version that pip fetches once (0.32.0, "
    "0.4.2), or `installed`. Without it: our own small engine.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Import the whole vLLM of this Python, with torch, and not the scheduler's modules alone.",
)
@click.option(
    "--drive-native",
    is_flag=True,
    help="Let the decisions allocate, write, read, copy and free real memory. From a sanitizer's "
    "build on PYTHONPATH (forensics build --asan) a wrong one ends in its report.",
)
@click.option(
    "--engine",
    type=click.Choice([*(g.value for g in Generation), "native"]),
    help="Default: what --vllm is. native: our own, over real memory.",
)
@click.option(
    "--gpu-blocks", type=_COUNT, default=100, show_default=True, help="Blocks of the pool."
)
@click.option(
    "--cpu-blocks",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    help="Blocks to swap to (v0 and our own engine).",
)
@click.option("--block-size", type=_COUNT, default=16, show_default=True, help="Tokens of a block.")
@click.option(
    "--best-of",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Continuations of each prompt (v0).",
)
@click.option(
    "--sliding-window", type=_COUNT, metavar="TOKENS", help="Attention sees so many tokens back."
)
@click.option("--requests", type=_COUNT, default=10, show_default=True, help="Requests, all alike.")
@click.option(
    "--prompt-len", type=_COUNT, default=170, show_default=True, help="Tokens of each prompt."
)
@click.option(
    "--max-tokens", type=_COUNT, default=16, show_default=True, help="Tokens of each output."
)
@click.option(
    "--seed", type=int, help="Draw lengths (half to one and a half) and arrivals from this seed."
)
@click.option(
    "--load",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help='A line of JSON each: {"arrival": 0, "prompt": 170, "output": 16}.',
)
@click.option(
    "--trigger",
    type=click.Choice(
        ["exhaustion", "lone-growth", "swap-exhaustion", "fork-window", "abort-in-flight"]
    ),
    help="The smallest load with this effect in this pool, and the options that it needs: "
    "swap-exhaustion and fork-window are 0.4's, abort-in-flight has a step in flight.",
)
@click.option(
    "--plant",
    type=click.Choice([p.value for p in Plant]),
    help="A fault that our own engine then has: second-occupancy notes twice which blocks are "
    "taken, and forgets one of the notes when it swaps; early-free gives a block back that is "
    "still used.",
)
@click.option(
    "--prefix-caching/--no-prefix-caching", default=None, help="Default: as this vLLM has it."
)
@click.option(
    "--chunked-prefill/--no-chunked-prefill", default=None, help="Default: as this vLLM has it."
)
@click.option(
    "--async-scheduling",
    is_flag=True,
    help="Schedule the next step while one is still in flight (v1, our own engine).",
)
@click.option(
    "--spec-tokens",
    type=click.IntRange(0, 64),
    default=0,
    show_default=True,
    help="Drafts a step, of which none, one, two and so on are accepted, in turns (v1).",
)
@click.option(
    "--hybrid",
    is_flag=True,
    help="Layers that see everything besides those with the --sliding-window (v1).",
)
@click.option(
    "--connector",
    type=click.IntRange(1, 1000),
    metavar="STEPS",
    help="A made-up KV connector: half of each prompt is loaded, and each end is sent, while so "
    "many steps pass (v1).",
)
@click.option(
    "--policy",
    type=click.Choice([p.value for p in Policy]),
    default="fcfs",
    show_default=True,
    help="Whose turn it is.",
)
@click.option(
    "--max-batched-tokens",
    type=_COUNT,
    help="Tokens of one step. Default: 2048; a whole sequence where prompts are not cut.",
)
@click.option(
    "--max-seqs", type=_COUNT, default=128, show_default=True, help="Requests of one step."
)
@click.option(
    "--max-model-len", type=_COUNT, default=8192, show_default=True, help="The longest sequence."
)
@click.option(
    "--block-manager",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Which one of 0.4.",
)
@click.option(
    "--max-steps", type=_COUNT, default=100_000, show_default=True, help="Give up after so many."
)
@click.option(
    "--check",
    type=_Check(),
    default="each",
    show_default=True,
    metavar="each|N|end",
    help="When to look at the invariants: each step, every N steps, or at the end.",
)
@click.option(
    "--events",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the whole run, for diff and replay: lines of JSON, or a table if it is .parquet.",
)
@click.option(
    "--snapshot",
    "snapshots",
    type=_When(),
    multiple=True,
    metavar="STEP|every N|end",
    help="Show the whole state after this step, and keep it with --events. May be repeated.",
)
@click.option(
    "--emit-test",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a pytest file that fails until this run is healthy, and guards it later.",
)
@click.option(
    "--no-compare", is_flag=True, help="Do not look for the parameter that makes the run healthy."
)
@format_option()
@OUTPUT
@NO_COLOR
def run(**given: Any) -> None:
    """Run a load and tell what died, at which step, and the life of the block that it is about.

    Exit status: 0 all requests were done and no rule was broken, 1 otherwise, 2 it could not run.
    """
    from vllm_forensics.investigate.sandbox import run_sandbox
    from vllm_forensics.render.clean import clean

    require_writable(given["output"])
    require_writable(given["emit_test"])
    wanted = wanted_of(given)
    result = clean(run_sandbox(wanted, on_fetch=say_fetching))
    if given["output_format"] == "json":
        from vllm_forensics.render.sandbox_wire import render_sandbox_json

        text = render_sandbox_json(result)
    else:
        from vllm_forensics.render.sandbox import render_sandbox
        from vllm_forensics.render.terminal import TerminalStyle

        color = wants_color(no_color=given["no_color"], to_file=given["output"] is not None)
        text = render_sandbox(result, TerminalStyle(width=terminal_width(), color=color))
    emit(text, given["output"])
    if given["emit_test"] is not None:
        from vllm_forensics.render.sandbox_test_file import render_test_file

        emit(render_test_file(result, given["vllm"]), given["emit_test"])
        click.echo(f"test written: {given['emit_test']}", err=True)
    raise click.exceptions.Exit(0 if result.outcome is Outcome.FINISHED else 1)


for _more in (diff_command(run), replay_command(run), bisect_command(run), show_command):
    command.add_command(_more)
command.add_command(explore_command(run))
