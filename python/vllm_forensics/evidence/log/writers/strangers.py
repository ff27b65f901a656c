"""What programs far from Python print when they die: browsers, databases, games, .NET."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_WORDS: Final = (
    r"(?:Segmentation [Ff]ault|Bus [Ee]rror|Aborted|Abort|Illegal [Ii]nstruction|"
    r"Floating [Pp]oint [Ee]xception)"
)
BROWSERS: Final = Family(
    source="a browser's engine",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "Received signal ",
            r"\bReceived signal (?P<signal>\d{1,2}) (?:[A-Z]{3,4}_[A-Z]{3,10}|<unknown>)"
            r"(?: (?P<detail>[0-9a-f]{6,16}))?",
            "Received signal 11 SEGV_MAPERR 000000000048",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "egmentation fault at address ",
            r"\b(?P<detail>(?P<signal>[Ss]egmentation fault) at address (?:0x)?"
            r"[0-9A-Fa-f]{1,16})\b",
            "panic(main thread): Segmentation fault at address 0x48",
        ),
        Phrase(
            ClueKind.ABORT,
            "# Fatal error in ",
            r"^# (?P<detail>Fatal error in .{1,200})",
            "# Fatal error in , line 0",
        ),
    ),
)
_OF_CLICKHOUSE: Final = r"<(?:Fatal|Error|Trace)> (?:BaseDaemon|CrashWriter)(?: \([^()]{1,40}\))?: "
CLICKHOUSE: Final = Family(
    source="ClickHouse",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "eceived signal ",
            rf"{_OF_CLICKHOUSE}.{{0,300}}?\b[Rr]eceived signal (?P<signal>{_WORDS}|\d{{1,2}}\b)",
            "<Fatal> BaseDaemon: (version 23.8.1.1) (from thread 4300) (no query) Received signal "
            "Segmentation fault (11)",
        ),
    ),
)
DATABASES: Final = Family(
    source="a server",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "Received signal ",
            rf"\bReceived signal (?P<signal>{_WORDS})(?: \(\d{{1,2}}\))",
            "poold: (from thread 4300) Received signal Segmentation fault (11)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Got signal: ",
            rf"\bGot signal: (?P<signal>\d{{1,2}}) \({_WORDS}\)",
            "F  -        [conn42] Got signal: 11 (Segmentation fault).",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Got signal [signal:",
            r"(?:^|\d )(?:(?P<name>[\w.-]{1,40}) \[(?P<pid>\d{1,7})\]: )?"
            r"Got signal \[signal:(?P<signal>\d{1,2})\(SIG[A-Z]{2,8}\)[^\]]{0,60}\]\. Crashing",
            "agentd [4242]: Got signal [signal:11(SIGSEGV),reason:1,refaddr:(nil)]. Crashing ...",
        ),
        Phrase(
            ClueKind.ABORT,
            "Invariant failure",
            r"(?P<detail>Invariant failure:? .{1,200})",
            "F  -        [conn42] Invariant failure block != nullptr src/pool.cpp 88",
            signal="SIGABRT",
        ),
    ),
)
GAMES: Final = Family(
    source="a game engine",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            " caught.",
            r"^Signal (?P<signal>\d{1,2}) caught\.$",
            "Signal 11 caught.",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Unhandled Exception: ",
            r"\bUnhandled Exception: (?P<detail>(?P<signal>SIG[A-Z]{2,6}): .{1,160})",
            "Unhandled Exception: SIGSEGV: invalid attempt to read memory at address "
            "0x0000000000000048",
        ),
    ),
)
MATLAB: Final = Family(
    source="MATLAB",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "Segmentation violation detected at ",
            r"^\W{0,80}(?P<signal>Segmentation violation) detected at \w",
            "        Segmentation violation detected at Wed Jan 14 10:33:05 2026",
        ),
        Phrase(
            ClueKind.ABORT,
            "abort() detected at ",
            r"^\W{0,80}(?P<detail>abort\(\)) detected at \w",
            "        abort() detected at Wed Jan 14 10:33:05 2026",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Stack Trace (from fault):",
            r"^\W{0,8}(?P<detail>Stack Trace \(from fault\)):$",
            "Stack Trace (from fault):",
        ),
    ),
)
UNREAL: Final = Family(
    source="Unreal",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "] [Line: ",
            r"(?P<detail>Assertion failed: .{1,200}? \[File:\S{1,200}\]) \[Line: \d{1,6}\]",
            "Assertion failed: Pool != nullptr [File:/src/Pool.cpp] [Line: 88]",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "LowLevelFatalError [File:",
            r"(?P<detail>LowLevelFatalError \[File:[^\]]{1,300}\] \[Line: \d{1,6}\].{0,200})",
            "LowLevelFatalError [File:/src/Pool.cpp] [Line: 88] the pool is gone",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Unhandled Exception: ",
            r"\bUnhandled Exception: "
            r"(?P<detail>EXCEPTION_(?P<signal>ACCESS_VIOLATION)(?: [^\"]{1,160}|$))",
            "Unhandled Exception: EXCEPTION_ACCESS_VIOLATION reading address 0x0000000000000048",
            signal="SIGSEGV",
        ),
    ),
)
MINIDUMPS: Final = Family(
    source="a debugger",
    phrases=(
        Phrase(  # Solaris' pstack, of a core
            ClueKind.STACK,
            "core '",
            r"^core '[^']{1,200}' of (?P<pid>\d{1,9}):\s{1,8}(?:[^\s/]{0,100}/){0,20}"
            r"(?P<name>[\w.+-]{1,80})",
            "core 'core.4242' of 4242:\t/opt/bin/serve --all\n"
            " 00007fff0001234 take () + 12\n 00007fff0001888 main () + 4c",
        ),
        Phrase(  # whose heading with the reason was left out
            ClueKind.SIGNAL,
            " (crashed)",
            r"^\W{0,4}Thread \d{1,5} \(crashed\)",
            "Thread 0 (crashed)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "rash reason:  ",
            r"\bCrash reason:  (?P<signal>SIG[A-Z]{2,6}|EXC_BAD_ACCESS|EXCEPTION_[A-Z_]{6,30}?)"
            r"(?:_READ|_WRITE|_EXEC)?\b(?P<detail> / .{1,60})?",
            "Crash reason:  SIGSEGV / SEGV_MAPERR",
            signal="SIGSEGV",
        ),
        *(
            Phrase(
                ClueKind.SIGNAL,
                f"rash reason:  {reason}",
                rf"\bCrash reason:  {reason}\b(?P<detail> / .{{1,60}})?",
                f"Crash reason:  {reason} / EXC_I386_INVOP",
                signal=signal,
            )
            for reason, signal in (
                ("EXC_BAD_INSTRUCTION", "SIGILL"),
                ("EXC_BREAKPOINT", "SIGTRAP"),
                ("EXC_ARITHMETIC", "SIGFPE"),
            )
        ),
        Phrase(  # WinDbg's, above a stack
            ClueKind.STACK,
            " RetAddr",
            r"^\W{0,8}Child(?:-SP|EBP) {1,20}RetAddr\b",
            "Child-SP          RetAddr           Call Site\n"
            "00000094`6d9eb6e0 00007ffd`9380d2cf pool!ns::take+0x4e\n"
            "00000094`6d9eb710 00007ffd`73d62483 pool!ns::serve+0x1f",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "ccess violation - code c0000005",
            r"\b(?P<signal>Access violation) - code c0000005\b",
            "(1092.10cc): Access violation - code c0000005 (first chance)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "ExceptionCode: ",
            r"^\W{0,24}ExceptionCode: .{0,80}?\((?P<signal>Access violation|"
            r"EXCEPTION_ACCESS_VIOLATION)",
            "   ExceptionCode: c0000005 (Access violation)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "EXCEPTION_CODE: ",
            r"^\W{0,8}EXCEPTION_CODE: \(NTSTATUS\) 0x[Cc]0000005\b",
            "EXCEPTION_CODE: (NTSTATUS) 0xc0000005 - The instruction referenced memory",
            signal="SIGSEGV",
        ),
    ),
)
INTERPRETERS: Final = Family(
    source="a language runtime",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "PANIC: unprotected error in call",
            r"(?P<detail>PANIC: unprotected error in call to Lua API \((?!%).{0,200})",
            "PANIC: unprotected error in call to Lua API (attempt to index a nil value)",
            in_prose=True,
        ),
        Phrase(  # Erlang's processes are none of the system's
            ClueKind.CHILD,
            "(EXIT from #PID<",
            r"(?P<detail>\(EXIT from #PID<[\d.]{3,20}>\).{0,160})",
            "** (EXIT from #PID<0.42.0>) shell process exited with reason: killed",
            of_another=True,
        ),
        Phrase(
            ClueKind.SIGNAL,
            "CORRUPTION WARNING in SBCL pid ",
            r"CORRUPTION WARNING in SBCL pid (?P<pid>\d{1,20})",
            "CORRUPTION WARNING in SBCL pid 4242 tid 4300:",
        ),
    ),
)
DOTNET: Final = Family(
    source=".NET",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "System.AccessViolationException",
            r"(?:^|Fatal error\. |Unhandled [Ee]xception[:.] |Exception Info: )(?P<detail>System"
            r"\.AccessViolationException(?:: ?\W?\S.{1,160}|$))",
            "Fatal error. System.AccessViolationException: Attempted to read or write protected "
            "memory.",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Internal CLR error",
            r"^\W{0,4}(?P<detail>(?:Fatal [Ee]rror(?:\.| -) )?Internal CLR error\..{0,40})",
            "Fatal error. Internal CLR error. (0x80131506)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Got a SIG",
            r"\bGot a (?P<signal>SIG[A-Z]{2,6}) while executing native code\b"
            r"(?:\. This usually indicates)?",
            "Got a SIGSEGV while executing native code. This usually indicates",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Stack overflow",
            r"^(?P<detail>Stack overflow\.?)$",
            "Stack overflow.",
        ),
        Phrase(
            ClueKind.ABORT,
            "Unhandled exception. ",
            r"^(?P<detail>Unhandled exception\. [\w.]{1,120}Exception: .{1,200})",
            "Unhandled exception. System.InvalidOperationException: the pool is closed",
        ),
        Phrase(
            ClueKind.ABORT,
            "Unhandled Exception: ",
            r"^(?P<detail>Unhandled Exception: [\w.]{1,120}Exception: .{1,200})",
            "Unhandled Exception: System.InvalidOperationException: the pool is closed",
        ),
        Phrase(
            ClueKind.ABORT,
            "rocess terminated. ",
            r"^(?P<detail>Process terminated\. \S.{1,200})",
            "Process terminated. Assertion failed.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            'Exception in thread "main" ',
            r"^(?P<detail>Exception in thread \"main\" [\w.$]{1,200}(?:Exception|Error)\b"
            r".{0,200})",
            'Exception in thread "main" java.lang.UnsatisfiedLinkError: no pool in the path',
        ),
    ),
)
