"""What launchers, batch systems, servers' masters and debuggers say about a program's end."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_ENDED: Final = (
    r"(?:killed|terminated|signaled|died|exited|crash(?:ed|es|ing)|ended|stopped|shut ?down)"
)
_NUMBERED: Final = (
    r"(?:(?<=pid[ =:])|(?<=PID[ =:])|(?<=pid: )|(?<=PID: )|(?<=process )|(?<=child )|(?<=worker )|"
    r"(?<=Process )|(?<=Child )|(?<=Worker )|(?<=Process: )|(?<=process: ))"
)
"""Before the number of the process that ended."""
_EXAMPLE_VERBS: Final = (
    ("by signal ", "Worker process 4242 was killed by signal 9"),
    ("by signal: ", "WARN: child terminated by signal: 11: Segmentation fault"),
    ("with signal ", "Shard process was signaled to shutdown with signal 4 rank=0"),
    (
        "on signal ",
        "mpirun noticed that process rank 2 with PID 4242 on node n1 exited on signal 11",
    ),
    ("with Signal (", "# The server crashes with Signal (11)"),
    ("with signal (", "the server crashes with signal (11) after some time"),
    ("with signal: ", "the server crashed with signal: 11"),
    ("from signal ", "child 4242 died from signal 11"),
    ("to signal ", "Worker with pid 4242 was terminated due to signal 9"),
)
_LOKYS_CODES: Final = r"\{(?:[^}]{0,200}?(?P<signal>SIG\w{1,60})\(|EXIT\((?P<exit>\d{1,3})\))"
BATCH: Final = Family(
    source="the batch system",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "process has died [pid ",
            r"process has died \[pid (?P<pid>\d{1,20}), exit code (?P<exit>-?\d{1,5})",
            "[ERROR] [serve-3]: process has died [pid 4242, exit code 255, cmd '/opt/app/serve'].",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.MEMORY,
                needle,
                r"(?P<detail>[Dd]etected \d{1,20} oom[_-]kill event.{0,160})",
                f"slurmstepd: error: Detected 1 {needle}(s) in StepId=42.batch cgroup.",
                signal="SIGKILL",
                of_another=True,
            )
            for needle in ("oom_kill event", "oom-kill event")
        ),
        Phrase(
            ClueKind.CHILD,
            "srun: error: ",
            r"(?P<name>task)s? [\d,-]{1,200}: (?P<signal>Segmentation fault|Bus error|"
            r"Illegal instruction|"
            r"Floating point exception|Aborted|Killed)",
            "srun: error: node1: task 3: Segmentation fault (core dumped)",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "srun: error: ",
            r"(?P<name>task)s? [\d,-]{1,200}: (?P<detail>Out Of Memory)",
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
MASTERS: Final = Family(
    source="a parent",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            ") was sent SIG",
            r"(?P<name>Worker) \(pid:(?P<pid>\d{1,20})\) was sent (?P<signal>SIG\w{1,60})!",
            "[ERROR] Worker (pid:4242) was sent SIGKILL! Perhaps out of memory?",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Python worker exited unexpectedly",
            r"Python (?P<name>worker) (?P<detail>exited unexpectedly(?: \(crashed\))?)",
            "SparkException: Python worker exited unexpectedly (crashed)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "ExecutorLostFailure (",
            r"ExecutorLostFailure \((?P<name>executor) \w{1,20} exited (?P<detail>caused by one of "
            r"the running tasks)\)"
            r"(?:.{0,300}?(?i:exit code|with code|exit status):? (?P<exit>\d{1,3})\b)?",
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
            "Container from a bad node. Exit status: 134.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " exit signal ",
            r"(?P<name>child) (?:process|pid) (?P<pid>\d{1,20}) exit signal "
            r"(?P<signal>Segmentation fault|Bus error|Abort(?:ed)?|Illegal instruction|"
            r"Floating point exception|Killed|Trace/BPT trap)",
            "[core:notice] [pid 1] AH00052: child pid 4242 exit signal Segmentation fault (11)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "killed by unknown signal",
            r"(?P<name>[Ww]orker) process (?P<pid>\d{1,20}) was killed by unknown signal",
            "distributed.nanny - WARNING - Worker process 4242 was killed by unknown signal",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "exited with",
            r"(?:\[(?P<pid>\d{1,9})\] )?(?P<name>[\w.-]{1,60}\.exe)' ?(?:\(\w{2,10}\): )?"
            r"(?:program |process )?(?:has )?exited with (?:the )?code (?P<exit>-?\d{1,10})\b",
            "The program '[4242] python.exe' has exited with code 4294967295 (0xffffffff).",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                "aitpid returned ",
                r"(?P<name>[Ww]ork-horse) (?:process )?(?:was )?terminated unexpectedly[;( ]{1,3}"
                rf"waitpid returned {status}",
                f"(Work-horse terminated unexpectedly; waitpid returned {example}; )",
                of_another=True,
                in_prose=True,
            )
            for status, example in (
                (r"(?:\d{1,5} \(signal )?(?P<signal>\d{1,2})\b", "139 (signal 11)"),
                (r"(?P<exit>13\d)\b(?! \(signal)", "134"),
                (r"(?P<detail>None)\b", "None"),
            )
        ),
        Phrase(
            ClueKind.CHILD,
            "Negsignal.",
            r"(?P<name>[Tt]ask)? ?exited with return code Negsignal\.(?P<signal>SIG\w{1,60})",
            "INFO - Task exited with return code Negsignal.SIGSEGV",
            of_another=True,
            in_prose=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                f"exited with {mark}signal ",
                rf"Process {mark}(?P<name>[\w.-]{{1,80}}){mark} pid:(?P<pid>\d{{1,20}}) exited "
                rf"with {mark}signal (?P<signal>\d{{1,20}})",
                f"Process {mark}ForkPoolWorker-2{mark} pid:4242 exited with {mark}signal 11",
                of_another=True,
            )
            for mark in ("'", '"')
        ),
        Phrase(
            ClueKind.CHILD,
            "orker exited prematurely",
            r"(?P<name>Worker) exited prematurely(?:: (?:signal (?P<signal>\d{1,20})|"
            r"exitcode (?P<exit>\d{1,3})))?",
            "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 11 (SIGSEGV)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "exit codes of the workers are ",
            rf"exit codes of the (?P<name>worker)s are {_LOKYS_CODES}",
            "The exit codes of the workers are {SIGKILL(-9)}",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "A worker process managed by the executor",
            r"A (?P<name>worker) process managed by the executor was unexpectedly terminated"
            rf"(?:\. This could be .{{1,300}} exit codes of the workers are {_LOKYS_CODES})?",
            "TerminatedWorkerError: A worker process managed by the executor was unexpectedly "
            "terminated.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "node down: Not properly terminated",
            r"\[(?P<name>gw\d{1,20})\] node down: Not properly terminated",
            "- [gw0] node down: Not properly terminated",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "terminated: signal: ",
            r"(?P<name>[\w -]{3,40}?) process (?:has )?terminated: signal: "
            r"(?P<signal>[a-z ]{3,30})",
            "Error: llama runner process has terminated: signal: segmentation fault (core dumped)",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                r"(?:\b(?P<name>[Ww]orker|[Cc]hild|[Rr]ank|[Tt]ask|[Ss]hard)\b(?![.\]]).{0,80}?)?"
                rf"(?:{_NUMBERED}(?P<pid>\d{{1,20}})\b(?! \(pid).{{0,60}})?\b{_ENDED}\b"
                rf"(?: \w+){{0,2}} {re.escape(needle)}(?P<signal>\d+|SIG\w+)",
                example,
                of_another=True,
                in_prose=True,
            )
            for needle, example in _EXAMPLE_VERBS
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                r"(?:\bprocess (?P<pid>\d{1,20})\b.{0,40})?[Rr]eturn ?code[ =:]{1,3}"
                r"(?P<exit>-\d{1,3})\b",
                example,
                of_another=True,
            )
            for needle, example in (
                ("eturn code = -", "[launch.py:315] Process 4242 exits with return code = -11"),
                ("eturn code -", "the subprocess ended with return code -6"),
                ("eturn code: -", "return code: -9"),
                ("eturncode=-", "CompletedProcess(args=['a.py'], returncode=-11)"),
            )
        ),
        Phrase(  # DeepSpeed's launcher
            ClueKind.CHILD,
            " exits with return code = ",
            r"[\]\w] exits with return code = (?P<exit>\d{1,3})\b",
            "[launch.py:321:sigkill_handler] ['python', 'serve.py'] exits with return code = 1",
            of_another=True,
        ),
        Phrase(
            ClueKind.SIGNAL,
            "uncaught target signal ",
            r"qemu: uncaught target signal (?P<signal>\d{1,20})",
            "qemu: uncaught target signal 11 (Segmentation fault) - core dumped",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "default action of signal ",
            r"(?:==(?P<pid>\d{1,20})== )?Process terminating with default action of signal "
            r"(?P<signal>\d{1,20})",
            "==4242== Process terminating with default action of signal 11 (SIGSEGV)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            ") received.",
            r"^Signal \((?P<signal>\d{1,20})\) received\.",
            "Signal (11) received.",
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
            "an illegal memory access was encountered",
            r"(?P<detail>.{0,160}an illegal memory access was encountered)",
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
