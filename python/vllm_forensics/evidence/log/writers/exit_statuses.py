"""Exit statuses as launchers, continuous integration and Windows tell them.

Sources: wait(2), bash(1) EXIT STATUS; Windows' ntstatus.h.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_ENDED: Final = (
    r"(?i:error|exited|terminated|finished|failed|died|crashed|completed|ended|returned|stopped|"
    r"aborted)"
)
_DEADLY: Final = r"(?P<exit>-(?:4|5|6|7|8|9|11|24|25|31)|1(?:3[2-79]|5[239]))\b(?!\.\d)"
"""Statuses that only a signal leaves, and not SIGTERM's or SIGINT's."""
_TOLD: Final = (
    r"(?:\b(?P<name>(?:[Ww]orker|[Rr]ank)(?:[ -]#?\d{1,3}\b)?|[Cc]hild)\b.{0,60}?)?"
    r"(?:\b(?:(?:[Ss]ub)?[Pp]rocess |[Pp][Ii][Dd][ =:]{1,2})(?P<pid>\d{1,9})\b\)?,? )?"
    rf"\b{_ENDED}(?: \w+)?[,:]?"
    r"(?: (?:with|by))?(?: an?)?(?: non-?zero)? (?i:exit |return |status |error )?(?i:code|status)"
    rf"[ :=]{{1,3}}{_DEADLY}"
)
_TELLS: Final = (
    # in the present: somebody's title, and not what `a container` does in general
    r"^(?!.{0,200}\b(?:[Aa]n?|[Aa]ny|[Ee]ach|[Ee]very) (?:\w+ )?(?:container|process|program|pod|"
    r"application|app|job|command|script|task)\b).{0,900}?\b(?i:crash(?:es|ing)|fails|failing|dies|"
    r"dying|exits|exit(?= with)|exiting|terminates|terminating|quits|ends|restarts|restarting)"
    r"(?: \w+){0,5}?,?"
    r"(?: with| due to| by)?(?: an?)?(?: non-?zero)? "
    rf"(?:exit |return |status |error )?(?:code|status)[ :=]{{1,3}}{_DEADLY}"
)
_SAW: Final = (
    r"\b(?:I|[Ww]e|[Ii]t|[Ww]hich|[Aa]lways|[Jj]ust) (?:\w+ ){0,3}?(?:ran into|runs? into|gets?|"
    r"got|getting|sees?|saw|hits?|occurs?|encounter(?:s|ed)?|returns?|returned|receives?|received|"
    r"shows?|gives?|gave)(?: \w+){0,3} (?:exit|error|return) ?(?:code|status)"
    rf"[ :=]{{1,3}}{_DEADLY}(?!,? (?:if|unless)\b)"
)
_WAS: Final = (
    r"\b(?:[Ee]xit|[Ee]rror|[Rr]eturn) ?(?:code|status)(?: in question)? (?:was|is|of) "
    rf"{_DEADLY}(?![,)]? (?:if|unless|means?|indicates?|is|when|usually|typically|would|should)\b)"
)
_TITLED: Final = (
    # not of a change, a question, a lesson
    r"^# (?!.{0,200}\b(?i:what|how|why|means?|handl\w+|docs?|document\w*|adds?|added|fix\w*|"
    r"actually|metrics?|support\w*|understand\w*|explain\w*|guide|instead|treat\w*|detect\w*|report\w*|return\w*|"
    r"should|could|may|might|when a|if a)\b)"
    rf".{{0,200}}?\b[Ee]xit(?:s|ed|ing)?(?: with)? (?:code|status)[ :=]{{1,3}}{_DEADLY}"
)
_CHINESE: Final = (
    "(?:\u9000\u51fa|\u8fd4\u56de|\u9519\u8bef|\u7ec8\u6b62|\u72b6\u6001)\u4ee3?\u7801"
    rf"(?:\u4e3a|\u662f)?[ :\uff1a]{{0,2}}{_DEADLY}"
)
_LABELLED: Final = (
    r"(?:^|[\s(\[{\"'*,:])(?:[Ee]xit|EXIT|[Rr]eturn|return)[ _]?(?:[Cc]ode|CODE|[Ss]tatus|value)"
    rf"[\"']? ?(?:[:=]| is) ?{_DEADLY}\s*(?:$|[)\]}},;\"'`|]|\. Reason)"
)
_BARE: Final = (
    r"(?:\b(?:[Ee]xits?|EXIT|[Ee]xited)(?: with)?|(?:^|[\s(,;])(?:rc|RC))"
    rf"(?: |: |=| = ){_DEADLY}(?!\s?\w{{2,12}}s\b|[%\w-]|,\d)"
)
"""Without the word code; not `exited 137 days ago`."""
WINDOWS_STATUSES: Final[dict[int, tuple[ClueKind, str | None, str]]] = {
    0xC0000005: (ClueKind.CHILD, "SIGSEGV", "STATUS_ACCESS_VIOLATION"),
    0xC0000374: (ClueKind.HEAP, None, "STATUS_HEAP_CORRUPTION: the heap was found damaged"),
    0xC0000409: (ClueKind.ABORT, "SIGABRT", "STATUS_STACK_BUFFER_OVERRUN: abort() or a check"),
    0xC000001D: (ClueKind.CHILD, "SIGILL", "STATUS_ILLEGAL_INSTRUCTION"),
    0xC0000096: (ClueKind.CHILD, "SIGILL", "STATUS_PRIVILEGED_INSTRUCTION"),
    0xC00000FD: (ClueKind.CHILD, "SIGSEGV", "STATUS_STACK_OVERFLOW"),
    0xC0000094: (ClueKind.CHILD, "SIGFPE", "STATUS_INTEGER_DIVIDE_BY_ZERO"),
    0xC0000006: (ClueKind.CHILD, "SIGBUS", "STATUS_IN_PAGE_ERROR"),
    0xC0000135: (ClueKind.ENVIRONMENT, None, "STATUS_DLL_NOT_FOUND: a library is missing"),
    0xC0000139: (ClueKind.ENVIRONMENT, None, "STATUS_ENTRYPOINT_NOT_FOUND: a library does not fit"),
    0xC0000022: (ClueKind.ENVIRONMENT, None, "STATUS_ACCESS_DENIED"),
    0xC0000142: (ClueKind.ENVIRONMENT, None, "STATUS_DLL_INIT_FAILED"),
    0xC000007B: (ClueKind.ENVIRONMENT, None, "STATUS_INVALID_IMAGE_FORMAT: a library does not fit"),
    0xC06D007E: (ClueKind.ENVIRONMENT, None, "a library that is loaded late is missing"),
    0xC06D007F: (ClueKind.ENVIRONMENT, None, "a library that is loaded late does not fit"),
    0xC000027B: (ClueKind.ABORT, "SIGABRT", "an exception of WinRT that nobody caught"),
    0xC0000417: (ClueKind.ABORT, "SIGABRT", "STATUS_INVALID_CRUNTIME_PARAMETER"),
    0xC0000602: (ClueKind.ABORT, "SIGABRT", "STATUS_FAIL_FAST_EXCEPTION: the program gave up"),
    0xC0000420: (ClueKind.ABORT, "SIGABRT", "STATUS_ASSERTION_FAILURE"),
    0x40000015: (ClueKind.ABORT, "SIGABRT", "STATUS_FATAL_APP_EXIT: the program gave up"),
    0x80000003: (ClueKind.CHILD, "SIGTRAP", "STATUS_BREAKPOINT"),
    0xE06D7363: (ClueKind.ABORT, "SIGABRT", "an exception of C++ that nobody caught"),
    0xE0434352: (ClueKind.ABORT, "SIGABRT", "an exception of .NET that nobody caught"),
}
"""What each means: the kind of clue, the signal that comes nearest to it, its name."""
_SPELLINGS: Final = (
    ("-10737", "code {signed}"),
    ("ode 32212", "code {code}"),
    ("tatus 32212", "status {code}"),
    ("ode is 32212", "code is {code}"),
    ("ode is: 32212", "code is: {code}"),
    ("tatus(32212", "ExitStatus(ExitStatus({code}))"),
    ("ode=32212", "code={code}"),
    ("xC0000", "code 0x{code:X}"),
    ("xc0000", "code 0x{code:x}"),
)
"""What stands in every line with such a status, all of which begin alike."""
_NT_TOLD: Final = (
    r"(?:(?:exit|return|error|exception)[ _]?(?:code|status)|\bcode|\bstatus|returncode|"
    r"退出代码为?|exited with|[Ee]xit status|Exception)(?: is)?\W{0,4}"
)


def _spellings(code: int) -> tuple[tuple[str, str], ...]:
    """Needles and examples: those that begin with 0xC0000 share theirs."""
    if code >> 12 == 0xC0000:
        return _SPELLINGS
    signed = code - (1 << 32) if code >> 31 else code
    numbers = {f"ode {signed}": "code {signed}", f"ode {code}": "code {code}"}
    return (*numbers.items(), (f"x{code:X}", "code 0x{code:X}"), (f"x{code:x}", "code 0x{code:x}"))


def _windows() -> tuple[Phrase, ...]:
    """One phrase for each status and each way of writing it: signed, unsigned, hexadecimal."""
    return tuple(
        Phrase(
            kind,
            needle,
            rf"(?:(?i:{_NT_TOLD})(?:{code - (1 << 32)}|{code}|(?i:0x{code:X}))(?![\da-fA-F])"
            rf"(?!\W{{1,3}}(?:is|means|corresponds|stands)\b)|"
            rf"\b(?i:0x{code:X}) (?:error|exception|crash)\b)",
            f"Process exited, exit {example.format(code=code, signed=code - (1 << 32))}",
            signal=signal,
            detail=detail,
            of_another=True,
            in_prose=True,
        )
        for code, (kind, signal, detail) in WINDOWS_STATUSES.items()
        for needle, example in _spellings(code)
    )


def _spelled(
    pattern: str, *spellings: tuple[str, str], in_prose: bool = True
) -> tuple[Phrase, ...]:
    """One phrase for each needle and example of a pattern."""
    return tuple(
        Phrase(ClueKind.CHILD, needle, pattern, example, of_another=True, in_prose=in_prose)
        for needle, example in spellings
    )


STATUSES: Final = Family(
    source="an exit status",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "(interrupted by signal ",
            # its number, where its name is mistyped
            r"\(interrupted by signal (?:\d{1,2}: ?)?(?P<signal>SIG(?:SEGV|BUS|ABRT|ILL|FPE|KILL|"
            r"TRAP|TERM|INT|SYS|QUIT|HUP|PIPE|XCPU|XFSZ|ALRM)|(?<=signal )\d{1,2})\b",
            "Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)",
            of_another=True,
        ),
        *_windows(),
        Phrase(  # Rust's of a child: the status of wait(2), with a bit for the core
            ClueKind.CHILD,
            "unix_wait_status(",
            r"\bunix_wait_status\((?:(?P<signal>4|6|7|8|9|11)|(?P<exit>13[24-9]))\)",
            "Process exited with code ExitStatus(unix_wait_status(139))",
            of_another=True,
        ),
        Phrase(  # an older Windows' event: the code stands nowhere
            ClueKind.CHILD,
            "aulting application ",
            r"^\W{0,4}Faulting application (?P<name>[\w .+-]{1,80}\.exe), version [\d.]{1,40},"
            r"(?: faulting module (?P<module>[\w.+-]{1,80}\.\w{2,4}),)?",
            "Faulting application serve.exe, version 2.0.1.0, faulting module pool.dll, version "
            "1.0.0.0, fault address 0x0084241d.",
            of_another=True,
        ),
        Phrase(  # .NET's test runs
            ClueKind.CHILD,
            " means SIG",
            r"\bexit code (?P<exit>1(?:3[2-79]|59)) means SIG[A-Z]{2,6} [A-Z]",
            "exit code 139 means SIGSEGV Illegal memory access.",
            of_another=True,
        ),
        Phrase(  # CircleCI
            ClueKind.CHILD,
            'eceived "',
            r"^Received \"(?P<signal>killed|segmentation fault|aborted)\" signal",
            'Received "killed" signal',
            of_another=True,
        ),
        Phrase(  # bazel
            ClueKind.CHILD,
            "(Exit 13",
            r"//[\w./+-]{0,160}:(?P<name>[\w.+-]{1,80}) +(?:FAILED )?\(Exit (?P<exit>13[2-9])\)",
            "//pool:take_test                         FAILED (Exit 139) in 0.4s",
            of_another=True,
        ),
        Phrase(  # tox
            ClueKind.CHILD,
            ": exit -",
            r"^[\w.-]{1,60}: exit (?P<exit>-\d{1,3}) \([\d.]{1,12} seconds\) \S{1,300}> "
            r"(?:\S{0,200}/)?(?P<name>[\w.+-]{1,60})\b(?:.{0,400}? pid=(?P<pid>\d{1,9})$)?",
            "py: exit -11 (0.07 seconds) /opt/app> python -m pool pid=4242",
            of_another=True,
        ),
        *_spelled(
            _TOLD,
            ("code 13", "Subprocess scheduler_0 (pid=4242) exited with code 139"),
            ("code 15", "worker process 4242 exited with code 152"),
            ("Code 13", "The serve container was terminated with Exit Code 137."),
            ("code: 13", "container exited with non-zero code: 137"),
            ("code=13", "Task exited with return code=139"),
            ("code -", "The child process exited with code -11"),
            ("code: -", "the executor has exited with a non-zero code: -9"),
            ("status 13", "State changed from up to crashed: process exited with status 137"),
            ("status: 13", "process exited with status: 134"),
            ("status -", "command failed with status -6"),
        ),
        *_spelled(
            _TELLS,
            ("code 13", "# Crashing in production with exit code 139"),
            ("code: 13", "The pod crashes with exit code: 139"),
            ("code -", "The test runner fails with code -11"),
            ("code=-", "the launcher exits with return code=-6"),
            ("status 13", "The import dies with status 134"),
        ),
        *_spelled(
            _SAW,
            ("code 13", "I ran into exit code 137 on the second node"),
            ("code: 13", "We always get the error code: 139"),
            ("code -", "I got the error code -11"),
            ("status 13", "I see exit status 139"),
        ),
        *_spelled(
            _WAS,
            ("code was 13", "The exit code was 137 and the log is empty"),
            ("status was 13", "Its exit status was 139"),
            ("code is 13", "The exit code is 139 and nothing else is told"),
            ("code of 13", "It stops with an exit code of 137"),
            ("status of 13", "It stops with an exit status of 134"),
            ("in question was 13", "The error code in question was 137"),
        ),
        *_spelled(  # in Chinese
            _CHINESE,
            ("\u7801-", "\u8fdb\u7a0b\u8fd4\u56de\u7801-9"),
            ("\u7801 -", "\u8fdb\u7a0b\u9000\u51fa\u7801 -11"),
            ("\u7801\u4e3a", "\u9000\u51fa\u4ee3\u7801\u4e3a139"),
            ("\u7801\uff1a", "\u9000\u51fa\u7801\uff1a137"),
            ("\u7801: ", "\u9000\u51fa\u7801: 137"),
            ("\u780113", "\u9000\u51fa\u7801139"),
            ("\u7801 13", "\u9000\u51fa\u4ee3\u7801 134"),
        ),
        *_spelled(
            _TITLED,
            ("code 13", "# Job exit code 137"),
            ("code: 13", "# [Bug] exit code: 139 in the pool"),
            ("status 13", "# Exit status 134 on import"),
            in_prose=False,
        ),
        *_spelled(
            _LABELLED,
            ("ode: 13", "Exit code: 139"),
            ("ode=13", "task 7 done (exit_code=137)"),
            ("ode = 13", "exit code = 139"),
            ("ODE: 13", "=   EXIT CODE: 139"),
            ("tatus: 13", "  Exit status: 139"),
            ("alue: 13", "Process exited with an error: 139 (Exit value: 139)"),
            ("tatus=13", "exit_status=139"),
            ("ode is 13", "Container killed on request. Exit code is 137"),
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                rf"^npm (?:ERR!|error) (?:code|errno) {_DEADLY}",
                f"{needle}139",
                of_another=True,
            )
            for needle in ("npm ERR! code ", "npm error code ")
        ),
        Phrase(
            ClueKind.CHILD,
            "xit with ",
            r"\b[Ee]xit with (?:return |exit )?code[ =:]{1,3}(?P<exit>-(?:4|6|7|8|9|11))\b",
            "# [BUG] exit with code -11",
            of_another=True,
            in_prose=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "codes ",
            r"\b[Ff]ail(?:ed|s) with (?:exit |return )codes (?:\d{1,3},? (?:and|or) )?"
            r"(?P<exit>-(?:4|6|7|8|9|11)|13[2-9])\b",
            "the launcher failed with exit codes 245 and -11",
            of_another=True,
            in_prose=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " was sent code ",
            r"(?P<name>[Ww]orker) \(pid:(?P<pid>\d{1,20})\) was sent code (?P<exit>\d{1,3})\b",
            "[ERROR] Worker (pid:4242) was sent code 139!",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "with code 13",
            r"\b(?:started|began|start|begin|keeps?|kept) (?:to exit|exiting) with code "
            r"(?P<exit>13[2-9])\b",
            "Since the upgrade the workers started to exit with code 139.",
            of_another=True,
            in_prose=True,
        ),
        *_spelled(
            _BARE,
            ("xits 13", "the import intermittently exits 139"),
            ("xits with 13", "the job exits with 139"),
            ("xit with 13", "all containers exit with 137 code"),
            ("xit 13", "pool.sh: exit 134"),
            ("xit: 13", "exit: 139"),
            ("XIT: 13", "EXIT: 139"),
            ("xit=13", "exit=139"),
            ("xited 13", "the job exited 137"),
            ("xited with 13", "the server exited with 139 again"),
            ("xited: 13", "child exited: 139"),
            ("xited with -", "the subprocess exited with -9"),
            ("xited -", "the child exited -11"),
            ("rc=13", "done, rc=139"),
            ("rc: 13", "task rc: 134"),
            ("rc = 13", "rc = 139"),
        ),
        Phrase(
            ClueKind.CHILD,
            "(exit ",
            rf"\(exit (?:code|status):? {_DEADLY}\)",
            "error: the build failed (exit code 139)",
            of_another=True,
            in_prose=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "] Error 13",
            rf"\*\*\* \[.{{0,200}}\] Error {_DEADLY}",
            "make: *** [Makefile:12: test] Error 139",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            ": *** [",
            r"make(?:\[\d{1,3}\])?: \*\*\* \[.{1,200}\] (?P<signal>Segmentation fault|Aborted|"
            r"Killed|Bus error|Illegal instruction|Floating point exception)",
            "make: *** [Makefile:12: test] Segmentation fault",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "(signal: ",
            r"(?:successfully: `(?:[^`\s/]{0,120}/){0,20}(?P<name>[\w.+-]{1,80})[^`]{0,300}` )?"
            r"\(signal: (?P<signal>\d{1,2}), SIG",
            "process didn't exit successfully: `pool` (signal: 11, SIGSEGV: invalid memory "
            "reference)",
            of_another=True,
        ),
        Phrase(  # Go's of a program that it runs, by its whole path
            ClueKind.CHILD,
            ": signal: ",
            r"(?:(?:^|[\s\"'`])/(?:[^\s:/]{1,80}/){1,20}|\bgo tool )(?P<name>[\w.+-]{1,60}): "
            r"signal: (?P<signal>killed|segmentation fault|aborted|bus error|illegal instruction)",
            "go build example.org/pool: /usr/local/go/pkg/tool/linux_amd64/compile: signal: killed",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "signal: ",
            r"(?:\b(?P<name>(?!(?i:runtime|process|command|child|it) )[\w.-]{2,40}) "
            r"(?:exited|terminated|died|crashed|failed)(?: unexpectedly| with error)?: |"
            r"^|[:=] ?\"?)"
            r"signal: (?P<signal>killed|segmentation fault|aborted|bus error|"
            r"illegal instruction|floating point exception|trace/breakpoint trap)",
            "Error: Runtime exited with error: signal: segmentation fault (core dumped)",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                signal,
                r"(?:\bprocess (?P<pid>\d{1,20})\b.{0,60})?(?:(?<!will be )\b(?:killed|died|exited|"
                r"crash(?:ed|es|ing)|terminated|ended|fail(?:ed|s|ing)|ERR!)\b"
                r"(?:(?:(?! will be )[^.(]){0,60}? (?:by|with|from|via|on)|"
                r"(?: \w{1,20})? \(code[=:] ?\w{1,6},)?|"
                rf"\bsignal:)(?: signal)?[ =:]{{0,2}}[\[\"'`*]{{0,3}}"
                rf"(?P<signal>{signal})\b(?! by OOM)(?! or )",
                f"worker process 4242 was killed by {signal}",
                of_another=True,
                in_prose=True,
            )
            for signal in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGKILL", "SIGTRAP")
        ),
    ),
)
