"""`forensics demo`: real crashes, explained."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import click

from vllm_forensics.capture.build import BuildPlan, build_specimen
from vllm_forensics.cli.commands.build import show_step
from vllm_forensics.cli.options import NO_COLOR
from vllm_forensics.cli.output import emit, terminal_width, wants_color
from vllm_forensics.investigate.demo import add_sanitized, choose_demos, list_demos, run_demos
from vllm_forensics.investigate.triage import TriageOptions, own_frames
from vllm_forensics.model.demo import DemoOutcome
from vllm_forensics.model.report import Group, Report
from vllm_forensics.render.clean import clean
from vllm_forensics.render.core_screen import render_cores
from vllm_forensics.render.demo import render_conclusion, render_ending, render_silent, render_title
from vllm_forensics.render.sanitizer import render_sanitizer
from vllm_forensics.render.sanitizer_clean import clean_answer
from vllm_forensics.render.terminal import Detail, TerminalStyle


@click.command("demo")
@click.argument("names", nargs=-1)
@click.option("--list", "only_list", is_flag=True, help="Only name the demos.")
@click.option("--plain", is_flag=True, help="Only the cores; no sanitizer builds.")
@NO_COLOR
def command(names: tuple[str, ...], only_list: bool, plain: bool, no_color: bool) -> None:  # noqa: FBT001
    """Crash the minimal demos and explain each crash, from its core and from a sanitizer's report.

    NAMES choose demos by any part of their name; a single one is explained in full.

    Exit status: 0 when every fault was explained.
    """
    started = time.monotonic()
    program = _program("debug")
    chosen = choose_demos(list_demos(program), names)
    if only_list:
        emit("".join(f"{name}\n" for name in chosen), None)
        return
    if not plain:
        _program("asan")
    built = time.monotonic()
    style = TerminalStyle(
        width=terminal_width(),
        color=wants_color(no_color=no_color, to_file=False),
        detail=Detail.FULL if len(chosen) == 1 else Detail.BRIEF,
    )
    outcomes = []
    cores = Path(".forensics/demo").resolve()
    for outcome in run_demos(program, chosen, cores, TriageOptions()):
        both = outcome if plain else add_sanitized(outcome, _program, cores)
        shown = clean(both)
        outcomes.append(shown)
        emit(render_title(shown, style) + _body(shown, style) + _other_half(shown, style), None)
    emit(render_ending(tuple(outcomes), style, (built - started, time.monotonic() - built)), None)
    raise click.exceptions.Exit(0 if all(outcome.is_explained for outcome in outcomes) else 1)


@lru_cache
def _program(preset: str) -> Path:
    """The demo program in one preset, built if need be."""
    folder = Path(".forensics").resolve() / preset
    plan = BuildPlan(preset=preset, folder=folder, python_module=False)
    return build_specimen(plan, show_step).programs[0]


def _other_half(outcome: DemoOutcome, style: TerminalStyle) -> str:
    """The sanitizer's chain, and the one conclusion of both."""
    if outcome.conclusion is None:
        return "\n"
    chain = ""
    if outcome.sanitized is not None:
        shown = clean_answer(outcome.sanitized, include_secrets=False)
        chain = "\n" + render_sanitizer(shown, replace(style, detail=Detail.BRIEF))
    return chain + render_conclusion(outcome, style) + "\n"


def _body(outcome: DemoOutcome, style: TerminalStyle) -> str:
    if outcome.crash is None:
        return render_silent(outcome, style)
    crash = outcome.crash
    alone = Group(signature=crash.signature, cores=(crash.core,), representative=crash.core)
    report = Report(crashes=(crash,), groups=(alone,), failures=())
    return render_cores(report, style, own_frames(report))
