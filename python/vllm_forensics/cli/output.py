"""What the commands share: where text goes, how wide it is, whether it has colour."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

import click

from vllm_forensics.errors import UsageError

_EACH_S: Final = 0.1
READER_GONE: Final = 128 + 13
"""What a shell reports for a program that SIGPIPE ended."""


def wants_color(*, no_color: bool, to_file: bool) -> bool:
    """Colour only for a terminal, and not where NO_COLOR, CI or --no-color speak against it."""
    refused = no_color or to_file or bool(os.environ.get("NO_COLOR")) or bool(os.environ.get("CI"))
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None: it was closed
    return not refused and is_terminal and os.environ.get("TERM") != "dumb"


def error_text(message: str, remedy: str) -> str:
    """An error as every command shows it: what happened, and below it what to do."""
    return f"error  {message}\n       {remedy}"


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


class Output:
    """Standard output, or a file that is made at the first piece of text."""

    def __init__(self, output: str | None) -> None:
        """`output` is the file's path."""
        self._output = output
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            with _told_if_unwritable(self._output):
                self._file.close()

    def write(self, text: str) -> None:
        """Write one piece, at once.

        Raises:
            UsageError: the file, or standard output, cannot be written.

        """
        if self._output is None:
            _print(text)
            return
        with _told_if_unwritable(self._output):
            if self._file is None:
                self._file = Path(self._output).open("w", encoding="utf-8")  # noqa: SIM115
            self._file.write(text)
            self._file.flush()


def emit(text: str, output: str | None) -> None:
    """Write to standard output or to a file.

    Raises:
        UsageError: it cannot be written.

    """
    with Output(output) as out:
        out.write(text)


def _print(text: str) -> None:
    stream = sys.stdout
    if stream is None:
        raise UsageError("standard output is closed", remedy="give --output FILE")
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # click would end with 1, which means "a fault found". At exit the interpreter flushes
        # once more: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise SystemExit(READER_GONE) from None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise UsageError(
            f"standard output cannot be written: {error.strerror}", remedy="give --output FILE"
        ) from error


@contextlib.contextmanager
def _told_if_unwritable(output: str | None) -> Iterator[None]:
    try:
        yield
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
    with _told_if_unwritable(output), Path(output).open("a", encoding="utf-8"):
        pass


class ProgressLine:
    """One line on standard error, for people only, that is written over until all is done."""

    def __init__(self, noun: str) -> None:
        """`noun` is what is counted, in the plural."""
        self._noun = noun
        self._started_s = time.monotonic()
        self._shown_s = 0.0
        self._is_shown = sys.stderr.isatty() and not os.environ.get("CI")

    def update(self, done: int, total: int, note: str = "") -> None:
        """Show how far it is, with `note` and the time that is left; at most ten times a second."""
        now_s = time.monotonic()
        if not self._is_shown or (now_s - self._shown_s < _EACH_S and done < total):
            return
        self._shown_s = now_s
        left_s = (now_s - self._started_s) / done * (total - done)
        parts = [f"{done:,} of {total:,} {self._noun}", note, f"{_span(left_s)} left"]
        text = "" if done == total else " · ".join(part for part in parts if part)
        click.echo(f"\r\x1b[K{text[: terminal_width() - 1]}", err=True, nl=False)

    def say(self, text: str) -> None:
        """A line that stays, above the other one."""
        if self._is_shown:
            click.echo(f"\r\x1b[K{text[: terminal_width() - 1]}", err=True)


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
