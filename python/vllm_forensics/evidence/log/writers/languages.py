"""What other languages' runtimes print: the Java machine, Node, Julia, R, Paddle, folly."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

JULIA: Final = Family(
    source="Julia",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "ignal ",
            r"^\s{0,8}(?:\[?(?P<pid>\d{1,9})\] ?)?[Ss]ignal \(?(?P<signal>\d{1,2})(?:\.\d)?\)?"
            r"(?: \(-?\d{1,2}\))?: (?:[Ss]egmentation fault|Bus error|Aborted|Abort trap|"
            r"Illegal instruction|Floating point exception|[Uu]nknown signal)",
            "[4242] signal (11.1): Segmentation fault",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "EXCEPTION_ACCESS_VIOLATION",
            r"Exception: (?P<detail>EXCEPTION_ACCESS_VIOLATION at 0x[0-9a-f]{1,16})(?: -- "
            r"(?P<function>\S{1,200}) at )?",
            "Exception: EXCEPTION_ACCESS_VIOLATION at 0x6b5e158a -- gc_mark at src/gc.c:1424",
            signal="SIGSEGV",
        ),
    ),
)
JAVA: Final = Family(
    source="Java",
    phrases=(
        Phrase(  # with its number: only Java's machine tells it so
            ClueKind.SIGNAL,
            " at pc=0x",
            r"(?P<signal>SIG(?:SEGV|BUS|ILL|FPE|ABRT)|EXCEPTION_(?:ACCESS_VIOLATION|STACK_OVERFLOW|"
            r"IN_PAGE_ERROR|ILLEGAL_INSTRUCTION|INT_DIVIDE_BY_ZERO)) {0,3}\(0x[0-9a-f]{1,200}\) "
            r"{1,4}at pc=0x[0-9a-f]{1,200}, {1,4}"
            r"pid=(?P<pid>\d{1,20})",
            "#  SIGSEGV (0xb) at pc=0x00007f1be0001234, pid=4242, tid=4300",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "fatal error ha",  # retyped and shortened as it may be
            r"(?i:\ba fatal error ha[sd] be?en detected by (?:the )?Java\b)",
            "# A fatal error has been detected by the Java Runtime Environment:",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Native frames: (J=",
            r"^\W{0,4}Native frames: \(J=",
            "Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)",
        ),
    ),
)
GO: Final = Family(
    source="Go",
    phrases=(
        Phrase(  # CockroachDB's logger, as Sentry quotes it
            ClueKind.ABORT,
            ": log.Fatal: ",
            r"(?P<detail>[\w./-]{1,160}\.go:\d{1,6}: log\.Fatal: .{1,200})",
            "pool.go:88: log.Fatal: the pool is gone",
        ),
        Phrase(
            ClueKind.ABORT,
            "fatal error in thread [",
            r"(?:\[(?P<name>[A-Za-z][\w-]{0,60}(?<!Handler))\] )?"
            r"(?P<detail>fatal error in thread \[.{1,200}?\], exiting)",
            "[node01] fatal error in thread [pool[node01][take][T#3]], exiting",
        ),
    ),
)
NODE: Final = Family(
    source="Node",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "#  Assertion failed: ",
            r"^\s{0,4}#  (?P<detail>Assertion failed: .{1,200})",
            "  #  Assertion failed: (status) == (0)",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "FATAL ERROR: ",
            r"^(?:\[\d{1,9}:0x[0-9a-f]{1,16}\] ?)?(?P<detail>FATAL ERROR: .{0,120}(?:heap out of "
            r"memory|v8::|MaybeLocal|Allocation failed|HandleScope|Error::).{0,120})",
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            signal="SIGABRT",
        ),
        Phrase(  # of its diagnostic report
            ClueKind.ABORT,
            ' "event": "',
            r"^\s{1,8}\"event\": \"(?P<detail>[^\"]{0,80}heap out of memory)\",?$",
            '    "event": "Allocation failed - JavaScript heap out of memory",',
            signal="SIGABRT",
        ),
    ),
)
R: Final = Family(
    source="R",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "*** caught ",
            r"\*\*\* caught (?P<signal>segfault|bus error|illegal operation) \*\*\*",
            " *** caught segfault ***",
        ),
        Phrase(  # its line below that
            ClueKind.SIGNAL,
            ", cause '",
            r"^\W{0,4}address (?:0x[0-9a-f]{1,16}|\(nil\)), cause '(?P<detail>memory not mapped|"
            r"invalid permissions)'",
            "address (nil), cause 'memory not mapped'",
            signal="SIGSEGV",
        ),
    ),
)
RUBY: Final = Family(
    source="Ruby",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "[BUG] ",
            # its own line names the source's file, or the address: titles of issues begin alike
            # and its own line the library that it was about to load
            r"(?:^\W?\S{1,300}:\d{1,9}: \[BUG\] (?P<signal>Segmentation fault|Bus Error|"
            r"Illegal instruction)|(?:(?P<module>/[^\s:]{1,300}\.(?:so|bundle)): )?"
            r"\[BUG\] Segmentation fault at 0x[0-9a-f]{1,16})",
            "/opt/app/serve.rb:41: [BUG] Segmentation fault at 0x0000000000000048",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "-- C level backtrace information ",
            r"^'?-- C level backtrace information -",
            "-- C level backtrace information -------------------------------------------",
        ),
    ),
)
ANDROID: Final = Family(
    source="Android",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "Fatal signal ",
            r"Fatal signal (?P<signal>\d{1,2}) \(SIG\w{1,10}\), code .{0,120}? in tid \d{1,9}"
            r"(?: \([^()]{0,60}\))?(?:, pid (?P<pid>\d{1,9})(?: \((?P<name>[^()]{1,60})\))?)?",
            "A/libc: Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x48 in tid 4300 "
            "(pool), pid 4242 (example.serve)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "), fault addr ",
            r"(?:^|: )signal (?P<signal>\d{1,2}) \(SIG\w{1,10}\), code -?\d{1,3} "
            r"\(\w{1,20}\), (?P<detail>fault addr \S{1,20})",
            "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x48",
        ),
        Phrase(  # Google's console leaves out all else
            ClueKind.SIGNAL,
            "tid: 0 >>> ",
            r"^pid: 0, tid: 0 >>> (?P<name>\S{1,120}) <<<$",
            "pid: 0, tid: 0 >>> example.serve <<<",
        ),
    ),
)
BACKWARD: Final = Family(
    source="backward-cpp",
    phrases=(
        Phrase(
            ClueKind.STACK,
            "Stack trace (most recent call last)",
            r"^(?P<detail>Stack trace) \(most recent call last\)",
            'Stack trace (most recent call last):\n#1    Object "/usr/bin/serve", at 0x5581c, in f',
        ),
    ),
)
TVM: Final = Family(
    source="TVM FFI",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "!!! TVM FFI encountered a",
            r"!!! TVM FFI encountered an? (?P<signal>Segfault|\w[\w ]{3,40}?) !!!",
            "!!!!!!! TVM FFI encountered a Segfault !!!!!!!",
        ),
    ),
)
PADDLE: Final = Family(
    source="Paddle",
    phrases=(
        Phrase(
            ClueKind.STACK,
            "C++ Traceback (most recent call last)",
            r"^(?P<detail>C\+\+ Traceback) \(most recent call last\)",
            "C++ Traceback (most recent call last):\n0   ns::f(int)",
        ),
    ),
)
FRAMEWORKS: Final = Family(
    source="a signal handler",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            " is detected by the operating system",
            r"FatalError: (?:[`']|A serious error \()(?P<signal>[A-Z][\w ]{4,40})[`')] is detected "
            r"by the operating system",
            "FatalError: `Segmentation fault` is detected by the operating system.",
        ),
        Phrase(
            ClueKind.SIGNAL,
            ") received by PID ",
            r"\*\*\* Signal (?P<signal>\d{1,2}) \(SIG\w{1,20}\) \(0x[0-9a-f]{1,16}\) received by "
            r"PID (?P<pid>\d{1,20})",
            "*** Signal 11 (SIGSEGV) (0x48) received by PID 4242 (pthread TID 0x7f1be0000700)",
        ),
        Phrase(
            ClueKind.CHILD,  # every thread's stack follows, and nothing says whose fault it was
            "), PID: ",
            r"^(?P<signal>SIG\w{1,20})\(\d{1,2}\), PID: (?P<pid>\d{1,20}), Thread",
            "SIGSEGV(11), PID: 4242, Thread 4300: ",
        ),
        Phrase(  # Godot's, on Windows
            ClueKind.SIGNAL,
            "CrashHandlerException: Program crashed",
            r"^\W{0,4}CrashHandlerException: (?P<detail>Program crashed)$",
            "CrashHandlerException: Program crashed",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "rogram crashed with signal ",
            r"Program crashed with signal (?P<signal>\d{1,2})\b",
            "handle_crash: Program crashed with signal 11",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Caught fatal signal - signo:",
            r"Caught fatal signal - signo:(?P<signal>\d{1,2}) code:",
            "Caught fatal signal - signo:11 code:1 errno:0 addr:(nil)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " for address: 0x",
            r"PID (?P<pid>\d{1,20}) received (?P<signal>SIG\w{1,20}) for address: 0x",
            "PID 4242 received SIGSEGV for address: 0x48",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "*** Program crashed: Bad pointer",
            r"\*\*\* Program crashed: (?P<detail>Bad pointer dereference at 0x[0-9a-f]{1,16})",
            "*** Program crashed: Bad pointer dereference at 0x0000000000000048 ***",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " caused an Access Violation (0xc0",
            r"(?P<module>[\w.+-]{1,120}) caused an (?P<signal>Access Violation) \(0xc0000005\)",
            "example.dll caused an Access Violation (0xc0000005)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "*** Received signal ",
            r"\*\*\* Received signal (?P<signal>\d{1,2}) \*\*\*",
            "*** Received signal 11 ***",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Error: signal ",
            r"^Error: signal (?P<signal>\d{1,2}):$",
            "Error: signal 11:",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Segmentation fault (",
            r"^(?P<signal>Segmentation fault) \((?P<detail>(?:Address not mapped|"
            r"Invalid permissions|Signal sent).{0,80})\)",
            "Segmentation fault (Address not mapped to object [0x48])",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Unexpected ",
            r"Unexpected (?P<signal>segmentation fault|floating-point exception) encountered in "
            r"(?P<name>worker)",
            "ERROR: Unexpected segmentation fault encountered in worker.",
        ),
        Phrase(
            ClueKind.ABORT,
            "CHECK failed: ",
            r"(?<!Sanitizer )(?<!Sanitizer: )(?P<detail>CHECK failed: .{1,200})",
            "[libprotobuf FATAL pool.cc:12] CHECK failed: block != nullptr: ",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Check failure stack trace",
            r"(?P<detail>\*\*\* Check failure stack trace: \*\*\*)",
            "*** Check failure stack trace: ***",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "<jemalloc>: ",
            r"(?P<detail><jemalloc>: .{0,120}(?:Failed assertion|Unreachable|invalid).{0,120})",
            '<jemalloc>: src/arena.c:12: Failed assertion: "slab != NULL"',
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "GGML_ASSERT: ",
            r"(?P<detail>GGML_ASSERT: \S{1,200}:\d{1,6}: .{1,160})",
            "GGML_ASSERT: src/ggml.c:12: n < size",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "OMP: Error #13",
            r"(?P<detail>OMP: Error #13\d?: .{1,160})",
            "OMP: Error #13: Assertion failure at kmp_runtime.cpp(3689).",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "has overflowed its stack",
            r"(?:^(?P<name>[\w.-]{1,40})\[(?P<pid>\d{1,9})\]: )?"
            r"(?P<detail>thread '[^']{0,100}' (?:\(\d{1,20}\) )?has overflowed its stack)",
            "thread 'main' has overflowed its stack",
            signal="SIGABRT",
        ),
    ),
)
