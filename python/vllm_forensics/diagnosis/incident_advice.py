"""What to collect next to know more, as commands, and what happened, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Clue, Death, Echo, ProcessRole
from vllm_forensics.model.locations import Certainty as NameCertainty

_LEAVE_EVIDENCE: Final = "forensics run -- COMMAND    # keeps a core, so that the line is found"
_KERNELS_FAULTS: Final = "dmesg -T | grep -i segfault    # library and offset of the fault"
_KERNELS_KILLS: Final = "dmesg -T | grep -iE 'killed process|oom-kill'"
_NAME_IT: Final = "forensics log --symbols PLACE LOG    # the function at that offset: {module}"
_ROLES: Final = {
    ProcessRole.CLIENT: "the client",
    ProcessRole.API_SERVER: "the API server",
    ProcessRole.ENGINE_CORE: "the engine core",
    ProcessRole.WORKER: "a worker",
    ProcessRole.RAY_ACTOR: "a Ray actor",
    ProcessRole.MAIN: "the program",
    ProcessRole.UNKNOWN: "a process",
}
_STEPS: Final = {
    CauseClass.NATIVE_FAULT: (
        _LEAVE_EVIDENCE,
        "forensics core    # where a core was left already; forensics report LOG CORE joins both",
        _KERNELS_FAULTS,
    ),
    CauseClass.HEAP_CORRUPTION: (
        "forensics run --asan -- COMMAND    # finds the write, not its late discovery",
        _LEAVE_EVIDENCE,
    ),
    CauseClass.ABORT_EXCEPTION: (
        _LEAVE_EVIDENCE,
        "forensics core    # where a core was left already: who called abort",
    ),
    CauseClass.OOM_KILLED: (
        _KERNELS_KILLS,
        "kubectl describe pod POD    # Last State, Reason, limits",
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.events",
    ),
    CauseClass.ENVIRONMENT: (
        "forensics doctor    # shared memory, CPU features, libraries, limits",
        "df -h /dev/shm; ulimit -a",
        "lscpu | grep -i flags",
    ),
    CauseClass.PYTHON_EXCEPTION: (
        "read the traceback at the line named above: it is the program's own, not an echo",
    ),
    CauseClass.GPU_ASYNC: (
        "CUDA_LAUNCH_BLOCKING=1 COMMAND    # the stack is then where the fault happens",
        "compute-sanitizer --tool memcheck COMMAND",
        "dmesg -T | grep -i xid",
    ),
    CauseClass.HANG: (
        "forensics core --pid PID    # who waits for whom, while it hangs",
        "py-spy dump --pid PID",
        "NCCL_DEBUG=INFO TORCH_NCCL_TRACE_BUFFER_SIZE=20000 COMMAND",
    ),
    CauseClass.UNKNOWN: (
        "dmesg -T | tail -100    # a fault or the out-of-memory killer",
        "PYTHONFAULTHANDLER=1 COMMAND    # every process then says where it died",
        _LEAVE_EVIDENCE,
    ),
}

_WHO_SENDS: Final = (
    "strace -f -e trace=kill,tgkill,tkill -p PID    # of whom may have sent it",
    "auditctl -a always,exit -F arch=b64 -S kill -k kills; ausearch -k kills    # who, from now on",
)


def next_steps(death: Death, told: Sequence[Clue]) -> tuple[str, ...]:
    """Commands, the most telling first; of what is at hand already there is none.

    Args:
        death: the first death.
        told: the clues to it.

    """
    steps = _STEPS[death.cause.kind]
    if any(clue.source == "kernel" for clue in told):
        steps = tuple(step for step in steps if step not in {_KERNELS_FAULTS, _KERNELS_KILLS})
    calls = (call for clue in told for call in clue.native if call.module == death.module)
    if death.module is not None and death.function is None and any(call.offset for call in calls):
        steps = (_NAME_IT.format(module=death.module), *steps)
    if death.cause.kind is CauseClass.UNKNOWN and death.cause.certainty is Certainty.PROVED:
        steps = _WHO_SENDS
    if death.signal == "SIGBUS":
        steps = ("df -h /dev/shm    # docker run --shm-size=8g, or a larger emptyDir", *steps[:1])
    elif death.signal == "SIGILL":
        steps = ("lscpu | grep -i flags    # does this CPU have what the build needs?", *steps[:1])
    return steps


def who(death: Death) -> str:
    """The process in words: `a worker (VllmWorker-1, process 4242)`."""
    marks = [death.name] if death.name else []
    if death.pid is not None:
        marks.append(f"process {death.pid}")
    return _ROLES[death.role] + (f" ({', '.join(marks)})" if marks else "")


def explanation(
    death: Death, echoes: tuple[Echo, ...], *, is_echo: bool, teaches: bool = False
) -> str:
    """One paragraph: who died of what, where, and what the other errors are."""
    words = [f"{_upper(who(death))} died first{_of_what(death)}."]
    if teaches:
        words.append("The text explains more than it reports: this may be an example of it.")
    words += _where(death)
    if death.cause.kind is CauseClass.GPU_ASYNC:
        words.append(
            "GPU work runs asynchronously: the stack shows where the error was noticed, "
            "not where it happened."
        )
    if death.cause.certainty is Certainty.UNKNOWN and is_echo:
        words.append(
            "What the text shows are only echoes: their stacks say where the end was noticed. "
            "The dead process's own output, or the kernel's log, has to be found."
        )
    elif is_echo and echoes:
        words.append(
            f"The last error in the text (line {echoes[-1].line}) is an echo of it, not the cause."
        )
    return " ".join(words)


def _of_what(death: Death) -> str:
    cause = death.cause
    if cause.kind is CauseClass.UNKNOWN and cause.certainty is not Certainty.UNKNOWN:
        return f": {cause.detail.rstrip('.')}"
    if cause.certainty is Certainty.UNKNOWN:
        return f"; of what is unknown: {cause.detail}"
    likely = ", most likely" if cause.certainty is Certainty.LIKELY else ""
    kind = cause.kind.value.replace("-", " ")
    return f"{likely} of {_ARTICLES.get(cause.kind, kind)}: {cause.detail.rstrip('.')}"


_ARTICLES: Final = {
    CauseClass.NATIVE_FAULT: "a fault in native code",
    CauseClass.HEAP_CORRUPTION: "a corrupted heap",
    CauseClass.ABORT_EXCEPTION: "giving up on purpose",
    CauseClass.OOM_KILLED: "a lack of memory",
    CauseClass.ENVIRONMENT: "its environment",
    CauseClass.PYTHON_EXCEPTION: "a Python exception",
    CauseClass.GPU_ASYNC: "an error on the GPU",
    CauseClass.HANG: "waiting too long",
}


def _where(death: Death) -> list[str]:
    places = []
    if death.function is not None:
        within = f" in {death.module}" if death.module else ""
        places.append(f"{death.function}{within}{_source(death)}")
    elif death.module is not None:
        places.append(death.module)
    elif death.file is not None:
        places.append(f"{death.file}:{death.line}")
    if death.python_function is not None:
        places.append(
            f"called by Python's {death.python_function}"
            if places
            else f"in Python's {death.python_function}"
        )
    return [f"Where: {', '.join(places)}."] if places else []


def _source(death: Death) -> str:
    """` (kernel.cpp:12, likely: …)` where symbols or the death's own words name the source."""
    parts = [f"{death.file}:{death.line}"] if death.file is not None and death.line else []
    if death.symbolized is NameCertainty.LIKELY:
        parts.append("likely: no build-id proves that this is the module that ran")
    return f" ({', '.join(parts)})" if parts else ""


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
