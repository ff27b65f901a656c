"""A core and a sanitizer's report of the same fault: what they say together."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer import Culprit, ExplainedReport
from vllm_forensics.model.stack import Frame

_SPOKEN_AS_VOWELS: Final = (*"aeio", "un", "fpe")


def conclude(crash: Crash | None, report: ExplainedReport | None) -> str:
    """One sentence: whether both show the fault itself, or the core only its late consequence."""
    if report is None:
        if crash is None:
            return "Neither a signal nor a sanitizer: only the values tell that it is wrong."
        return "The core alone tells it all: the sanitizer build has nothing to add."
    kind = report.printed.kind
    named = f"{'an' if kind.startswith(_SPOKEN_AS_VOWELS) else 'a'} {kind}"
    made = (
        _culprit_place(report.culprit) if report.culprit else "code that is not the program's own"
    )
    if crash is None:
        return f"Nothing died without the sanitizer, which shows {named} in {made}."
    noticed = _frame_place(crash.culprit) if crash.culprit else "a runtime"
    if crash.fault.kind.value == kind or _on_crashing_stack(crash, report):
        return f"Both show the fault itself, {named}: {noticed}."
    return (
        f"The core shows only where it was noticed, {noticed}; the sanitizer shows where it was "
        f"made, {made}: {named}."
    )


def _on_crashing_stack(crash: Crash, report: ExplainedReport) -> bool:
    """Is the sanitizer's culprit one of the calls that died, by name or by line?"""
    culprit = report.culprit
    if culprit is None or not crash.threads:
        return False
    name, place = _bare(culprit.function), (_base(culprit.file), culprit.line)
    return any(
        (name is not None and _bare(frame.function) == name)
        or (frame.line is not None and (_base(frame.file), frame.line) == place)
        for frame in crash.threads[0].stack.frames
    )


def _bare(function: str | None) -> str | None:
    """A name without arguments; every lambda is called operator()."""
    if function is None or function.startswith("operator()"):
        return None
    return plain_name(function)


def _base(file: str | None) -> str | None:
    return file.rsplit("/", 1)[-1] if file else None


def _frame_place(frame: Frame) -> str:
    return _place(frame.function, frame.file, frame.line)


def _culprit_place(culprit: Culprit) -> str:
    return _place(culprit.function, culprit.file, culprit.line)


def _place(function: str | None, file: str | None, line: int | None) -> str:
    name = _bare(function) or function or "?"
    return f"{name} ({_base(file)}:{line})" if file and line else name
