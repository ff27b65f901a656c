"""What to collect next to know more, as commands: by the class of the cause and by its words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.platform import steps_of_platform
from vllm_forensics.diagnosis.incident.steps_of_runtimes import (
    steps_of_runtime,
    with_javas_report,
)
from vllm_forensics.diagnosis.incident.surroundings import (
    is_in_container,
    is_in_group,
    is_in_pod,
    runs_python,
)
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import BUGCHECK, OOPS, CauseClass, Clue, Death

_LEAVE_EVIDENCE: Final = "forensics run -- COMMAND    # keeps a core, so that the line is found"
_LINE_IS_TOLD: Final = "forensics run -- COMMAND    # keeps a core: values, and all threads"
_KEPT: Final = re.compile(r"\bdumped core\b|code=dumped\b|\(core dumped\)")
_KEPT_CORE: Final = "forensics core    # the core that it left: the line, why, and who called"
_ANY_CORE: Final = "forensics core    # where one was left already: the line, why, and who called"
_JOIN: Final = "forensics report LOG CORE    # joins such a core with this log"
_KERNELS_FAULTS: Final = "dmesg -T | grep -i segfault    # library and offset of the fault"
_KERNELS_KILLS: Final = "dmesg -T | grep -iE 'killed process|oom-kill'"
_NAME_IT: Final = "forensics log --symbols PLACE LOG    # the function at that offset: {module}"
_PODS_STATE: Final = "kubectl describe pod POD    # Last State, Reason, limits"
_CONTAINERS_STATE: Final = (
    "docker inspect CONTAINER --format '{{json .State}}'    # OOMKilled, ExitCode, Error"
)
_PYTHON_SAYS: Final = "PYTHONFAULTHANDLER=1 COMMAND    # every process then says where it died"
_PYTHONS_STACK: Final = "py-spy dump --pid PID    # Python's stack of each thread, while it hangs"
_WHICH_RANK: Final = (
    "NCCL_DEBUG=INFO TORCH_NCCL_TRACE_BUFFER_SIZE=20000 COMMAND    # which rank is missing"
)
_LOG: Final = re.compile(r"\bLOG\b(?=.{0,200}    # )")
_STEPS: Final = {
    CauseClass.NATIVE_FAULT: (
        _LEAVE_EVIDENCE,
        _ANY_CORE,
        _JOIN,
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
        _PODS_STATE,
        _CONTAINERS_STATE,
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.events",
    ),
    CauseClass.ENVIRONMENT: (
        "forensics doctor    # shared memory, CPU features, libraries, limits",
        "df -h / /tmp /dev/shm; ulimit -a; lscpu | grep -i flags",
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
        _PYTHONS_STACK,
        _WHICH_RANK,
    ),
    CauseClass.UNKNOWN: (
        "dmesg -T | tail -100    # a fault or the out-of-memory killer",
        _PYTHON_SAYS,
        _LEAVE_EVIDENCE,
    ),
}
_OF_KERNEL: Final = (
    "journalctl -k -b -1    # all that the kernel wrote before it was started anew",
    "./scripts/decode_stacktrace.sh vmlinux < OOPS    # in its sources: lines for its addresses",
)
_OF_WINDOWS: Final = (
    "windbg -z C:\\Windows\\MEMORY.DMP -c '!analyze -v'    # the driver, and the stack of the stop",
    "dir C:\\Windows\\Minidump    # one small dump of each stop, which WinDbg opens too",
    "verifier /standard /driver DRIVER.sys    # the next stop is then where the fault happens",
)
_WHO_SENDS: Final = (
    "strace -f -e trace=kill,tgkill,tkill -p PID    # of whom may have sent it",
    "auditctl -a always,exit -F arch=b64 -S kill -k kills; ausearch -k kills    # who, from now on",
)
_WHO_KILLS: Final = (
    "strace -f -k -e trace=kill,tgkill,tkill COMMAND    # the stack of the call",
    "grep -rnE 'SIGKILL|[.]kill[(]' SOURCES    # who may have called it",
)
_NO_TRACEBACK: Final = (
    "look for the traceback that belongs to it: in the lines above, or where stderr went",
)
_DECIDES: Final = re.compile(r"\bvllm/(?:v1/)?core/(?:\w+/)?\w+\.py$")
"""vLLM's scheduler, its block manager and pool, its caches."""
_DECIDE_AGAIN: Final = (
    "forensics sandbox replay LOG --vllm VERSION    # the scheduler decides again, without a GPU",
    "forensics sandbox explore --vllm VERSION --emit-test test_it.py    # what order breaks it",
)
_SHARED_MEMORY: Final = "df -h / /tmp /dev/shm    # docker run --shm-size=8g, or a larger emptyDir"
_LIMITS: Final = "prlimit --pid PID; ulimit -t -f    # processor time and size of files"
_OF_MACHINE: Final = {
    "SIGBUS": _SHARED_MEMORY,
    "SIGILL": "lscpu | grep -i flags    # does this CPU have what the build needs?",
    "SIGXCPU": _LIMITS,
    "SIGXFSZ": _LIMITS,
}
_GPU_MEMORY: Final = (
    "nvidia-smi    # who else holds the GPU's memory",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True COMMAND    # less lost between blocks",
)
_BY_WORDS: Final[tuple[tuple[CauseClass, re.Pattern[str], tuple[str, ...]], ...]] = (
    (
        CauseClass.GPU_ASYNC,
        re.compile(r"\bNPU\b|aicore|\bacl[A-Z]\w{2,40}|\bE[A-Z]\d{4}: |ascend", re.IGNORECASE),
        (
            "ASCEND_LAUNCH_BLOCKING=1 COMMAND    # the stack is then where the fault happens",
            "ls -t ~/ascend/log/*/plog    # the runtime's own log of that process",
        ),
    ),
    (
        CauseClass.GPU_ASYNC,
        re.compile(r"\bHIP\b|\bhip[A-Z]\w{2,40}|ROCm|\bHSA_|rocBLAS"),
        (
            "AMD_SERIALIZE_KERNEL=3 COMMAND    # the stack is then where the fault happens",
            "dmesg -T | grep -i amdgpu",
        ),
    ),
    (
        CauseClass.GPU_ASYNC,
        re.compile(r"UR_RESULT|level.zero|\bSYCL\b|\bXPU\b", re.IGNORECASE),
        ("dmesg -T | grep -iE ' (xe|i915) '", _LEAVE_EVIDENCE),
    ),
    (
        CauseClass.GPU_ASYNC,
        re.compile(r"N?CCL error|ncclUnhandled|nccl[A-Z]\w{4,40}Error"),
        ("NCCL_DEBUG=INFO COMMAND    # which call failed, and on which rank first",),
    ),
    (
        CauseClass.GPU_ASYNC,
        re.compile(r"(?i)out of memory|OutOfMemory|failed to allocate"),
        _GPU_MEMORY,
    ),
    (
        CauseClass.PYTHON_EXCEPTION,
        re.compile(r"(?m)^an exception, which the text is cut off before$"),
        ("get the lines below the text's end: a traceback's last line names the exception",),
    ),
    (
        CauseClass.PYTHON_EXCEPTION,
        re.compile(r"CUDA out of memory|OutOfMemoryError"),
        _GPU_MEMORY,
    ),
    (
        CauseClass.PYTHON_EXCEPTION,
        re.compile(r"less than desired GPU memory util|No available memory for the cache blocks"),
        (
            "nvidia-smi    # who else holds the GPU's memory",
            "vllm serve MODEL --gpu-memory-utilization 0.8 --max-model-len 8192    # asks for less",
        ),
    ),
    (
        CauseClass.ABORT_EXCEPTION,
        re.compile(
            r"\bbad_alloc\b|memory allocation of \d{1,20} bytes failed|"
            r"[Cc]annot (?:re)?allocate \d{1,20} bytes|heap out of memory"
        ),
        (
            "free -h; ulimit -v; cat /sys/fs/cgroup/memory.max    # what there was to allocate",
            _LEAVE_EVIDENCE,
        ),
    ),
    (
        CauseClass.ENVIRONMENT,
        re.compile(
            r"(?i)cannot open shared object|shared librar|undefined symbol|GLIBC|symbol not found"
        ),
        ("ldd -r FILE.so    # what it asks for, and which files answer", "pip check"),
    ),
    (
        CauseClass.ENVIRONMENT,
        re.compile(r"(?i)too many open files|EMFILE"),
        ("ulimit -n; ls /proc/PID/fd | wc -l    # the limit, and what is open",),
    ),
    (
        CauseClass.ENVIRONMENT,
        re.compile(r"(?i)start new thread|fork: |pthread_create|temporarily unavailable"),
        ("ulimit -u; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current",),
    ),
    (
        CauseClass.ENVIRONMENT,
        re.compile(r"(?i)address already in use"),
        ("ss -ltnp    # who listens there already",),
    ),
    (
        CauseClass.ENVIRONMENT,
        re.compile(r"(?i)display|platform plugin|xcb\b"),
        ("QT_DEBUG_PLUGINS=1 COMMAND    # which plugin, and which library it lacks",),
    ),
    (
        CauseClass.ENVIRONMENT,
        re.compile(r"(?i)no space left|shared memory|/dev/shm"),
        (_SHARED_MEMORY,),
    ),
)
"""Where the cause's words tell which of its class it is; the first that fits decides."""


