"""What launchers and batch systems say about a program's end, and what the machine lacks."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

ROBOTS: Final = Family(
    source="ROS",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "process has died [pid ",
            r"process has died \[pid (?P<pid>\d{1,20}), exit code (?P<exit>-?\d{1,5}), cmd \W{0,4}"
            r"(?:[^\s']{0,300}/)?(?P<name>[\w.+-]{1,60})",
            "[ERROR] [serve-3]: process has died [pid 4242, exit code 255, cmd '/opt/app/serve'].",
            of_another=True,
        ),
        Phrase(  # its command was cut off
            ClueKind.CHILD,
            "process has died [pid ",
            r"(?:\[(?P<name>[\w.-]{1,60}?)-\d{1,3}\]:? )?process has died "
            r"\[pid (?P<pid>\d{1,20}), exit code (?P<exit>-?\d{1,5})",
            "[serve-3]: process has died [pid 4242, exit code -11",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "REQUIRED process [",
            r"REQUIRED process \[(?P<name>[\w.-]{1,60}?)-\d{1,3}\] has died!",
            "REQUIRED process [serve-3] has died!",
            of_another=True,
        ),
    ),
)
BATCH: Final = Family(
    source="the batch system",
    phrases=(
        *(
            Phrase(
                ClueKind.MEMORY,
                needle,
                r"(?P<detail>[Dd]etected "
                # in one sentence with srun's own line
                r"(?=.{0,300}?\b(?P<name>tasks? [\d,-]{1,20}): Out Of Memory|)"
                r"\d{1,20} oom[_-]kill event.{0,160})",
                f"slurmstepd: error: Detected 1 {needle}(s) in StepId=42.batch cgroup.",
                signal="SIGKILL",
                of_another=True,
            )
            for needle in ("oom_kill event", "oom-kill event")
        ),
        Phrase(
            ClueKind.CHILD,
            "srun: error: ",
            r"(?P<name>tasks? [\d,-]{1,200}): (?P<signal>Segmentation fault|Bus error|"
            r"Illegal instruction|"
            r"Floating point exception|Aborted|Killed)",
            "srun: error: node1: task 3: Segmentation fault (core dumped)",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "srun: error: ",
            r"(?P<name>tasks? [\d,-]{1,200}): (?P<detail>Out Of Memory)",
            "srun: error: node1: task 3: Out Of Memory",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "=   EXIT CODE: ",
            r"^=   EXIT CODE: (?P<signal>[46789]|11)$",
            "=   EXIT CODE: 9",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " noticed that process rank ",
            r"noticed that process (?P<name>rank) \d{1,9} with PID (?P<pid>\d{1,9}) on node "
            r"\S{1,200} exited on\s*$",
            "mpiexec noticed that process rank 0 with PID 4242 on node n1 exited on ",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "signal ",
            r"^signal (?P<signal>\d{1,2}) \((?:Aborted|Segmentation fault|Killed|Bus error|"
            r"Illegal instruction|Floating point exception)\)\.$",
            "signal 6 (Aborted).",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "KILLED BY SIGNAL: ",
            r"KILLED BY SIGNAL: (?P<signal>\d{1,20})",
            "=   KILLED BY SIGNAL: 11 (Segmentation fault)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "EXIT STRING: ",
            r"EXIT STRING: (?P<signal>Segmentation fault|Aborted|Killed|Bus error)",
            "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " with the exit string: ",  # as somebody typed it
            r"application terminated with the exit string: (?P<signal>[Ss]egmentation fault|"
            r"[Aa]borted|[Kk]illed|[Bb]us error)",
            "your application terminated with the exit string: segmentation fault (signal 11)",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "session crashed after using all available RAM",
            r"(?P<detail>session crashed after using all available RAM)",
            "Your session crashed after using all available RAM.",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "% memory budget",
            r"(?P<detail>\b(?P<name>Worker) (?:\S{1,80} )?(?:\(pid=(?P<pid>\d{1,20})\) )?exceeded "
            r"\d{1,3}% memory budget)",
            "Worker tcp://127.0.0.1:4242 (pid=4242) exceeded 95% memory budget. Restarting...",
            signal="SIGKILL",
            of_another=True,
        ),
    ),
)
MACHINE: Final = Family(
    source="the machine",
    phrases=(
        Phrase(
            ClueKind.ENVIRONMENT,
            "OMP: Error #15",
            r"(?P<detail>OMP: Error #15: .{1,160})",
            "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "MKL FATAL ERROR",
            r"(?P<detail>MKL FATAL ERROR: .{1,160})",
            "Intel MKL FATAL ERROR: Cannot load libmkl_avx512.so.2 or libmkl_def.so.2.",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "available on your machine",
            r"(?P<detail>.{0,80}compiled to use .{1,60} instructions.{0,20}available on your "
            r"machine)",
            "The TensorFlow library was compiled to use AVX instructions, but these aren't "
            "available on your machine.",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "Thread creation failed",
            r"(?P<detail>libgomp: Thread creation failed: .{1,80})",
            "libgomp: Thread creation failed: Resource temporarily unavailable",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "rrno 12] Cannot allocate memory",
            r"(?P<detail>\[Errno 12\] Cannot allocate memory)",
            "OSError: [Errno 12] Cannot allocate memory",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "file </torch_",
            r"(?P<detail>unable to \w{1,60}.{0,60}file </torch_.{0,160})",
            "RuntimeError: unable to write to file </torch_4242_1>: No space left on device (28)",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "shared memory object </torch_",
            r"(?P<detail>unable to \w{1,60} shared memory object </torch_.{0,160})",
            "RuntimeError: unable to open shared memory object </torch_4242_1> in read-write mode",
        ),
        Phrase(
            ClueKind.ABORT,
            "LLVM ERROR: ",
            r"(?P<detail>LLVM ERROR: .{1,160})",
            "LLVM ERROR: Symbol not found: __example",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "GGML_ASSERT(",
            r"(?P<detail>GGML_ASSERT\(.{1,160}\);? failed)",
            "/src/ggml.c:12: GGML_ASSERT(n < size) failed",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.GPU,
            "illegal memory access was encountered",
            r"(?P<detail>.{0,160}illegal memory access was encountered)",
            "Failed: Cuda error /src/all_reduce.cuh:453 'an illegal memory access was encountered'",
        ),
        Phrase(
            ClueKind.GPU,
            "nspecified launch failure",
            r"(?P<detail>.{0,160}[Uu]nspecified launch failure)",
            "Failed: Cuda error /src/all_reduce.cuh:453 'unspecified launch failure'",
        ),
        Phrase(
            ClueKind.GPU,
            "ECC error",
            r"(?P<detail>.{0,80}uncorrectable ECC error.{0,40})",
            "an uncorrectable ECC error was encountered",
        ),
        Phrase(
            ClueKind.GPU,
            "CUDNN_STATUS_",
            r"(?P<detail>CUDNN_STATUS_(?!SUCCESS)\w{1,60}.{0,80})",
            "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        ),
    ),
)
