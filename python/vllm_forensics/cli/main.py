"""`forensics`: the command group. Commands are imported only when they are called or listed."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import sys
from typing import Final, NoReturn

import click

from vllm_forensics import __version__
from vllm_forensics.errors import ForensicsError, UsageError, own_error

_SELDOM: Final = (200_000, 20, 50)
"""Modules and parsed evidence are no garbage: searching for it costs a tenth of a start."""
_COMMANDS: Final = {
    "asan": "explain every sanitizer report in logs: allocate, free, use",
    "build": "rebuild the C++ sources under sanitizers",
    "bundle": "pack a core with what it takes to explain it on another machine",
    "cases": "look up which crashes were seen before, how often and since when",
    "core": "explain core dumps: what died, where, why, and what to do next",
    "doctor": "check whether a crash here leaves evidence, and prove it",
    "log": "say which process died first in a log, of what, and what is only echo",
    "prune": "keep cores within a budget of disk",
    "minify": "cut a core down to what its explanation needs",
    "report": "join logs, cores, sanitizer reports and traces into one incident",
    "run": "run a program so that a crash leaves evidence, and explain it",
    "sandbox": "drive a vLLM's scheduler without a GPU, and watch every block",
    "symbols": "split debug information off a wheel; find it again by build-id",
    "setup": "let this machine keep cores; --restore puts it back",
    "demo": "crash the minimal demos and explain each crash",
}


class _LazyGroup(click.Group):
    """Shows the commands' one-line help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands that there are."""
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command's module."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"vllm_forensics.cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, from the table above."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="forensics")
def cli() -> None:
    """Explain native crashes of C++ extensions, from whatever is left of them."""


def _tell(error: ForensicsError) -> NoReturn:
    from vllm_forensics.cli.output import error_text
    from vllm_forensics.render.clean import escape  # evidence may be quoted in it

    with contextlib.suppress(OSError):  # nobody can be told
        click.echo(error_text(escape(error.message), escape(error.remedy)), err=True)
    sys.exit(2)


def _of_full_disk(error: Exception) -> ForensicsError | None:
    """No mistake of ours: what was to be written found no room."""
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC:
        return None
    where = error.filename or "standard output or a temporary file"
    return UsageError(
        f"{where} cannot be written: {error.strerror}",
        remedy="df -h . /tmp    # TMPDIR=FOLDER names another place for temporary files",
    )


def main() -> None:
    """Run the command line; every error is shown as what happened and what to do."""
    gc.set_threshold(*_SELDOM)
    try:
        # Outside of standalone mode, click returns the status of an Exit instead of raising it.
        sys.exit(cli.main(standalone_mode=False))
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        sys.exit(2)
    except click.Abort:
        sys.exit(130)
    except ForensicsError as error:
        _tell(error)
    except Exception as error:  # noqa: BLE001 - a mistake of ours is told like the others
        _tell(_of_full_disk(error) or own_error(error))
    finally:
        gc.freeze()  # else the interpreter's end searches all there is: another twentieth
