"""`forensics symbols`: debug information that is published and kept apart from the code."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_forensics.cli.options import format_option
from vllm_forensics.cli.output import emit
from vllm_forensics.render.clean import clean

_FORMAT = format_option()


@click.group("symbols")
def command() -> None:
    """Ship small wheels, and still get lines out of their crashes.

    `split` takes the debug information out of a wheel into an archive of its own; `forensics core
    --symbols` puts the two together again by build-id; `list` says what there is.
    """


@command.command("split")
@click.argument("wheel", type=click.Path())
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("stripped"),
    show_default=True,
    metavar="DIR",
    help="Where both halves go.",
)
@_FORMAT
def split(wheel: str, output: Path, output_format: str) -> None:
    """Split WHEEL into one without debug information and NAME-symbols.zip.

    The stripped wheel keeps its name, its other files and the names of its functions. The same
    input gives the same bytes.
    """
    from vllm_forensics.investigate.wheel_split import split_wheel
    from vllm_forensics.render.symbols import render_split, render_split_json

    found = clean(split_wheel(wheel, output))
    emit(render_split_json(found) if output_format == "json" else render_split(found), None)


@command.command("list")
@click.argument("places", nargs=-1, required=True, type=click.Path())
@_FORMAT
def list_(places: tuple[str, ...], output_format: str) -> None:
    """List what PLACES hold, by build-id: folders, wheels, zip archives, ELF files.

    Exit status: 0 at least one file has lines, 1 none has.
    """
    from vllm_forensics.investigate.symbol_index import list_places
    from vllm_forensics.render.symbols import render_listing, render_listing_json

    listing = clean(list_places(places))
    render = render_listing_json if output_format == "json" else render_listing
    emit(render(listing), None)
    raise click.exceptions.Exit(0 if any(file.has_lines for file in listing.files) else 1)
