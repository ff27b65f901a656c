"""What came of looking frames up in files of this machine, as text."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from vllm_forensics.model.locations import LeftModule, Symbolization
from vllm_forensics.render.rows import Rows, advice, path
from vllm_forensics.render.sanitizer_words import counted, labelled

_MAX_LEFT: Final = 12


def symbolization_in_text(outcome: Symbolization) -> Rows:
    """How many frames were named and how sure that is; what was left, and why."""
    texts = [Text(_named(outcome))]
    if outcome.likely:
        texts.append(Text(f"likely: {_doubt(outcome)}", style="caution"))
    shown = outcome.left[:_MAX_LEFT]
    texts += [_left(left) for left in shown]
    if len(outcome.left) > _MAX_LEFT:
        texts.append(Text(f"{len(outcome.left) - _MAX_LEFT:,} more (--format json)", style="quiet"))
    remedies = dict.fromkeys(left.remedy for left in shown if left.remedy)
    texts += [advice(remedy, style="quiet") for remedy in remedies]  # each once
    return labelled("Names", texts)


def _named(outcome: Symbolization) -> str:
    if not outcome.asked:
        return "every frame of the log has its name already"
    text = f"{outcome.proved + outcome.likely:,} of {counted(outcome.asked, 'frame')}"
    text += " named from files here"
    parts = [f"{outcome.proved:,} proved by BuildId"] if outcome.proved else []
    parts += [f"{outcome.likely:,} likely"] if outcome.likely else []
    return f"{text}: {', '.join(parts)}" if parts else text


def _doubt(outcome: Symbolization) -> str:
    text = "the log prints no BuildId, so the file may be another build than the one that ran"
    if "addr2line" in outcome.symbolizers:
        text += "; or binutils' addr2line named them, which can mistake the file (install llvm)"
    return text


def _left(left: LeftModule) -> Text:
    module = left.module or "unknown module"
    return path(module) + Text(f": {left.why} ({counted(left.frames, 'frame')} left)")
