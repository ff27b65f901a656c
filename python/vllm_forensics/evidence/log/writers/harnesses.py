"""What test runners, notebooks, compilers' drivers and servers' masters say of a dead child."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_CTEST: Final = r"(?:\bTest +#\d{1,6}: (?P<name>\S.{0,200}?) \.{2,200}\s{0,4})?"
"""CTest's line about one test, up to its outcome."""
_XDIST: Final = r"(?P<name>gw(?:\d{1,5}|[NnXx*]\b))"
"""pytest-xdist's name of a worker; people put a letter for its number."""
TESTS: Final = Family(
    source="a test runner",
    phrases=(
        Phrase(  # pytest's, of a file that it cannot even read
            ClueKind.EXCEPTION,
            "Error while importing ",
            r"^(?:E +)?(?P<detail>(?:Import|ModuleNotFound)Error while importing (?:test module|"
            r"conftest) .{1,200})",
            "ImportError while importing test module '/opt/app/test_pool.py'.",
        ),
        Phrase(
            ClueKind.CHILD,
            " crashed while running ",
            rf"[Ww]orker ['\"`]?{_XDIST}['\"`]? crashed while running",
            "worker 'gw0' crashed while running 'tests/test_pool.py::test_take'",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "replacing crashed worker ",
            rf"replacing crashed worker {_XDIST}",
            "replacing crashed worker gw0",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " crashed and worker restarting disabled",
            rf"[Ww]orker ['\"`]?{_XDIST}['\"`]? crashed and worker",
            "worker gw0 crashed and worker restarting disabled",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "CRASHED with signal ",
            r"running the test CRASHED with signal (?P<signal>\d{1,3})",
            ":-1: running the test CRASHED with signal 11",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "***Exception: ",
            rf"{_CTEST}\*\*\*Exception: (?P<signal>SegFault|Illegal|Numerical|Bus error)",
            "1/2 Test #1: pool ...***Exception: SegFault  0.12 sec",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Subprocess aborted",
            rf"{_CTEST}(?P<signal>Subprocess aborted)"
            r"(?:\*\*\*Exception|\))",
            "2/2 Test #2: pool ...Subprocess aborted***Exception:   0.20 sec",
            of_another=True,
        ),
        Phrase(  # before 3.19
            ClueKind.CHILD,
            "Child aborted",
            rf"{_CTEST}(?P<signal>Child aborted)(?:\*\*\*Exception|\))",
            "2/2 Test #2: pool ...Child aborted***Exception:   0.20 sec",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " (SEGFAULT)",
            r"\d{1,5} - (?P<name>\S.{0,200}) \((?P<signal>SEGFAULT)\)",
            "          1 - pool (SEGFAULT)",
            of_another=True,
        ),
    ),
)
NOTEBOOKS: Final = Family(
    source="a notebook server",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "DeadKernelError",
            r"(?P<detail>Dead(?P<name>Kernel)Error(?:: Kernel died)?)",
            "nbclient.exceptions.DeadKernelError: Kernel died",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Kernel died while waiting",
            r"(?P<detail>(?P<name>Kernel) died while waiting for execute reply)",
            "[NbConvertApp] ERROR | Kernel died while waiting for execute reply.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "kernel appears to have died",
            r"(?P<detail>[Tt]he (?P<name>kernel) appears to have died)",
            "The kernel appears to have died. It will restart automatically.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "KernelRestarter: restarting kernel",
            r"(?P<detail>KernelRestarter: restarting (?P<name>kernel))",
            "[I 08:12:45.123 NotebookApp] KernelRestarter: restarting kernel (1/5), keep random "
            "ports",
            of_another=True,
        ),
        Phrase(  # VS Code's
            ClueKind.CHILD,
            "kernel process died",
            r"(?P<detail>(?P<name>kernel) process died ExitCode: (?:(?P<exit>\d{1,3})\b|\w{1,12}))",
            "[error] Disposing session as kernel process died ExitCode: undefined, Reason: x",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                r"^# .{0,160}?\b(?P<detail>(?:kill(?:s|ed|ing)|crash(?:es|ed|ing))"
                r" (?:the |my )?(?:Jupyter|IPython)(?: [Nn]otebook)?(?:'s)? (?P<name>[Kk]ernel))\b",
                f"# Importing pool kills {needle}",
                of_another=True,
            )
            for needle in ("Jupyter Kernel", "Jupyter kernel", "IPython kernel", "IPython Kernel")
        ),
        Phrase(
            ClueKind.CHILD,
            "Kernel crashed while executing",
            r"(?P<detail>[Tt]he (?P<name>Kernel) crashed while executing code)",
            "The Kernel crashed while executing code in the current cell or a previous cell.",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                r"(?:^(?:# )?|:|(?<!fter )(?<!nce )(?<!ntil )(?<!efore )"
                r"\b(?:[Jj]upyter|[Tt]he|IPython|[Mm]y|[Pp]ython(?: \d)?) )"
                r"(?P<detail>(?P<name>[Kk]ernel|KERNEL) (?:(?:[Hh]as )?[Dd]ied|DIED|"
                r"is (?:dead|dying)|(?:(?:keeps|is|was|has) )?restart(?:ing|ed)|"
                r"(?<=# kernel )restarts))\b",
                example,
                of_another=True,
                in_prose=True,
            )
            for needle, example in (
                ("ernel died", "The kernel died as soon as the model was loaded"),
                ("ernel has died", "Jupyter kernel has died"),
                ("ernel Has Died", "Kernel Has Died"),
                ("ernel is d", "Python 3 kernel is dead"),
                ("KERNEL DIED", "KERNEL DIED"),
                ("ernel restart", "The kernel restarted when it was imported"),
                ("ernel is restart", "The kernel is restarting"),
                ("ernel keeps restart", "Kernel keeps restarting"),
            )
        ),
        Phrase(
            ClueKind.CHILD,
            "ernel died, restarting",
            r"^\W{0,4}(?P<detail>(?P<name>Kernel) died, restarting)",
            "Kernel died, restarting",
            of_another=True,
        ),
    ),
)
COMPILERS: Final = Family(
    source="a compiler",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "internal compiler error: ",
            r"internal compiler error: (?P<signal>Segmentation fault|Illegal instruction|Aborted|"
            r"Bus error|Killed)(?: (?:signal terminated |\()program (?P<name>\w{1,40}))?",
            "cache.cpp:88:1: internal compiler error: Segmentation fault",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " signal terminated program ",
            r"(?P<signal>Killed|Segmentation fault|Aborted|Terminated) signal terminated program "
            r"(?P<name>\w{1,40})",
            "g++: fatal error: Killed signal terminated program cc1plus",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "unable to execute command: ",
            r"(?:(?<![\w.+-])(?P<name>[\w.+-]{1,40}): error: )?unable to execute command: "
            r"(?P<signal>Segmentation fault|Aborted|Killed|Bus error|"
            r"Illegal instruction|Abort trap)",
            "clang++: error: unable to execute command: Segmentation fault: 11",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "frontend command failed ",
            r"(?P<detail>(?P<name>clang) frontend command failed (?:due to signal|with exit code "
            r"(?P<exit>\d{1,3})))",
            "clang++: error: clang frontend command failed due to signal (use -v)",
            of_another=True,
        ),
        Phrase(
            ClueKind.SIGNAL,
            "PLEASE submit a bug report",
            r"(?P<detail>PLEASE submit a bug report to \S{1,200})",
            "PLEASE submit a bug report to https://example.org/ and include the crash backtrace.",
            detail="the crash handler of LLVM",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Exception Code: 0x",
            r"^Exception Code: 0x[Cc]0000005\b",
            "Exception Code: 0xC0000005",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Program arguments: ",
            r"^\s*0\.\s+(?P<detail>Program arguments: (?:\"[^\"]{0,200}[\\/]|\S{0,200}/)?"
            r"(?P<name>[\w.+-]{1,60}).{0,200})",
            "0.\tProgram arguments: triton-opt --convert pool.mlir",
        ),
    ),
)
SERVERS: Final = Family(
    source="a server's master",
    phrases=(
        Phrase(
            ClueKind.HANG,
            "WORKER TIMEOUT (pid:",
            r"(?P<detail>(?P<name>WORKER) TIMEOUT \(pid: ?(?P<pid>\d{1,20})\))",
            "[CRITICAL] WORKER TIMEOUT (pid:4242)",
            of_another=True,
        ),
        Phrase(  # uWSGI
            ClueKind.HANG,
            "HARAKIRI ON WORKER ",
            r"(?P<detail>HARAKIRI ON (?P<name>WORKER) \d{1,6}) \(pid: (?P<pid>\d{1,20})",
            "Thu Jan 15 08:12:45 2026 - *** HARAKIRI ON WORKER 9 (pid: 4242, try: 1) ***",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "...NO MERCY !!!",
            r"(?P<name>worker) \d{1,6} \(pid: (?P<pid>\d{1,20})\) is taking too much time to die"
            r"\.\.\.NO MERCY",
            "worker 2 (pid: 4242) is taking too much time to die...NO MERCY !!!",
            signal="SIGKILL",
            of_another=True,
            sender="uWSGI's master",
        ),
        Phrase(  # as people call it
            ClueKind.HANG,
            "CRITICAL WORKER TIMEOUT",
            r"(?P<detail>CRITICAL (?P<name>WORKER) TIMEOUT)\b",
            "I get `CRITICAL WORKER TIMEOUT` with five workers",
            of_another=True,
            in_prose=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Child process [",
            r"(?P<name>Child process) \[(?P<pid>\d{1,20})\] died",
            "INFO:     Child process [4242] died",
            of_another=True,
        ),
        Phrase(
            ClueKind.SIGNAL,
            "uWSGI process ",
            r"uWSGI process (?P<pid>\d{1,20}) got (?P<signal>Segmentation Fault)",
            "!!! uWSGI process 4242 got Segmentation Fault !!!",
        ),
        Phrase(  # where that line was cut off
            ClueKind.SIGNAL,
            "(uwsgi_segfault+0x",
            r"^(?:(?P<name>uWSGI \w{1,20} \d{1,6})|\S{1,200})\(uwsgi_segfault\+0x",
            "uWSGI worker 4(uwsgi_segfault+0x23) [0x5581c0de1234]",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.CHILD,
            "DAMN ! ",
            r"DAMN ! (?P<name>worker|mule|spooler) (?:\d{1,6} )?\(pid: (?P<pid>\d{1,20})\) died"
            r"(?:, killed by signal (?P<signal>\d{1,2}))?",
            "DAMN ! worker 1 (pid: 4242) died :( trying respawn ...",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Stub process ",
            r"(?P<detail>(?P<name>Stub) process .{0,80}?is (?:not |un)healthy)",
            "failed to load 'pool': Stub process 'pool_0' is not healthy.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "runner process has terminated: exit status",
            r"(?P<name>llama runner) process has terminated: exit status ?(?P<exit>\d{1,3})\b",
            "Error: llama runner process has terminated: exit status 2",
            of_another=True,
        ),
        Phrase(
            ClueKind.ABORT,  # the last line that it wrote, as its parent tells it
            "runner process ",
            r"(?P<name>llama runner) process (?:has )?terminated: (?!signal: |exit status|%!)"
            r"(?P<detail>\w.{1,200})",
            "Error: llama runner process has terminated: CUDA error: out of memory",
            of_another=True,
        ),
        Phrase(  # a parent written in Go, in its structured log
            ClueKind.CHILD,
            '="exit status ',
            r"\bmsg=\"(?P<name>[^\"]{2,40}?)(?: process)?(?: has)? "
            r"(?:terminated|exited|died|crashed|stopped)\b[^\"]{0,60}\""
            r"[^\"]{0,200}\berr(?:or)?=\"exit status (?P<exit>\d{1,3})\"",
            'level=ERROR msg="pool runner terminated" error="exit status 2"',
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "runner process no longer running",
            r"(?P<detail>(?P<name>llama runner) process no longer running)"
            r"(?:: (?P<exit>-?\d{1,3}))?",
            "Error: llama runner process no longer running: -1",
            of_another=True,
        ),
        Phrase(
            ClueKind.SIGNAL,
            " got signal ",
            r"\b(?P<name>\w{1,40}) got signal (?P<signal>\d{1,2}) ?;",
            "08:12:45 UTC - mysqld got signal 11 ;",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " crashed by signal: ",
            r"(?:(?<![^\s\[])(?P<pid>\d{1,9})(?::[A-Z]|\]) .{0,40}# {1,6})?(?P<name>\w{1,40}) "
            r"[\d.]{1,20} crashed by signal: (?P<signal>\d{1,2})",
            "4242:M 15 Jan 2026 08:12:45.123 # Redis 6.0.16 crashed by signal: 11, si_code: 1",
        ),
    ),
)
LIMITS: Final = Family(
    source="the platform",
    phrases=tuple(
        Phrase(ClueKind.MEMORY, needle, pattern, example, signal="SIGKILL", of_another=True)
        for needle, pattern, example in (
            (
                "System OOM encountered",
                r"(?P<detail>System OOM encountered, victim process: (?P<name>[^,]{1,60}), pid: "
                r"(?P<pid>\d{1,20}))",
                "Warning  SystemOOM  node/n1  System OOM encountered, victim process: python, "
                "pid: 4242",
            ),
            (
                "was low on resource: memory",
                r"(?P<detail>[Nn]ode was low on resource: memory.{0,80})",
                "The node was low on resource: memory. Container serve was using 9Gi",
            ),
            (
                "by YARN for exceeding",
                r"(?P<detail>Container killed by YARN for exceeding .{0,30}memory limits)",
                "Container killed by YARN for exceeding physical memory limits.",
            ),
            (
                "Container killed due to memory usage",
                r"(?P<detail>Container killed due to memory usage)",
                "OutOfMemoryError: Container killed due to memory usage",
            ),
            (
                "Memory limit ",
                r"(?P<detail>Memory limit (?:of [\d.]{1,12} ?[KMG]i?B? )?exceeded"
                r"(?: \(\d{1,6}[KMG]i?\)| with [\d.]{1,12}).{0,40})",
                "Memory limit of 512 MiB exceeded with 530 MiB used.",
            ),
            (
                "Memory quota vastly exceeded",
                r"(?P<detail>Error R15 \(Memory quota vastly exceeded\))",
                "heroku[web.1]: Error R15 (Memory quota vastly exceeded)",
            ),
            (
                " due to memory ",
                r"Killed (?P<detail>/(?:[^\s/]{1,120}/){0,12}(?P<name>[^\s/]{1,120}?)"
                r"(?:\.service|\.scope)? due to memory (?:used|pressure)\b.{0,160})",
                "systemd-oomd[7]: Killed /user.slice/serve.service due to memory used (16 GB)",
            ),
            (
                "systemd-oomd killed ",
                r"(?P<detail>systemd-oomd killed \d{1,6} process)",
                "session-2.scope: systemd-oomd killed 12 process(es) in this unit.",
            ),
        )
    ),
)
