"""What vLLM's and SGLang's processes say of each other, and of waiting too long."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

VLLM: Final = Family(
    source="vllm",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "died unexpectedly",
            r"(?:Engine core proc|Worker proc|Engine process|Worker) (?P<name>[\w.-]{1,200})"
            r"(?: \(pid[ =](?P<pid>\d{1,20})\))? died unexpectedly"
            r"(?: \(exit code: (?P<exit>-?\d{1,3})\))?",
            "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "ngine core exited unexpectedly",
            r"(?P<name>[Ee]ngine core) exited unexpectedly",
            "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            ") died.",
            r"(?P<name>Engine process|Worker) \(pid (?P<pid>\d{1,20})\) died\.",
            "ERROR 01-15 08:12:45 client.py:300] RuntimeError('Engine process (pid 4242) died.')",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " is already dead",
            r"(?P<name>\w{0,20}Engine) is already dead",
            "CRITICAL 01-15 08:12:45 launcher.py:99] MQLLMEngine is already dead, terminating "
            "server process",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " died, exit code: ",
            r"Worker (?P<name>\w{1,60}) pid (?P<pid>\d{1,20}) died, exit code: "
            r"(?P<exit>-?\d{1,20})",
            "Worker VllmWorkerProcess pid 4242 died, exit code: -11",
            of_another=True,
        ),
        Phrase(  # SGLang's launcher; the status stands in the next line
            ClueKind.CHILD,
            " scheduler is dead",
            r"(?P<name>Rank \d{1,5} scheduler) is dead\.",
            "Rank 0 scheduler is dead. Please check if there are relevant logs.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "orker died (",
            r"(?P<name>[Ww]orker) died \((?P<exit>-\d{1,3})\)",
            "ChildProcessError: worker died (-9)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "ailed core proc(s)",
            r"[Ff]ailed core proc\(s\): \{'(?P<name>[\w.-]{1,200})': (?P<exit>-?\d{1,20})",
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
            "proc(s): {'EngineCore_DP0': -11}",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "ot fatal signal from worker",
            r"(?P<detail>[Gg]ot fatal signal from (?P<name>worker) processes)",
            "CRITICAL 01-15 08:12:45 [multiproc_executor.py:48] MulitprocExecutor got fatal "
            "signal from worker processes, shutting down. See stack trace above for root cause "
            "issue.",
            of_another=True,
        ),
        *(  # the launcher of text-generation-inference
            Phrase(
                ClueKind.CHILD,
                needle,
                r"(?P<detail>\b(?P<name>Shard \d{1,4}|Webserver) "
                r"(?:[Cc]rashed|failed to start))\s*$",
                example,
                of_another=True,
            )
            for needle, example in (
                (" crashed", "ERROR text_generation_launcher: Shard 0 crashed"),
                (" Crashed", "ERROR text_generation_launcher: Webserver Crashed"),
                (" failed to start", "ERROR text_generation_launcher: Shard 1 failed to start"),
            )
        ),
        Phrase(
            ClueKind.HANG,
            "RPC call to ",
            r"(?P<detail>RPC call to \w{1,60} timed out)",
            "TimeoutError: RPC call to execute_model timed out.",
        ),
        Phrase(  # as people write it in titles
            ClueKind.HANG,
            "RPC Call to ",
            r"(?P<detail>RPC Call to \w{1,60} Timed Out)",
            "# [Bug]: TimeoutError in vLLM: RPC Call to execute_model Timed Out",
        ),
        Phrase(
            ClueKind.HANG,
            "RPC call timed out",
            r"(?P<detail>RPC call timed out)",
            "TimeoutError: RPC call timed out.",
        ),
        Phrase(
            ClueKind.HANG,
            "Engine iteration timed out",
            r"(?P<detail>Engine iteration timed out)",
            "asyncio.exceptions.TimeoutError: Engine iteration timed out. This should never "
            "happen!",
        ),
        *(
            Phrase(
                ClueKind.HANG,
                needle,
                rf"(?P<detail>{needle} in \d{{1,20}} ?s\w*)"
                r"(?:\. This typically .{0,300})?",  # it explains itself
                f"{needle} in 60 second.",
            )
            for needle in (
                "No available shared memory broadcast block found",
                "No available block found",
            )
        ),
        Phrase(
            ClueKind.HANG,
            "Scheduler watchdog timeout",
            r"(?P<detail>(?:Scheduler|Detokenizer) watchdog timeout)",
            "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        ),
        Phrase(
            ClueKind.HANG,
            "Watchdog timeout",
            r"(?P<detail>Watchdog timeout \(self\.watchdog_timeout=\d{1,20})",
            "Watchdog timeout (self.watchdog_timeout=300)",
        ),
        Phrase(
            ClueKind.CHILD,
            "hild process unexpectedly failed with",
            r"[Cc]hild process unexpectedly failed with (?:an )?exit ?code[= ]"
            r"(?P<exit>-?\d{1,20})(?:\. "
            r"pid=(?P<pid>\d{1,20}))?",
            "A child process unexpectedly failed with exitcode=139. pid=4242",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.ECHO,
                needle,
                rf"(?P<detail>{needle}(?:[:(]| (?:while|when|during|after|in|with|on|using)\b|"
                r"['\">]?\)?\.?\s*$).{0,120})",
                f"{needle}: x",
            )
            for needle in ("EngineDeadError", "AsyncEngineDeadError", "MQEngineDeadError")
        ),
        *(
            Phrase(
                ClueKind.ECHO, needle, rf"(?P<detail>(?<!\bR ){needle}.{{0,120}})", f"{needle} x"
            )
            for needle in (
                "Engine loop is not running",
                "Engine loop has died",
                "Engine core initialization failed",
                "Engine process failed to start",
                "Parent process exited, terminating worker",
                "See root cause above",
                "Background loop has errored already",
                "Received a SIGQUIT signal",
                "Received sigquit from a child",
                "SIGQUIT received. signum=",
                "encountered a fatal error",
                "EngineCore failed to start",
                "EngineCore hit an exception",
                "WorkerProc hit an exception",
                "Error executing metho",
                "WorkerProc failed to start",
                "WorkerProc initialization failed",
                "Scheduler hit an exception",
                "BrokenPipeError",
                "ConnectionResetError",
                "Connection reset by peer",
                "ActorDiedError",
                "ChildFailedError",
            )
        ),
    ),
)
