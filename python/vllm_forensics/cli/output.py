"""What the commands share: where text goes, how wide it is, whether it has colour."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from vllm_forensics.errors import UsageError

READER_GONE: Final = 128 + 13
"""What a shell reports for a program that SIGPIPE ended."""


def wants_color(*, no_color: bool, to_file: bool) -> bool:
    """Colour only for a terminal, and not where NO_COLOR, CI or --no-color speak against it."""
    refused = no_color or to_file or bool(os.environ.get("NO_COLOR")) or bool(os.environ.get("CI"))
    return not refused and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def emit(text: str, output: str | None) -> None:
    """Write to standard output or to a file.

    Raises:
        UsageError: the file cannot be written.

    """
    if output is None:
        stream = sys.stdout
        encoding = stream.encoding or "utf-8"
        try:
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except BrokenPipeError:
            # click would end with 1, which means "a fault found". At exit the interpreter flushes
            # once more: into nothing.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            raise SystemExit(READER_GONE) from None
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror}", remedy="give another --output FILE"
        ) from error


def require_writable(output: str | None) -> None:
    """Find out before a long run that its report could not be written after it.

    Raises:
        UsageError: the file cannot be written.

    """
    if output is None:
        return
    try:
        with Path(output).open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror}", remedy="give another --output FILE"
        ) from error


def progress(done: int, total: int) -> None:
    """A counter on standard error, for people only."""
    if sys.stderr.isatty() and not os.environ.get("CI"):
        end = "\n" if done == total else ""
        click.echo(f"\r{done} of {total} cores", err=True, nl=False)
        if end:
            click.echo("\r" + " " * 40 + "\r", err=True, nl=False)
