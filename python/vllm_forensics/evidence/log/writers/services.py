"""What the loader and shells say about programs that they started."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import SHELL, ClueKind

_DEATHS: Final = (
    "Segmentation fault",
    "Bus error",
    "Illegal instruction",
    "Floating point exception",
    "Aborted",
    "Trace/breakpoint trap",
    "Bad system call",
)
_DEATH: Final = f"(?:{'|'.join(_DEATHS)})"
_BAR: Final = r"^(?:.{0,300}(?:it/s|s/it)\] ?)?"
"""A progress bar ends without a newline."""
_TELLER: Final = (
    rf"{_BAR}(?:\w{{1,20}}: (?=[\"'`]?/))?"
    r"(?:\S{1,200}: line \d{1,20}: +|\S{1,120}: |\[\d{1,20}\][+-]? +)?"
)
"""Before a death: the script and its line, or the number of the job."""
_COMMAND: Final = (
    r" {1,40}(?:(?:env|exec|nohup|setsid|sudo|"
    r"nice(?: -n ?-?\d{1,2}| -\d{1,2})?|stdbuf(?: -\w{2,6}){1,3}|taskset -c \S{1,40}|"
    r"\w{1,40}=\S{0,200}) {1,9}){0,8}"
    r"(?:[^\s/]{0,100}/){0,20}(?P<name>[\w.+-]{1,60})(?![\w.+=-])"
)
"""What was typed: its program without its folder, behind what only prepares for it."""
LOADER: Final = Family(
    source="the loader",
    phrases=(
        Phrase(
            ClueKind.ENVIRONMENT,
            "cannot open shared object file",
            r"(?:(?P<name>[\w.+-]{1,60}): (?=error while ))?"
            r"(?P<detail>(?:error while loading shared libraries: )?"
            r"(?P<module>(?<![\w.+/-])[\w.+/-]{1,120}): "
            r"cannot open shared object file.{0,60})",
            "error while loading shared libraries: libexample.so.1: cannot open shared object "
            "file: No such file or directory",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "DLL load failed",
            r"(?P<detail>DLL load failed(?: while importing (?P<module>\w[\w.]{0,120}))?: "
            r".{1,160})",
            "ImportError: DLL load failed while importing _core: The specified module could not "
            "be found.",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "undefined symbol: ",
            # and not what a linker says of a program that is not built: `ld: error: undefined …`
            r"(?P<detail>(?P<module>(?<![\w.+/-])(?!error: )[\w.+/-]{1,240})\)?: "
            r"undefined symbol: [\w@.]{1,300})",
            "ImportError: /opt/app/_C.abi3.so: undefined symbol: _ZN2at4_ops5exampleE",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "undefined symbol: ",
            r"(?:^|[`'\"]|Error: )(?P<detail>undefined symbol: [\w@.]{3,300})",
            "ImportError: undefined symbol: _ZN2at4_ops5exampleE",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "' not found",
            r"(?P<detail>(?:version )?[`'](?:GLIBC|GLIBCXX|CXXABI|GCC)_[\d.]{1,200}' not found"
            r"(?: \(required by (?P<module>[^)]{1,200})\))?)",
            "/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /opt/app/_C.so)",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            " not found (required by ",
            r"(?P<detail>version (?:GLIBC|GLIBCXX|CXXABI|GCC)_[\d.]{1,200} not found"
            r" \(required by (?P<module>[^)]{1,200})\))",
            "/lib/libstdc++.so.6: version GLIBCXX_3.4.32 not found (required by /opt/app/_C.so)",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "cannot allocate memory in static TLS block",
            r"(?P<detail>(?P<module>(?<![\w.+/-])[\w.+/-]{1,240}): "
            r"cannot allocate memory in static TLS block)",
            "ImportError: /opt/lib/libgomp.so.1: cannot allocate memory in static TLS block",
        ),
    ),
)
SHARED_MEMORY: Final = Family(
    source="the runtime",
    phrases=(
        Phrase(
            ClueKind.ENVIRONMENT,
            "bus error encountered in worker",
            r"(?P<detail>Unexpected bus error encountered in (?P<name>worker).{0,100})",
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm).",
            signal="SIGBUS",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "No space left on device",
            r"^(?!\W{0,3}(?:PHP )?Warning: ).{0,400}?"  # it goes on without
            r"(?P<detail>(?<!\S).{0,80}(?:/dev/shm|shared memory|shm_open|shared segment).{0,100}"
            r"No space left on device.{0,40})",
            "NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 33030532 bytes, error: No "
            "space left on device (28)",
        ),
        Phrase(  # NCCL's, without the reason
            ClueKind.ENVIRONMENT,
            "NCCL WARN Error",
            r"NCCL WARN (?P<detail>(?:Error while creating shared memory segment|"
            r"Error: failed to extend) /dev/shm/nccl-\w{1,20}.{0,160})",
            "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-abc (size 4096)",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "No space left on device",
            r"(?P<detail>\[Errno 28\] No space left on device.{0,100})",
            "OSError: [Errno 28] No space left on device: '/opt/cache'",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "rrno 24] Too many open files",
            r"(?P<detail>\[Errno 24\] Too many open files.{0,100})",
            "OSError: [Errno 24] Too many open files",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "can't start new thread",
            r"(?P<detail>can't start new thread)",
            "RuntimeError: can't start new thread",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "pthread_create failed",
            r"(?P<detail>.{0,60}pthread_create failed.{0,120})",
            "OpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64: Resource "
            "temporarily unavailable",
        ),
    ),
)
CHILDREN: Final = Family(
    source=SHELL,
    phrases=(
        *(
            Phrase(
                ClueKind.SIGNAL,
                word,
                rf"{_TELLER}(?P<pid>\d{{2,20}}|(?<=: |  )\d) (?P<signal>{word})(?:: \d+)?"
                rf"(?: *\(core dumped\))?{_COMMAND}",
                f"run.sh: line 4: 4242 {word}      (core dumped) python serve.py",
            )
            for word in (*_DEATHS, "Abort trap", "Killed")
        ),
        *(
            Phrase(  # so long that bash leaves no blank behind it
                ClueKind.SIGNAL,
                word,
                rf"{_TELLER}{tells}",
                f"run.sh: line 4: 4242 {word} (core dumped)python serve.py",
            )
            for word in (
                "CPU time limit exceeded",
                "File size limit exceeded",
                "Floating point exception",
            )
            for tells in (
                rf"(?P<pid>\d{{2,20}}) (?P<signal>{word})(?! *[|&;]) {{0,40}}"
                rf"(?:\(core dumped\))? {{0,40}}(?:{_COMMAND.removeprefix(' {1,40}')})?",
                rf"(?P<signal>{word})(?= ?\(core dumped\))",
            )
        ),
        *(
            Phrase(
                ClueKind.SIGNAL,
                word,
                rf"{_TELLER}(?:(?P<pid>\d{{2,20}}):? |\d )?(?P<signal>{word})(?:: \d+)?"
                rf"(?:(?: {{2,40}}\(core ?dumped\)|(?: *\(core ?dump(?:ed)?\))?(?= {{2}}| [.~]?/))"
                rf"{_COMMAND}|"
                r" *(?:\(core ?dump(?:ed)?\)|$|  +\S|(?=[./])))",
                example,
            )
            for word, example in (
                ("Segmentation fault", "Segmentation fault (core dumped)"),
                ("Bus error", "Bus error (core dumped)"),
                ("Illegal instruction", "Illegal instruction (core dumped)"),
                ("Floating point exception", "Floating point exception (core dumped)"),
                ("Abort trap", "Abort trap: 6"),
                ("Aborted", "[1]+  Aborted                 (core dumped) ./serve"),
                ("Trace/breakpoint trap", "Trace/breakpoint trap (core dumped)"),
                ("Memory fault", "ksh: 4242: Memory fault(coredump)"),
                ("Abort", "Abort (core dumped)"),
            )
        ),
        Phrase(  # behind the name of the test that it told before
            ClueKind.SIGNAL,
            "(core dumped)",
            rf"\S: line \d{{1,9}}: +(?P<pid>\d{{1,20}}) (?P<signal>{_DEATH}) +"
            rf"\(core dumped\){_COMMAND}",
            "take ... run.sh: line 4: 4242 Segmentation fault      (core dumped) python serve.py",
        ),
        Phrase(  # and without a core
            ClueKind.SIGNAL,
            ": line ",
            rf"\S: line \d{{1,9}}: +(?P<pid>\d{{1,20}}) (?P<signal>{_DEATH}) {{2,40}}(?=\S)"
            rf"(?<= ){_COMMAND.removeprefix(' {1,40}')}",
            "take ... run.sh: line 4: 4242 Segmentation fault      python serve.py",
        ),
        *(
            Phrase(
                ClueKind.SIGNAL,
                needle,
                rf"(?:^|\W)(?:line \d{{1,9}}: +(?P<pid>\d{{1,20}}) )?(?P<signal>{deaths}) +"
                rf"{re.escape(needle)}",
                f"timeout: Segmentation fault {needle}",
            )
            for needle, deaths in (
                ("(core dumped)", _DEATH),
                # in titles
                ("(Core dumped)", f"(?i:{_DEATH})"),
                ("(Core Dumped)", f"(?i:{_DEATH})"),
                ("(CORE DUMPED)", f"(?i:{_DEATH})"),
            )
        ),
        Phrase(
            ClueKind.SIGNAL,
            "\uff08core dumped",
            rf"(?P<signal>{_DEATH}) ?\uff08core dumped",
            "Floating point exception\uff08core dumped\uff09",
        ),
        *(
            Phrase(
                ClueKind.SIGNAL,  # macOS's shells print the number: nobody else does
                word,
                rf"(?<!\w)(?P<signal>{word})(?!\d|\.\d)",
                f'It ends at once with "{word}".',
                in_prose=True,
            )
            for word in (
                "Segmentation fault: 11",
                "Abort trap: 6",
                "Bus error: 10",
                "Illegal instruction: 4",
                "Floating point exception: 8",
                "Killed: 9",
            )
        ),
        Phrase(
            ClueKind.SIGNAL,
            " terminated by signal SIG",
            r"(?:^|[\w:] ?[-:\u2013\u2014]? )fish: (?:Job \d{1,9}, )?"
            r"['\"\u201c](?:\S{0,200}/)?(?P<name>[\w.+-]{1,60}).{0,400}"
            r"['\"\u201d] terminated by signal (?P<signal>SIG\w{1,20})",
            "fish: Job 1, './serve' terminated by signal SIGSEGV (Address boundary error)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "zsh: ",
            r"^zsh: (?P<signal>segmentation fault|bus error|abort|illegal hardware instruction|"
            rf"floating point exception|trace trap|killed)(?: \(core dumped\))?{_COMMAND}",
            "zsh: segmentation fault (core dumped)  python3 serve.py",
        ),
        *(
            Phrase(  # zsh's
                ClueKind.SIGNAL,
                needle,
                r"(?:(?:\[\d{1,20}\]|^ {4}) +[+-]? *|^(?:# )?(?=\d{2,9} [a-z ]{5,30} \(core))"
                rf"(?P<pid>\d{{1,20}}) (?P<signal>{word})(?: \(core dumped\))?"
                rf"(?:{_COMMAND}|$|\W)",
                f"[1]  + 4242 {word}      python serve.py",
            )
            for needle, word in (
                ("egmentation fault", "segmentation fault"),
                (" abort ", "abort"),
                (" bus error", "bus error"),
                (" illegal hardware instruction", "illegal hardware instruction"),
                (" trace trap", "trace trap"),
                (" killed  ", "killed"),
            )
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Killed",
            rf"{_BAR}(?:\*\*)?(?:\S{{1,200}}: line \d{{1,20}}: +|\[\d{{1,20}}\][+-]? +)?"
            r"(?:(?P<pid>\d{1,20}) )?(?P<signal>Killed)"
            r"(?:: 9)?(?:\*\*)?(?: *$|   +\S.*)",
            "run.sh: line 4: 4242 Killed                  python serve.py",
        ),
        Phrase(
            ClueKind.NOT_MEMORY,
            "kill -",
            r"^(?:[\w@.:~/-]{1,60} ?)?[$#>] ?"
            r"(?P<detail>(?:sudo )?p?kill -(?:9|(?:SIG)?KILL)\b.{0,60})",
            "$ kill -9 4242",
        ),
    ),
)
