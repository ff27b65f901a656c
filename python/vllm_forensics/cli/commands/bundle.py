"""`forensics bundle`: a core with all that it takes to explain it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import click

from vllm_forensics.cli.options import format_option
from vllm_forensics.cli.output import emit, terminal_width, wants_color
from vllm_forensics.render.clean import clean


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCommandOptions:
    """What was asked for on the command line."""

    output: str | None
    budget: int
    include_secrets: bool
    executable: str | None
    sysroot: str | None
    symbols: tuple[str, ...]
    output_format: str


@click.command("bundle")
@click.argument("core", type=click.Path(readable=False))
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    help="Where it goes. Default: CORE.bundle.tar.zst in the working directory.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1, max=8000),
    default=512,
    show_default=True,
    help="MB of what is in it, before it is compressed; half of it at most for the core.",
)
@click.option("--include-secrets", is_flag=True, help="Keep environment and arguments.")
@click.option(
    "--executable", type=click.Path(exists=True), help="The program, if it is elsewhere here."
)
@click.option(
    "--sysroot",
    type=click.Path(exists=True, file_okay=False),
    help="A folder with the files of the machine that crashed: a container's, an image's.",
)
@click.option(
    "--symbols",
    multiple=True,
    metavar="PLACE",
    help="Debug information to pack too: a folder, wheel, zip or file; may be given again.",
)
@format_option()
def command(core: str, **options: object) -> None:
    """Pack CORE with the modules on its stacks, the program and the interpreter.

    `forensics core BUNDLE` explains it anywhere, with the same names, lines and arguments; tar
    opens it too. Only files of the very build that crashed go in. A core that is larger than half
    of the budget is cut down; environment and arguments are taken out of it.
    """
    from vllm_forensics.investigate.bundle import BundleOptions, make_bundle
    from vllm_forensics.investigate.symbol_index import open_symbols
    from vllm_forensics.investigate.triage import TriageOptions
    from vllm_forensics.render.bundle import render_bundle, render_bundle_json
    from vllm_forensics.render.terminal import TerminalStyle

    chosen = BundleCommandOptions(**options)  # type: ignore[arg-type]
    with open_symbols(chosen.symbols) as symbols:
        made = make_bundle(
            core,
            BundleOptions(
                budget_bytes=chosen.budget * 1_000_000,
                secrets=chosen.include_secrets,
                output=chosen.output,
            ),
            TriageOptions(executable=chosen.executable, sysroot=chosen.sysroot, symbols=symbols),
        )
    shown = clean(made)
    if chosen.output_format == "json":
        emit(render_bundle_json(shown), None)
        return
    color = wants_color(no_color=False, to_file=False)
    emit(render_bundle(shown, TerminalStyle(width=terminal_width(), color=color)), None)
