"""What a report, the Python stack and the core of one moment say together."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitized import PythonFrame, PythonStack, PythonThread, RunPlan
from vllm_forensics.model.sanitizer import ExplainedReport
from vllm_forensics.model.signals import signal_name

_PYTHON_EXCEPTION: Final = 1


def conclude_run(report: ExplainedReport, python: PythonStack | None, crash: Crash | None) -> str:
    """One sentence or two: who did it, how Python got there, what the core adds."""
    sentences = [f"{_who(report)}{_from(python)}."]
    if crash is not None:
        sentences.append(_core(crash))
    return " ".join(sentences)


def verdict(plan: RunPlan, count: int, status: int) -> str:
    """How many reports there are; without one, what the exit status means."""
    if count:
        return f"{plan.name}: {count} report{'s' if count > 1 else ''}"
    if status == _PYTHON_EXCEPTION:
        return (
            f"{plan.name}: no report; the program ended with status 1, which is Python's for an "
            "exception"
        )
    if status > 128:
        return f"{plan.name}: no report; the program died of {signal_name(status - 128)}"
    return f"{plan.name}: no report"


def _who(report: ExplainedReport) -> str:
    culprit = report.culprit
    if culprit is None:
        return f"{_a(report.printed.kind)} outside of the program's own code"
    name = plain_name(culprit.function or "?")
    place = f" ({_base(culprit.file)}:{culprit.line})" if culprit.file else ""
    return f"{_a(report.printed.kind)} in {name}{place}"


def _a(kind: str) -> str:
    vowel = kind[:1] in "aeiou" and not kind.startswith("use-")
    return f"{'An' if vowel else 'A'} {kind}"


def _from(python: PythonStack | None) -> str:
    if python is None or not python.frames:
        return ""
    if python.thread is PythonThread.MAIN:
        return (
            ", in a thread that runs no Python; meanwhile the main thread is in "
            f"{_place(python.frames[0])}"
        )
    return f", called from Python's {_place(python.frames[0])}"


def _place(frame: PythonFrame) -> str:
    where = f" ({_base(frame.file)}:{frame.line})" if frame.file and frame.line else ""
    return f"{frame.function}{where}"


def _core(crash: Crash) -> str:
    if crash.fault.kind is FaultKind.SANITIZER_ABORT:
        return "The core is of the abort that followed the report: memory as it was then."
    name = signal_name(crash.signal.number)
    kind = crash.fault.kind.value
    return f"The core is of the fault itself, before the runtime's handler: {name}, a {kind}."


def _base(path: str | None) -> str:
    return path.rsplit("/", 1)[-1] if path else "?"
