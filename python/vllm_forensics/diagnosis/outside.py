"""Signals that no fault of the program caused, and the answer "unknown"."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.context import FaultContext, doubt_of_history
from vllm_forensics.model.answer import Known
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Signal, SignalFrame
from vllm_forensics.model.signals import code_name, signal_name

_HARMLESS: Final = {17, 18, 19, 20, 21, 22, 23, 28}
"""Signals that end no process: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH (signal(7))."""
_SYSCALL: Final = b"\x0f\x05"
_INTERRUPTED: Final = (1 << 64) - 4
"""-EINTR: what a system call returns that a signal interrupted (errno(3))."""
_TERMINAL: Final = {2, 3}  # SIGINT, SIGQUIT: the kernel sends them for Ctrl-C and Ctrl-\


def external_signal(image: Image, context: FaultContext) -> Finding | None:
    """Another process (or a key at the terminal) sent the signal."""
    signal = context.signal
    own = {image.process.pid, *(thread.tid for thread in image.threads)}
    waiting = _interrupted_call(image, context) if signal.sender_pid in own else None
    if waiting is not None:
        return _while_waiting(signal, waiting)
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
            f"ps -o pid,ppid,lstart,cmd -p {signal.sender_pid}    # if it still runs"
            if signal.sender_pid
            else "look at the supervisor's log: who ends this program?",
        ),
    )


def _interrupted_call(image: Image, context: FaultContext) -> SignalFrame | None:
    """The frame of a handler that interrupted a system call, and then sent the signal again.

    faulthandler asks for no siginfo_t (no SA_SIGINFO), so the kernel wrote none, and the sender is
    lost. Seen: `kill -SEGV` of a worker in time.sleep() leaves a core that says SI_TKILL.
    """
    if context.frame is not None:
        return None
    for frame in image.signal_frames(context.thread):
        before = image.read(frame.pc - 2, 2)
        is_call = isinstance(before, Known) and before.value == _SYSCALL
        if frame.signal.number == 0 and is_call and frame.registers.get("rax") == _INTERRUPTED:
            return frame
    return None


def _while_waiting(signal: Signal, frame: SignalFrame) -> Finding:
    name = signal_name(signal.number)
    return Finding(
        kind=FaultKind.EXTERNAL_SIGNAL,
        summary=f"The program did not fail by itself: {name} was sent to it while it waited in a "
        "system call, where no instruction can fault. Its handler sent the signal again, so who "
        "sent the first one is not in the core.",
        proof=(
            f"the handler interrupted the system call before {frame.pc:#x}, which returned -EINTR",
        ),
        advice=(
            "look at the supervisor's log: who ends this program?",
            "strace -f -e trace=kill,tgkill,tkill -p SUPERVISOR    # who sends it",
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
        advice=("forensics core --pid PID    # the same process, if it lives: does it hang?",),
    )


def _code_text(signal: Signal) -> str:
    return f"si_code {signal.code}" if signal.is_recorded else code_name(signal)
