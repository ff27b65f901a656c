"""`forensics minify`: a core at a hundredth of its size."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_forensics.capture.supervisor import minify_core
from vllm_forensics.errors import UsageError


@click.command("minify")
@click.argument("core", type=click.Path(exists=True, dir_okay=False))
@click.argument("target", type=click.Path(dir_okay=False), required=False)
@click.option(
    "--budget", type=click.IntRange(min=1), default=64, show_default=True, help="MB of memory."
)
def command(core: str, target: str | None, budget: int) -> None:
    """Cut CORE down to what its explanation needs: stacks, registers, what they point at.

    The result is a core that gdb, eu-stack and pystack read. TARGET defaults to CORE.mini.
    """
    chosen = target or f"{core}.mini"
    if not Path(chosen).parent.is_dir():
        raise UsageError(f"there is no folder for {chosen}", remedy="give another TARGET")
    minify_core(core, chosen, budget=budget << 20)
    before, after = Path(core).stat().st_blocks * 512, Path(chosen).stat().st_blocks * 512
    click.echo(f"{chosen}: {after / 1e6:.1f} MB of {before / 1e6:.1f} MB on disk")
