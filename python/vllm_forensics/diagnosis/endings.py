"""Deaths without a core: killed by the kernel, by a person, or by the container's stop."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.run import ProcessRecord, SupervisedRun
from vllm_forensics.model.signals import signal_name

_KILL: Final = 9
_ASKED: Final = {1, 2, 3, 15}
"""SIGHUP, SIGINT, SIGQUIT, SIGTERM: somebody asked the program to end."""


def explain_endings(run: SupervisedRun, explained_pids: frozenset[int]) -> tuple[str, ...]:
    """One sentence for each process that a signal ended and that no core explains."""
    return tuple(
        _sentence(process, run)
        for process in run.processes
        if process.exit is not None and process.exit < 0 and process.pid not in explained_pids
    )


def _sentence(process: ProcessRecord, run: SupervisedRun) -> str:
    number = -(process.exit or 0)
    who = f"process {process.pid}" + (f" ({process.command})" if process.command else "")
    if process.pid in run.kernel_kills:
        return (
            f"{who} was killed with SIGKILL: the kernel's log names it among those that it killed "
            "for want of memory. No core is made of that; Kubernetes shows it as OOMKilled, 137."
        )
    if number == _KILL and run.oom_kills:
        return (
            f"{who} was killed with SIGKILL, and the cgroup's count of out-of-memory kills grew by "
            f"{run.oom_kills} meanwhile: the kernel killed it for want of memory. No core is made "
            "of that; Kubernetes shows it as OOMKilled, exit code 137."
        )
    if number == _KILL:
        kernel = (
            "Whether the kernel's out-of-memory killer did it cannot be read here"
            if run.oom_kills is None
            else "The kernel's out-of-memory killer did not count one here"
        )
        return (
            f"{who} was killed with SIGKILL, as kill -9 does, docker stop after its grace period, "
            f"or Kubernetes' liveness probe. {kernel}. No core is made of that."
        )
    if number in _ASKED:
        return f"{who} was asked to end with {signal_name(number)}: not a crash."
    return f"{who} died of {signal_name(number)}, and no core of it could be written."
