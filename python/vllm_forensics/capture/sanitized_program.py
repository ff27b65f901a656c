"""Starts a program as a plan says, and gathers what the runtimes and the hook wrote."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import Completed, Limits, run_attached, run_program
from vllm_forensics.capture.sanitizer_runtime import preload_list
from vllm_forensics.capture.stand_ins import stand_ins
from vllm_forensics.capture.supervisor import SupervisedResult
from vllm_forensics.model.sanitized import RunPlan

_PYTHON_STACK: Final = ".python"
_MAX_TEXT: Final = 1 << 20
_PROOF: Final = Limits(timeout_s=60.0, output_bytes=1 << 20, core_bytes=0)


@contextlib.contextmanager
def instrumented(plan: RunPlan) -> Iterator[list[str]]:
    """The command with its environment, for a supervisor that must not have that environment.

    `env` sets it and becomes the program: a runtime in LD_PRELOAD would watch the supervisor too.
    """
    with contextlib.ExitStack() as stack:
        libraries = stack.enter_context(preload_list(plan.preload or ()))
        settings = [f"{name}={value}" for name, value in plan.environment]
        if plan.launcher is not None:
            first = stack.enter_context(stand_ins(plan.launcher))
            settings.append(f"PATH={first}:{os.environ.get('PATH', os.defpath)}")
        if libraries:
            settings.append(f"LD_PRELOAD={libraries}")
        removed = ["-u", "LD_PRELOAD"] if plan.preload == () else []
        yield ["env", *removed, *settings, *plan.command]


def run_plain(command: Sequence[str]) -> SupervisedResult:
    """Run without a tracer, the terminal passed through."""
    wall, monotonic = time.time(), time.monotonic()
    status = run_attached(command)
    return SupervisedResult(status=status, events="", started_s=wall, started_monotonic_s=monotonic)


def start_once(plan: RunPlan) -> Completed | None:
    """Start the plan's Python for nothing but to see whether it starts; None where there is none.

    What the runtime wrote into its report's file is among the output.
    """
    if plan.interpreter is None:
        return None
    with instrumented(plan) as command:
        own = command[: len(command) - len(plan.command)]
        done = run_program(
            [*own, plan.interpreter, "-I", "-S", "-c", "pass"],
            limits=_PROOF,
            environment=dict(os.environ),
        )
    said = b"".join(_read(path) for path in _family(plan.reports))
    for path in _family(plan.reports):
        if path.name.rsplit(".", 1)[-1] == str(done.pid) or str(done.pid) in path.name:
            path.unlink(missing_ok=True)
    return Completed(
        status=done.status, stdout=done.stdout, stderr=done.stderr + said, pid=done.pid
    )


def read_python_stacks(prefix: str) -> dict[int, str]:
    """What the hook wrote of each process."""
    found: dict[int, str] = {}
    for path in _family(prefix):
        pid = path.name.removesuffix(_PYTHON_STACK).rsplit(".", 1)[-1]
        if path.name.endswith(_PYTHON_STACK) and pid.isdigit():
            found[int(pid)] = _read(path).decode("utf-8", "replace")
    return found


def read_head(path: str) -> str:
    """The first part of a file as text; empty where it cannot be read."""
    return _read(Path(path)).decode("utf-8", "replace")


def remove_reports(prefix: str) -> None:
    """Remove whatever a run that found nothing left behind."""
    for path in _family(prefix):
        with contextlib.suppress(OSError):
            path.unlink()


def _family(prefix: str) -> list[Path]:
    """PREFIX.PID, PREFIX.ubsan.PID, PREFIX.PID.python."""
    parent = Path(prefix).parent
    start = Path(prefix).name + "."
    try:
        return sorted(path for path in parent.iterdir() if path.name.startswith(start))
    except OSError:
        return []


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TEXT)
    except OSError:
        return b""
