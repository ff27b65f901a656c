#!/usr/bin/env python3
"""Print what every command says of itself, as a page: docs/reference/commands.md is this output.

python scripts/command_reference.py > docs/reference/commands.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from vllm_forensics.cli.main import cli

_HEAD: Final = """# Commands

What `forensics COMMAND --help` says, of every command. Written by `scripts/command_reference.py`.
"""
_WIDTH: Final = 100


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_entries("forensics", cli, None)])


def _entries(name: str, command: click.Command, above: click.Context | None) -> Iterator[str]:
    context = click.Context(
        command, info_name=name, parent=above, max_content_width=_WIDTH, terminal_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )  # fmt: skip
    yield f"## {context.command_path}\n\n```\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _entries(below, found, context)


if __name__ == "__main__":
    click.echo(page(), nl=False)
