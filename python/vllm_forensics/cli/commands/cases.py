"""`forensics cases`: the crashes that were seen before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vllm_forensics.cli.options import OUTPUT, format_option
from vllm_forensics.cli.output import emit, require_writable, terminal_width, wants_color
from vllm_forensics.model.cases import Case, CaseListing
from vllm_forensics.render.clean import clean

if TYPE_CHECKING:
    from vllm_forensics.render.terminal import TerminalStyle

_FORMAT = format_option()


@click.group("cases")
def command() -> None:
    """Look up which crashes were seen before, how often and since when.

    `forensics core` and `forensics run` record every crash by its signature, each core once, in
    cases.sqlite beside the user's data, or where VLLM_FORENSICS_CASES says.
    """


@command.command("list")
@click.argument("prefix", default="")
@_FORMAT
def list_(prefix: str, output_format: str) -> None:
    """List the known cases, the latest first; only those whose signature begins with PREFIX."""
    from vllm_forensics.investigate.cases import list_cases
    from vllm_forensics.render.cases import render_cases, render_cases_json

    listing = clean(list_cases(prefix))
    if output_format == "json":
        emit(render_cases_json(listing, whole=False), None)
    else:
        emit(render_cases(listing, _style()), None)


@command.command("show")
@click.argument("signature")
@_FORMAT
def show(signature: str, output_format: str) -> None:
    """Show all that is kept of SIGNATURE: it, its hash, or the beginning of either."""
    from vllm_forensics.investigate.cases import the_case
    from vllm_forensics.render.cases import render_case, render_cases_json

    case = _cleaned(the_case(signature))
    if output_format == "json":
        emit(render_cases_json(_listing((case,)), whole=True), None)
    else:
        emit(render_case(case, _style()), None)


@command.command("note")
@click.argument("signature")
@click.argument("text", nargs=-1, required=True)
def note(signature: str, text: tuple[str, ...]) -> None:
    """Keep TEXT with SIGNATURE: it is shown with every further core. An empty TEXT removes it."""
    from vllm_forensics.investigate.cases import note_case

    case = clean(note_case(signature, " ".join(text).strip()))
    click.echo(f"{case.signature}: {case.note or 'without a note'}")


@command.command("forget")
@click.argument("signatures", nargs=-1, required=True, metavar="SIGNATURE...")
def forget(signatures: tuple[str, ...]) -> None:
    """Remove all that is kept of each SIGNATURE: its next core is new again."""
    from vllm_forensics.investigate.cases import forget_cases

    for case in clean(forget_cases(signatures)):
        click.echo(f"{case.signature}: forgotten, with {case.count:,} cores")


@command.command("export")
@OUTPUT
def export(output: str | None) -> None:
    """Write all cases as JSON, with their cores and examples."""
    from vllm_forensics.investigate.cases import list_cases
    from vllm_forensics.render.cases import render_cases_json

    require_writable(output)
    listing = list_cases(whole=True)
    cases = tuple(_cleaned(case) for case in listing.cases)
    emit(render_cases_json(_listing(cases, listing.store), whole=True), output)


def _cleaned(case: Case) -> Case:
    """The example was cleaned when it was kept: it is JSON, which masking may break."""
    return replace(clean(replace(case, example="")), example=case.example)


def _listing(cases: tuple[Case, ...], store: str | None = None) -> CaseListing:
    from vllm_forensics.store.location import cases_path

    return CaseListing(store=clean(store or str(cases_path())), cases=cases)


def _style() -> TerminalStyle:
    from vllm_forensics.render.terminal import TerminalStyle

    return TerminalStyle(width=terminal_width(), color=wants_color(no_color=False, to_file=False))
