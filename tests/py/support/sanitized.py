"""A sanitized run's parts, by value."""

from vllm_forensics.model.sanitized import (
    Method,
    PythonFrame,
    PythonStack,
    PythonThread,
    RunPlan,
    SanitizedReport,
)
from vllm_forensics.model.sanitizer import (
    Culprit,
    ExplainedReport,
    PrintedFrame,
    PrintedReport,
    Role,
    Severity,
    StackEvent,
)

PLAN = RunPlan(
    method=Method.LAUNCHER,
    name="AddressSanitizer",
    command=("python",),
    environment=(),
    reports="/run/sanitizer",
    notes=("a note",),
)


def a_report(kind: str = "heap-use-after-free", signature: str = "one") -> ExplainedReport:
    frame = PrintedFrame(index=0, function="work", file="cache.cpp", line=9)
    return ExplainedReport(
        printed=PrintedReport(
            sanitizer="AddressSanitizer",
            kind=kind,
            pid=7,
            chain=(StackEvent(role=Role.USE, frames=(frame,)),),
        ),
        culprit=Culprit(function="work", file="cache.cpp", line=9, role=Role.USE, index=0),
        severity=Severity.HIGH,
        why=("memory was reused",),
        cwe="CWE-416",
        signature=signature,
        explanation="It was used after it was freed.",
        next_steps=(),
        own=((0, 0),),
        excerpts=(None,),
    )


def python_stack(
    thread: PythonThread = PythonThread.CURRENT, sanitizer: str | None = None, depth: int = 2
) -> PythonStack:
    inner = PythonFrame(function="step", file="/srv/serve.py", line=5)
    outer = PythonFrame(function="<module>", file="/srv/serve.py", line=8)
    return PythonStack(
        sanitizer=sanitizer, thread=thread, frames=(inner, *((outer,) * (depth - 1)))
    )


def found(pid: int = 7, **changes: object) -> SanitizedReport:
    values: dict[str, object] = {
        "report": a_report(),
        "log": f"/run/sanitizer.{pid}",
        "pid": pid,
        "python": python_stack(),
        "core": f"/run/core.{pid}",
        "conclusion": "So it is.",
    }
    return SanitizedReport(**(values | changes))  # type: ignore[arg-type]