_LEFT: Final = (
    "COMMAND 2>&1 | tee own.log    # alone: what it prints itself says why it gave up",
    "strace -f -e trace=exit_group,execve COMMAND    # which process left first, and with what",
)
"""Who left with a status of its own was ended by no signal."""
_FILTERED: Final = (
    "strace -f COMMAND    # the last call before the end is the one that is not allowed",
    "ausearch -m SECCOMP; dmesg -T | grep -i 'type=1326'    # its number, as the kernel tells it",
)
_SHELLS_STATUS: Final = 126
"""From here on a shell tells what became of a command."""
_POD: Final = re.compile(r"CrashLoopBackOff|\d/\d {1,80}(?:Init:)?Error\b|Exit Code: {1,12}\d")
_OF_PODS: Final = (
    "kubectl logs POD --previous    # the last words of the container that ended",
    "kubectl describe pod POD    # its status, its signal, its limits and its events",
)
_WHO_EXITS: Final = (
    "strace -f -k -e trace=exit_group COMMAND    # the stack of the call that leaves with 0",
    "grep -rnE 'sys[.]exit|os[.]_exit|exit[(]0' SOURCES    # who may have called it",
)


def next_steps(death: Death, told: Sequence[Clue]) -> tuple[str, ...]:
    """Commands, the most telling first; of what is at hand already there is none.

    Args:
        death: the first death.
        told: the clues to it.

    """
    words = [clue.text for clue in told]
    sources = {clue.source for clue in told}
    stops = _OF_WINDOWS if BUGCHECK in sources else None
    elsewhere = stops or steps_of_platform(death, told)
    if elsewhere is not None or OOPS in sources:
        return elsewhere or _OF_KERNEL
    steps = (
        steps_of_runtime(death, told)
        or _of_words(death)
        or _of_frames(death)
        or _STEPS[death.cause.kind]
    )
    if _LEAVE_EVIDENCE in steps and any(_KEPT.search(clue.text) for clue in told):
        steps = (_KEPT_CORE, *(step for step in steps if not step.startswith("forensics core ")))
    if death.function is not None or any(clue.source == "kernel" for clue in told):
        steps = tuple(step for step in steps if step not in {_KERNELS_FAULTS, _KERNELS_KILLS})
    calls = (call for clue in told for call in clue.native if call.module == death.module)
    if death.module is not None and death.function is None and any(call.offset for call in calls):
        steps = (_NAME_IT.format(module=death.module), *steps)
    if death.cause.kind is CauseClass.UNKNOWN and death.cause.certainty is Certainty.PROVED:
        steps = _WHO_SENDS
    if death.cause.kind is CauseClass.UNKNOWN and death.signal is None:
        left = death.exit is not None and 0 < death.exit < _SHELLS_STATUS
        steps = _WHO_EXITS if death.exit == 0 else _LEFT if left else steps
    if death.cause.kind is CauseClass.UNKNOWN and any(map(_POD.search, words)):
        steps = (*_OF_PODS, *_STEPS[CauseClass.UNKNOWN][:1])
    if death.signal == "SIGSYS":
        steps = _FILTERED
    if death.cause.kind is CauseClass.ABORT_EXCEPTION and death.signal == "SIGKILL":
        steps = _WHO_KILLS
    machine = _OF_MACHINE.get(death.signal or "")
    steps = (machine, _STEPS[death.cause.kind][0], _LEAVE_EVIDENCE) if machine else steps
    steps = with_javas_report(steps, told)
    steps = tuple(step for step in steps if step not in _strange(death, told))
    is_told = death.function is not None and death.line is not None
    return tuple(_LINE_IS_TOLD if step == _LEAVE_EVIDENCE and is_told else step for step in steps)


