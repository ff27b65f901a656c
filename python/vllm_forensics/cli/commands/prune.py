"""`forensics prune`: keep cores within a budget."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_forensics.capture.core_setup import CORE_FOLDER
from vllm_forensics.capture.prune import prune
from vllm_forensics.errors import UsageError


@click.command("prune")
@click.argument("folder", type=click.Path(path_type=Path), default=CORE_FOLDER)
@click.option("--keep", type=click.IntRange(min=0), help="Keep at most so many, the newest.")
@click.option("--max-size", type=float, help="Keep at most so many gigabytes.")
def command(folder: Path, keep: int | None, max_size: float | None) -> None:
    """Remove the oldest cores of FOLDER beyond a number or a size. Other files are not touched."""
    if keep is None and max_size is None:
        raise UsageError("no budget was given", remedy="forensics prune --keep 20 --max-size 50")
    if not folder.is_dir() and folder != Path(CORE_FOLDER):  # that one is made by the first core
        raise UsageError(
            f"{folder} is no folder", remedy="forensics prune --keep 20 FOLDER    # of the cores"
        )
    size = None if max_size is None else int(max_size * 1e9)
    for path in prune(folder, keep=keep, max_bytes=size):
        click.echo(f"removed {path}")
