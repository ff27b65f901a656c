"""What servers' masters, pools and debuggers say about a child's end."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.arguments import STARTED
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
PHP_FPM: Final = Family(
    source="PHP-FPM",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "] child ",
            r"\[pool [^\]]{1,80}\] child (?P<pid>\d{1,9}) exited "
            r"(?:on signal (?P<signal>\d{1,2})\b|with code (?P<exit>\d{1,3}) after )",
            "WARNING: [pool www] child 4242 exited on signal 11 (SIGSEGV) after 7.109208 seconds "
            "from start",
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
            ") exited with code ",
            r"(?P<name>Worker) \(pid:(?P<pid>\d{1,20})\) exited with code (?P<exit>\d{1,3})\b",
            "[ERROR] Worker (pid:4242) exited with code 3.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " died while trying to run it",
            r"marked as failed because \d{1,6} (?P<name>worker)s? died while trying to run it",
            "distributed.scheduler - ERROR - Task sum-1f2e marked as failed because 4 workers died "
            "while trying to run it",
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
            "exited with 'exitcode ",
            r"Process '(?P<name>[\w.-]{1,80})' pid:(?P<pid>\d{1,20}) exited with "
            r"'exitcode (?P<exit>\d{1,3})'",
            "Process 'SpawnPoolWorker-2' pid:4242 exited with 'exitcode 1'",
            of_another=True,
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
            "terminated: signal: ",
            r"(?P<name>(?![Tt]he process)[\w -]{3,40}?) process (?:has )?terminated: signal: "
            r"(?P<signal>[a-z ]{3,30})",
            "Error: llama runner process has terminated: signal: segmentation fault (core dumped)",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                r"(?:\b(?P<name>[Ww]orker|[Cc]hild|[Rr]ank(?: \d{1,6}(?= with PID))?|[Tt]ask|"
                r"[Ss]hard|"
                r"(?!(?:The|This|That|Your|Our|Each|Every|Main|Parent|Another) )[A-Z][a-z]{2,20}"
                r"(?= process (?:was|is|has|got)\b))\b(?![.\]]).{0,80}?)?"
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
                rf"(?:\b(?:sub)?process (?P<pid>\d{{1,20}})\b.{{0,40}}|{STARTED}.{{0,900}}?)?"
                r"[Rr]eturn ?code[ =:]{1,3}(?P<exit>-\d{1,3})\b",
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
            rf"(?:{STARTED}.{{0,900}})?[\]\w] exits with return code = (?P<exit>\d{{1,3}})\b",
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
        Phrase(  # Open MPI's, as a title repeats it: below it the signal's own line says more
            ClueKind.SIGNAL,
            "Signal code: ",
            r"^# Signal code: (?:Address not mapped|Invalid permissions) \(\d\)",
            "# Signal code: Address not mapped (1)",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Signal code: Invalid address alignment",
            r"^(?:\[[\w.-]{1,200}:(?P<pid>\d{1,20})\] )?"
            r"(?P<detail>Signal code: Invalid address alignment)",
            "[node1:04242] Signal code: Invalid address alignment (1)",
            signal="SIGBUS",
        ),
    ),
)
