"""Options that many commands have, each written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def format_option(*more: str) -> Decorator:
    """`--format`: text, JSON, and what else the command can print."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json", *more]),
        default="text",
        help="How to print.",
    )


OUTPUT: Final = click.option(
    "--output", type=click.Path(dir_okay=False), help="Write to this file."
)
QUIET: Final = click.option("-q", "--quiet", is_flag=True, help="Only what happened.")
NO_COLOR: Final = click.option("--no-color", is_flag=True, help="No colours.")
INCLUDE_SECRETS: Final = click.option(
    "--include-secrets", is_flag=True, help="Do not mask passwords and tokens."
)
ALL_FRAMES: Final = click.option(
    "--all-frames", is_flag=True, help="Show the runtime's frames too."
)
NO_STORE: Final = click.option(
    "--no-store", is_flag=True, help="Neither ask nor change what was seen before."
)
TIMEOUT: Final = click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=60.0,
    show_default=True,
    help="Seconds for each answer of gdb.",
)
