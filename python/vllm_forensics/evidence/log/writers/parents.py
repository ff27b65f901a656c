"""What Python's own process pools, launchers and Ray say about children that died."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.arguments import STARTED
from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

PYTHON: Final = Family(
    source="the Python parent",
    phrases=(
        Phrase(  # pytest-xdist
            ClueKind.CHILD,
            "node down: Not properly terminated",
            r"(?:\[(?P<name>gw\d{1,20})\] )?node down: Not properly terminated",
            "[gw0] node down: Not properly terminated",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "died with <Signals.",
            rf"\bCommand '{STARTED}.{{0,900}}?"
            r"died with <Signals\.(?P<signal>SIG\w{1,60}): \d{1,20}>",
            "subprocess.CalledProcessError: Command '['python', 'a.py']' died with "
            "<Signals.SIGSEGV: 11>.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "died with <Signals.",
            r"(?:\bCommand '\[?'?(?:[^'\s/]{0,100}/){0,20}(?P<name>[\w.+-]{1,60})['\s].{0,900}?)?"
            r"died with <Signals\.(?P<signal>SIG\w{1,60}): \d{1,20}>",
            "subprocess.CalledProcessError: Command 'a.sh -x' died with <Signals.SIGSEGV: 11>.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "returned non-zero exit status ",
            rf"(?:\bCommand '{STARTED}.{{0,900}}?)?"
            r"returned non-zero exit status (?P<exit>-\d{1,20}|1[23]\d)\b",
            "subprocess.CalledProcessError: Command 'a.sh' returned non-zero exit status 139.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            ", terminating remaining processes",
            r"(?P<name>Process \d{1,5}) terminated with (?:exit code|signal) (?P<exit>\d{1,3}), "
            r"terminating remaining processes",
            "Process 2 terminated with exit code 10, terminating remaining processes.",
            of_another=True,
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "is killed by signal: Bus error",
            r"(?P<name>DataLoader worker) \(pid (?P<pid>\d{1,20})\) "
            r"(?P<detail>is killed by signal: Bus error"
            r".{0,120})",
            "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory. Please try to raise "
            "your shared memory limit.",
            signal="SIGBUS",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "is killed by signal: ",
            r"(?P<name>DataLoader worker)(?: \(pid (?:(?P<pid>\d{1,20})|[.xX]{1,9})\))? is killed"
            r" by signal: (?P<signal>[A-Z][\w ]{1,200})",
            "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Segmentation fault.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "exited unexpectedly",
            r"(?P<name>DataLoader worker) \(pid(?:\(s\))? (?P<pid>\d{1,20})[\d, ]*\) exited"
            r" unexpectedly(?: with exit code (?P<exit>\d{1,3}))?",
            "RuntimeError: DataLoader worker (pid(s) 4242) exited unexpectedly",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "exited unexpectedly",
            r"(?:Error: |^)(?:The )?(?P<name>(?:[Ww]orker|[Ee]ngine|[Cc]hild|[Ss]ubprocess)"
            r"(?: proc(?:ess)?)?(?:[ _-]\w{1,40})?)(?: \(pid[ =:]{1,2}(?P<pid>\d{1,20})\))?"
            r" exited unexpectedly(?:,? (?:with |\()(?:exit )?(?:code|status)[ =:]{1,2}"
            r"(?:(?P<exit>-?\d{1,3})|null, signal=(?P<signal>SIG\w{2,6})))?",
            "RuntimeError: Worker 0 exited unexpectedly with status 0",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "terminated with signal SIG",
            r"(?P<name>process \d{1,20}) terminated with signal (?P<signal>SIG\w{1,60})",
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal "
            "SIGSEGV",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "terminated abruptly",
            r"(?P<detail>A process in the process pool was terminated abruptly)",
            "concurrent.futures.process.BrokenProcessPool: A process in the process pool was "
            "terminated abruptly while the future was running or pending.",
            of_another=True,
        ),
        Phrase(  # loky's
            ClueKind.ECHO,
            "terminated abruptly",
            r"(?P<detail>The executor is broken as at least one process terminated abruptly)",
            "[DEBUG:MainProcess:QueueManager] The executor is broken as at least one process "
            "terminated abruptly.",
        ),
        Phrase(
            ClueKind.CHILD,
            "terminated abruptly",
            r"(?P<detail>A child process terminated abruptly, the process pool is not usable)",
            "BrokenProcessPool: A child process terminated abruptly, the process pool is not "
            "usable anymore",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "xitcode",
            r"exitcode  : (?P<exit>-?\d{1,20}) \(pid: (?P<pid>\d{1,20})\)",
            "  exitcode  : -11 (pid: 4242)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "xitcode",
            r"failed \(exitcode: (?P<exit>-?\d{1,20})\) (?P<name>local_rank: \d{1,20}) \(pid: "
            r"(?P<pid>\d{1,20})\)",
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) "
            "local_rank: 0 (pid: 4242) of binary: /usr/bin/python3",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            ") received by PID ",
            r"Signal (?P<signal>\d{1,20}) \(SIG\w{1,60}\) received by PID (?P<pid>\d{1,20})",
            "  traceback : Signal 11 (SIGSEGV) received by PID 4242",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                r"(?:\b(?P<name>(?!Container\b)[A-Z]\w{2,40}(?:-\d{1,20})?)\W{1,4})?"
                r"(?:pid[ =:]{1,2}(?P<pid>\d{1,20})\W+)?"
                r"(?:(?<!\w)\w{1,60},? ){0,3}[Ee]xit ?[Cc]ode[ =:]{1,3}(?P<exit>-\d{1,3})\b",
                example,
                of_another=True,
                in_prose=True,
            )
            for needle, example in (
                ("xitcode=-", "Process SpawnProcess-1 pid=4242 ended with exitcode=-11"),
                ("xitcode -", "a worker process pid 4242 died with exitcode -11"),
                ("xitcode: -", "Worker-2 pid 4242: exitcode: -6"),
                ("xit code -", "Process Worker-2 ended with exit code -11"),
                ("xit code: -", "Rank 1 scheduler died, exit code: -9"),
                ("xit code=-", "child pid=4242 exit code=-11"),
            )
        ),
        Phrase(
            ClueKind.CHILD,
            "stopped exitcode=-",
            r"<(?P<name>\w{1,60}Process)(?:\([^)]*\)| name='[^']*' pid="
            r"(?P<pid>\d{1,20})).{0,60}stopped "
            r"exitcode=(?P<signal>-\w{1,60})",
            "<SpawnProcess name='SpawnProcess-1' pid=4242 parent=41 stopped exitcode=-SIGSEGV>",
            of_another=True,
        ),
    ),
)
RAY: Final = Family(
    source="ray",
    phrases=(
        Phrase(
            ClueKind.MEMORY,
            "due to the node running low on memory",
            r"(?P<detail>(?<!\S).{0,160}due to the node running low on memory.{0,60})",
            "Task was killed due to the node running low on memory.",
            signal="SIGKILL",
            of_another=True,
        ),
        *(
            Phrase(ClueKind.MEMORY, needle, pattern, example, signal="SIGKILL", of_another=True)
            for needle, pattern, example in (
                (
                    "NODE_OUT_OF_MEMORY",
                    r"(?P<detail>[Ee]xit type: NODE_OUT_OF_MEMORY)",
                    "Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed",
                ),
                (
                    "killed due to memory pressure",
                    r"(?P<detail>(?:\d{1,6} Workers? \(tasks / )?actors\) killed due to memory "
                    r"pressure)",
                    "(raylet) 3 Workers (tasks / actors) killed due to memory pressure (OOM)",
                ),
                (
                    "Memory on the node (IP: ",  # as its message begins, where its end is lost
                    r"(?P<detail>Memory on the node \(IP: [^()]{1,160}\) where the "
                    r"(?:task|actor|lease)\b(?! \((?:actor|task) ID: \w{1,60}, name=[\w.]{1,120}, "
                    r"pid=\d).{0,60})",
                    "Memory on the node (IP: 10.0.0.1, ID: 5bf8) where the task was running was "
                    "54.86GB / 57.60GB",
                ),
                (
                    "exceeds the memory usage threshold",
                    r"\b(?:actor|task) ID: \w{1,60}, name=(?P<name>[\w.]{1,120}), "
                    r"pid=(?P<pid>\d{1,9}), .{0,120}(?P<detail>exceeds the memory usage threshold)",
                    "where the task (actor ID: 0dab4a, name=Pool.__init__, pid=4242, memory "
                    "used=11.15GB) was running was 12.49GB / 13.15GB (0.95), which exceeds the "
                    "memory usage threshold of 0.95. Ray killed this worker",
                ),
            )
        ),
        Phrase(
            ClueKind.CHILD,
            "Worker exit type: ",
            r"(?:Worker PID: (?P<pid>\d{1,20}) )?Worker exit type: (?P<detail>SYSTEM_ERROR Worker"
            r" exit "
            r"detail: [^.]{1,120})",
            "A worker died or was killed while executing a task by an unexpected system error. "
            "Worker PID: 4242 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
            "unexpectedly exits with a connection error code 2. End of file.",
            of_another=True,
        ),
        Phrase(  # before it told of what, and where a terminal wrapped it
            ClueKind.CHILD,
            " Worker PID: ",
            r"Worker port: \d{1,5} Worker PID: (?P<pid>\d{1,20})\s*$",
            "Worker IP address: 10.0.0.1 Worker port: 40679 Worker PID: 4242",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "aylet is terminated. Termination is unexpected",
            r"(?P<detail>(?P<name>[Rr]aylet) is terminated\. Termination is unexpected)",
            "(raylet) Raylet is terminated. Termination is unexpected. Possible reasons include: "
            "(1) SIGKILL by the user",
            of_another=True,
        ),
        *(
            Phrase(ClueKind.CHILD, needle, pattern, example, of_another=True)
            for needle, pattern, example in (
                (
                    "RayletError: The Raylet died",
                    r"(?P<detail>RayletError: The (?P<name>Raylet) died)",
                    "ray.exceptions.RayletError: The Raylet died with this message: "
                    "[RayletClient] Raylet connection closed.",
                ),
                (
                    " marked dead because the ",
                    r"[Tt]he (?P<name>node) with \w{2,10} [iI][dD]:? .{0,300}?has been "
                    r"(?P<detail>marked dead because the \w{4,12} has missed too many heartbeats)",
                    "The node with node id: 4c44 and ip: 10.4.3.95 has been marked dead because "
                    "the detector has missed too many heartbeats from it. This can happen when a "
                    "raylet crashes unexpectedly",
                ),
                (
                    "istakenly been marked ",
                    r"(?P<detail>node manager has mistakenly been marked (?:as )?dead)",
                    "Exiting because this node manager has mistakenly been marked as dead by the "
                    "GCS: GCS failed to check the health of this node for 5 times.",
                ),
                (
                    "his node has be",
                    r"(?P<detail>[Tt]his node has bee[mn] marked as dead)",  # so it was mistyped
                    "node_manager.cc:170: This node has beem marked as dead.",
                ),
            )
        ),
        Phrase(
            ClueKind.CHILD,
            "The actor died unexpectedly",
            r"(?P<detail>The actor died unexpectedly before finishing this task)",
            "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "A worker died or was killed",
            r"(?P<detail>A worker died or was killed)",
            "WARNING worker.py:1619 -- A worker died or was killed while executing task 5d17.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "unexpectedly while executing this task",
            r"(?P<detail>[Tt]he worker (?:crashed|died) unexpectedly while executing this task)",
            "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this "
            "task.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "actor is dead because ",
            r"The actor is dead because (?P<detail>its .{1,60} (?:has )?died)",
            "The actor is dead because its worker process has died.",
            of_another=True,
        ),
    ),
)
