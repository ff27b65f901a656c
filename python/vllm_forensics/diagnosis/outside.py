"""Signals that no fault of the program caused, and the answer "unknown"."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.context import FaultContext, doubt_of_history
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Signal
from vllm_forensics.model.signals import code_name, signal_name

_HARMLESS: Final = {17, 18, 19, 20, 21, 22, 23, 28}
"""Signals that end no process: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH (signal(7))."""
_TERMINAL: Final = {2, 3}  # SIGINT, SIGQUIT: the kernel sends them for Ctrl-C and Ctrl-\


def external_signal(image: Image, context: FaultContext) -> Finding | None:
    """Another process (or a key at the terminal) sent the signal."""
    signal = context.signal
    own = {image.process.pid, *(thread.tid for thread in image.threads)}
    typed = signal.number in _TERMINAL and signal.from_kernel
    sent = signal.sender_pid is not None and signal.sender_pid not in own
    if not typed and not sent:
        return None
    if signal.sender_pid == 0:
        sender = "a process outside this pid namespace (the container's host, or the kernel)"
    else:
        sender = "the terminal" if typed else f"process {signal.sender_pid}"
    return Finding(
        kind=FaultKind.EXTERNAL_SIGNAL,
        summary=f"The program did not fail by itself: {sender} sent it the signal.",
        proof=(f"si_code {signal.code}, si_pid {signal.sender_pid}; own pid {image.process.pid}",),
        advice=(
            f"ps -o pid,ppid,lstart,cmd -p {signal.sender_pid}   (if it still runs)"
            if signal.sender_pid
            else "look at the supervisor's log: who ends this program?",
        ),
    )


def unknown(image: Image, context: FaultContext) -> Finding:
    """What is left when no rule can prove anything."""
    signal = context.signal
    if signal.number in _HARMLESS:
        return _living(signal)
    if signal.sender_pid in {image.process.pid, context.thread.tid}:
        doubt = doubt_of_history(image, context.thread)
        itself = "The program sent the signal to itself"
        summary = (
            f"{itself}. {doubt}" if doubt else f"{itself}, and nothing shows an earlier fault."
        )
    elif signal.number == 0:
        summary = "The core does not say which signal ended the program."
    else:
        summary = "The signal is known, but its cause could not be established."
    return Finding(
        kind=FaultKind.UNKNOWN,
        summary=summary,
        proof=(f"signal {signal.number}, {_code_text(signal)}",),
        address=signal.address,
    )


def _living(signal: Signal) -> Finding:
    name = signal_name(signal.number)
    return Finding(
        kind=FaultKind.UNKNOWN,
        summary=f"No crash: this core was taken of a living process (gcore), stopped by {name}.",
        proof=(f"no process ends by {name} (signal(7)): a debugger wrote this core",),
        advice=("forensics core --pid PID   (the same process, if it lives: does it hang?)",),
    )


def _code_text(signal: Signal) -> str:
    return f"si_code {signal.code}" if signal.is_recorded else code_name(signal)