def _strange(death: Death, told: Sequence[Clue]) -> set[str]:
    """The steps that are none where the process ran, as far as the text shows that."""
    strange = set()
    if not runs_python(death, told):
        strange |= {_PYTHON_SAYS, _PYTHONS_STACK}
    if not is_in_group(death, told):
        strange.add(_WHICH_RANK)
    is_pods = is_in_pod(told)
    if not is_pods:
        strange.add(_PODS_STATE)
    if is_pods or not is_in_container(told):
        strange.add(_CONTAINERS_STATE)
    return strange


def with_log(steps: Sequence[str], log: str) -> tuple[str, ...]:
    """The steps with the log's path in them, as a shell takes it."""
    return tuple(_LOG.sub(lambda _: shlex.quote(log), step) for step in steps)


def _of_frames(death: Death) -> tuple[str, ...] | None:
    """Of an exception: what vLLM's scheduler decided can be decided again without a GPU."""
    if death.cause.kind is not CauseClass.PYTHON_EXCEPTION:
        return None
    if any(_DECIDES.search(frame.file or "") for frame in death.frames):
        return (*_STEPS[death.cause.kind], *_DECIDE_AGAIN)
    return None if death.frames else _NO_TRACEBACK


def _of_words(death: Death) -> tuple[str, ...] | None:
    words = "\n".join((death.cause.detail, *(line.text for line in death.evidence)))
    of_class = (entry for entry in _BY_WORDS if entry[0] is death.cause.kind)
    return next((steps for _, pattern, steps in of_class if pattern.search(words)), None)
