"""`forensics sandbox replay`: a recorded run, fed to an engine again."""

from __future__ import annotations

from typing import Any

import click

from vllm_forensics.cli.output import require_writable
from vllm_forensics.cli.sandbox_compare import comparison_options, end_of_comparison
from vllm_forensics.cli.sandbox_scenario import Options, add_scenario_options, say_fetching


def replay_command(run: click.Command) -> click.Command:
    """The command, with the options of `run`."""

    @click.command("replay", short_help="A recorded run, fed to an engine again.")
    @click.argument("recording", metavar="RECORDING|LOG")
    @click.option(
        "--steps-a-second",
        type=click.IntRange(1, 10_000),
        default=20,
        show_default=True,
        help="Of a log, which has seconds and no steps: when requests came.",
    )
    @comparison_options
    @click.pass_context
    def replay(
        context: click.Context, /, recording: str, steps_a_second: int, **given: Any
    ) -> None:
        """Feed a recorded run to its own engine again, or to another (--vllm, --engine).

        RECORDING is what `sandbox run --events FILE` wrote, the trace of a live vLLM, or a vLLM's
        own log. What it does not tell is assumed, and said. The options change the recorded run.

        Exit status: 0 the replay decides as was recorded, 1 it parts, 2 it could not be replayed.
        """
        from vllm_forensics.investigate.sandbox_recording import read_recording
        from vllm_forensics.investigate.sandbox_replay import replay as replayed
        from vllm_forensics.sandbox.log_replay import Assumed

        for file in (given["output"], given["picture"]):
            require_writable(file)
        options = Options.of(run, context)
        usual = Assumed()
        assumed = Assumed(
            steps_a_second=steps_a_second,
            **{
                name: options.given.get(name, getattr(usual, name))
                for name in ("prompt_len", "max_tokens", "block_size", "gpu_blocks")
            },
        )
        found = read_recording(recording, assumed)
        end_of_comparison(replayed(found, options.change_of(found), on_fetch=say_fetching), given)

    return add_scenario_options(replay, run)
