"""`forensics setup`: let this machine keep cores, and put it back."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vllm_forensics.capture.core_setup import DEFAULT_PATTERN, restore, set_up
from vllm_forensics.capture.prune import prune


@click.command("setup")
@click.option("--pattern", default=DEFAULT_PATTERN, show_default=True, help="See core(5).")
@click.option("--restore", "put_back", is_flag=True, help="Put back what was there before.")
@click.option("--keep", type=click.IntRange(min=1), help="Keep at most so many cores.")
@click.option("--max-size", type=float, help="Keep at most so many gigabytes of cores.")
def command(pattern: str, put_back: bool, keep: int | None, max_size: float | None) -> None:  # noqa: FBT001
    """Set core_pattern and lift the calling shell's core limit; prints before and after.

    Needs root for the pattern; without it nothing is changed.
    """
    changes = restore() if put_back else set_up(pattern, os.getppid())
    for change in changes:
        click.echo(f"{change.name}\n  before  {change.before}\n  after   {change.after}")
    if keep is not None or max_size is not None:
        size = None if max_size is None else int(max_size * 1e9)
        removed = prune(Path(pattern).parent, keep=keep, max_bytes=size)
        click.echo(f"{len(removed)} old cores removed; keep it so from cron: forensics prune")
    if not put_back:
        click.echo("\nnext  forensics doctor    # proves it\n      forensics setup --restore")
