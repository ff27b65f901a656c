"""What the C++ runtime, signal handlers and panics of Rust and Go write when they give up."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

CXX: Final = Family(
    source="the C++ runtime",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "erminate called",
            r"[Tt]erminate called (?:after throwing an instance of "
            r"['\u2018](?P<detail>[^'\u2019]{1,200})|"
            r"without an active exception|recursively)",
            "terminate called after throwing an instance of 'std::runtime_error'",
            signal="SIGABRT",
        ),
        Phrase(  # GNU's programs: bash, gdb, readline
            ClueKind.ABORT,
            "alloc: cannot ",
            r"^(?:(?P<name>[\w.-]{1,60}): )?(?P<detail>x(?:m|re)alloc: cannot (?:re)?allocate "
            r"\d{1,20} bytes)",
            "bash: xmalloc: cannot allocate 33554433 bytes",
        ),
        Phrase(
            ClueKind.ABORT,
            "libc++abi",
            r"libc\+\+abi(?:\.dylib)?: terminating (?:(?:with|due to) )?(?P<detail>.{1,200})",
            "libc++abi: terminating due to uncaught exception of type std::runtime_error: boom",
            signal="SIGABRT",
        ),
        *(
            Phrase(  # in titles, without its writer
                ClueKind.ABORT,
                needle,
                rf"(?P<detail>t{needle} exception of type \S.{{0,160}})",
                f"# take() t{needle} exception of type NSException",
                signal="SIGABRT",
                in_prose=True,
            )
            for needle in ("erminating with uncaught", "erminating due to uncaught")
        ),
        Phrase(
            ClueKind.ABORT,
            "terminate handler is called",
            r"(?P<detail>OpenCV: terminate handler is called(?:! The last OpenCV error is:)?)",
            "OpenCV: terminate handler is called! The last OpenCV error is:",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "pure virtual method called",
            r"(?P<detail>pure virtual method called)",
            "pure virtual method called",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Unhandled exception: ",
            r"Unhandled exception: (?P<detail>\S.{1,200})",
            "[2026-01-15 08:12:45,123 E 4242 4300] logging.cc:101: Unhandled exception: "
            "St13runtime_error. what(): boom",
            signal="SIGABRT",
        ),
        Phrase(  # AWS's libraries, as in Arrow
            ClueKind.ABORT,
            "atal error condition occurred in ",
            r"(?P<detail>Fatal error condition occurred in \S{1,200}:\d{1,6}: .{1,200})",
            "Fatal error condition occurred in /src/event_loop.c:88: group != NULL",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "[TensorRT-LLM][ERROR] ",
            r"^\W{0,4}(?P<detail>\[TensorRT-LLM\]\[ERROR\] (?:[\w:]{1,60}Exception: )?"
            r"(?:\[TensorRT-LLM\]\[ERROR\] )?(?:Assertion failed|CUDA runtime error)\b.{1,200})",
            "[TensorRT-LLM][ERROR] Assertion failed: block != nullptr (/src/cache.cpp:88)",
            signal="SIGABRT",
        ),
    ),
)
HANDLERS: Final = Family(
    source="a signal handler",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            " received at time=",
            r"\*\*\* (?P<signal>SIG\w{1,60}) received at time=\d{1,20}(?: on cpu \d{1,20})? \*\*\*",
            "*** SIGSEGV received at time=1768464765 on cpu 12 ***",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "received by PID ",
            r"\*\*\* (?P<signal>SIG\w{1,60})(?: STACK OVERFLOW)? "
            r"(?:\((?:(?P<detail>@0x[0-9a-f]{1,16})|.{0,60})\)(?:, see \S{1,60})? )?"
            r"received by PID (?P<pid>\d{1,20})\b",
            "*** SIGSEGV (@0x48) received by PID 4242 (TID 0x7f1be0000700) from PID 72; "
            "stack trace: ***",
        ),
        Phrase(  # backward-cpp's last line
            ClueKind.SIGNAL,
            " (Signal sent by ",
            r"(?:^|\] )(?P<signal>Aborted|Segmentation fault|Bus error|Illegal instruction|"
            r"Floating point exception) \(Signal sent by t?kill\(\) (?P<pid>\d{1,9}) \d{1,9}\)",
            "Aborted (Signal sent by tkill() 4242 1000)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            ", suspect faulting address",
            r"(?:\[critical\]\[backtrace\] (?:\S{1,200}\] )?|^)"
            r"(?P<detail>Caught (?P<signal>Segmentation fault|Bus error|Aborted|Illegal "
            r"instruction|Floating point exception)"
            r", suspect faulting address 0x[0-9a-f]{1,16})",
            "[2026-01-15 08:12:45.123][17][critical][backtrace] [./source/server/backtrace.h:104] "
            "Caught Aborted, suspect faulting address 0x48",
        ),
        Phrase(
            ClueKind.SIGNAL,  # glog's first words; on Windows it names no signal below
            " (unix time) try ",
            r"^(?:\W{0,4})\*\*\* Aborted at \d{1,20} \(unix time\)",
            '*** Aborted at 1768464765 (unix time) try "date -d @1768464765" if you are using GNU '
            "date ***",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "failure_signal_handler",
            r"failure_signal_handler\.cc ?: ?\d{1,20}\] RAW: (?P<detail>Signal "
            r"(?P<signal>\d{1,20}) raised "
            r"at PC=\S{1,200})",
            "[failure_signal_handler.cc : 332] RAW: Signal 11 raised at PC=0x7f1be0001234 while "
            "already in AbslFailureSignalHandler()",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Caught signal ",
            r"(?:\[[\w.-]{1,200}:(?P<pid>\d{1,20}) {0,8}:\d{1,20}:\d{1,20}\] )?Caught signal "
            r"(?P<signal>\d{1,20})"
            r"(?: \((?P<detail>[^()]{1,160})\))?",
            "[node1:4242:0:4300] Caught signal 11 (Segmentation fault: address not mapped to "
            "object at address 0x48)",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Signal: ",
            r"^(?:\[[\w.-]{1,200}:(?P<pid>\d{1,20})\] )?Signal: {1,4}(?:[A-Z][\w -]{3,40} )\("
            r"(?P<signal>\d{1,20})\)",
            "[node1:04242] Signal: Segmentation fault (11)",
        ),
        Phrase(
            ClueKind.SIGNAL,  # KDE's crash handler, in a notification and above its stack
            "ignal: ",
            r"(?:Executable: |(?:Application: |^# )[^()]{1,80} \()(?P<name>[\w.+-]{1,80})"
            r"(?: PID: (?P<pid>\d{1,20}) Signal: |\), signal: )(?P<signal>[A-Z][\w ]{3,40})",
            "Executable: serve PID: 4242 Signal: Segmentation fault (11) Time: 1/15/26 08:12:45",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "!!!!!!! ",
            r"!!!!!!! (?P<signal>Segfault|\w[\w ]{3,40}) encountered !!!!!!!",
            "!!!!!!! Segfault encountered !!!!!!!",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "received signal SIG",
            r"(?:Program|T?hread (?:1(?: \"(?P<name>[^\"]*)\")?|"
            r"\S{1,200}(?: \"(?:Thread-\d[^\"]*|(?P<thread>[^\"]*))\")?)"
            r"(?: \(LWP \d{1,20}\))?)"
            r" received signal "
            r"(?P<signal>SIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP|KILL|SYS))",
            'Thread 7 "worker" received signal SIGSEGV, Segmentation fault.',
        ),
        Phrase(  # its plugins peda and gef
            ClueKind.SIGNAL,
            " reason: ",
            r"(?:^Stopped|^\[#0\] .{1,160},) reason: "
            r"(?P<signal>SIG(?:SEGV|ABRT|BUS|ILL|FPE|SYS))\b",
            "Stopped reason: SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " with signal SIG",
            r"[Pp]rogram \w{4,12} with signal (?P<signal>SIG\w{1,60})",
            "Program terminated with signal SIGSEGV, Segmentation fault.",
        ),
        Phrase(  # before 7.7
            ClueKind.SIGNAL,
            "rogram terminated with signal ",
            r"\b[Pp]rogram terminated with signal (?P<signal>\d{1,2}), [A-Z]",
            "Program terminated with signal 11, Segmentation fault.",
        ),
        Phrase(  # the drivers of InfiniPath
            ClueKind.SIGNAL,
            " terminated with signal ",
            r"^(?P<name>[\w./+-]{1,80}):(?P<pid>\d{1,20}) terminated with signal "
            r"(?P<signal>\d{1,2}) at PC=",
            "serve:4242 terminated with signal 11 at PC=4dcf30 SP=7fff0840ecf8.  Backtrace:",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "Process received signal",
            r"^(?:\[[\w.-]{1,200}:(?P<pid>\d{1,20})\] )?\*\*\* Process received signal \*\*\*",
            "[node1:04242] *** Process received signal ***",
        ),
    ),
)
PANICS: Final = Family(
    source="a language runtime",
    phrases=(
        Phrase(  # Rust's, as Python has it: in a line alone, or in pytest's
            ClueKind.ABORT,
            "PanicException: ",
            r"(?:^|[\s`])(?P<detail>(?:\w{1,40}\.){0,4}PanicException: \S.{0,240})",
            "E       pyo3_runtime.PanicException: index out of bounds: the len is 3",
        ),
        Phrase(
            ClueKind.ABORT,
            " panicked at ",
            r"(?P<detail>[Tt]hread (?:'[^']{0,100}' )?(?:\(\d{1,20}\) )?panicked at .{1,240})",
            "thread 'tokio-runtime-worker' panicked at src/router.rs:42:9:",
        ),
        Phrase(  # a hook's, below the message
            ClueKind.ABORT,
            "anicked at ",
            r"^\W{0,4}(?P<detail>[Pp]anicked at [\w./\\:~+-]{1,240}\.rs:\d{1,7}(?::\d{1,5})?)"
            r"\W{0,4}$",
            "Panicked at /src/pool/src/take.rs:42:9",
        ),
        Phrase(  # color-eyre's
            ClueKind.ABORT,
            "The application panicked",
            r"^\W{0,4}(?P<detail>The application panicked \(crashed\))",
            "The application panicked (crashed).",
        ),
        Phrase(
            ClueKind.ABORT,
            "Location: ",
            r"^\s{0,4}Location: (?P<detail>[\w./\\:~+-]{1,240}\.rs:\d{1,7})$",
            "Location: /src/pool/src/take.rs:42",
        ),
        *(
            Phrase(  # numba's thread pools
                ClueKind.ABORT,
                needle,
                rf"^(?P<detail>{needle}{rest}.{{1,160}})",
                example,
                signal=signal,
            )
            for needle, rest, signal, example in (
                (
                    "Terminating: ",
                    "(?:Nested parallel kernel launch|Concurrent access has been) detected",
                    "SIGABRT",
                    "Terminating: Nested parallel kernel launch detected, the workqueue threading "
                    "layer does not supported nested parallelism.",
                ),
                (
                    "Terminating: fork",
                    r"\(\) called from a process",
                    None,
                    "Terminating: fork() called from a process already using GNU OpenMP, this is "
                    "unsafe.",
                ),
            )
        ),
        Phrase(
            ClueKind.ABORT,
            "panic: ",
            r"^(?P<detail>panic: (?!Segmentation fault at address|page fault$|"
            r"trap type \d).{1,240})",
            "panic: runtime error: index out of range [3] with length 3",
        ),
        Phrase(  # as people copy it
            ClueKind.ABORT,
            "panic:runtime error",
            r"^(?P<detail>panic:runtime error: ?\w.{1,240})",
            "panic:runtime error:index out of range",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "[signal SIG",
            r"\[signal (?P<signal>SIG\w{1,60}): (?P<detail>[^\]]{1,160})(?:\]|$)",
            "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f1c2]",
        ),
        *(
            Phrase(  # older ones write the number, and on Windows the status
                ClueKind.SIGNAL,
                f"signal {number} ",
                rf"\bsignal {number} (?P<detail>code=0x[0-9a-f]{{1,8}} \W{{0,4}}addr=.{{1,80}})",
                f"[signal {number} code=0x1 addr=0x48 pc=0x48f1c2]",
                signal=signal,
            )
            for number, signal in (
                ("0xb", "SIGSEGV"),
                ("0xa", "SIGBUS"),  # of macOS
                ("0x7", "SIGBUS"),
                ("0x8", "SIGFPE"),
                ("0x4", "SIGILL"),
                ("0x6", "SIGABRT"),
                ("0xc0000005", "SIGSEGV"),
            )
        ),
        *(
            Phrase(
                ClueKind.SIGNAL,
                f"{name}: {words}",
                rf"(?:^|  )(?P<signal>{name}): (?P<detail>{words})(?:$|[\s\\])",
                f"{name}: {words}",
            )
            for name, words in (
                ("SIGSEGV", "segmentation violation"),
                ("SIGABRT", "abort"),
                ("SIGBUS", "bus error"),
                ("SIGFPE", "floating-point exception"),
                ("SIGILL", "illegal instruction"),
                ("SIGTRAP", "trace trap"),
            )
        ),
        Phrase(
            ClueKind.SIGNAL,
            "signal arrived during cgo execution",
            r"(?:^|[#:] )signal arrived during cgo execution",
            "signal arrived during cgo execution",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "unexpected signal during runtime",
            r"(?:^|[:,] )(?:fatal error: )?unexpected signal during runtime execution",
            "fatal error: unexpected signal during runtime execution",
        ),
        Phrase(
            ClueKind.ABORT,
            "fatal error: ",
            # or right behind a progress bar
            r"(?:^|[:|] |(?<=\d[smh%])|(?<=[\])%]))"
            r"(?P<detail>fatal error: (?:all goroutines are asleep|concurrent map|"
            r"stack overflow|runtime: |out of memory|found bad pointer).{0,160})",
            "fatal error: all goroutines are asleep - deadlock!",
        ),
        Phrase(
            ClueKind.ABORT,
            "fatal: ",
            r"^(?:# )?(?P<detail>fatal: (?:morestack on g|bad g in signal handler|"
            r"systemstack called ).{0,60})",
            "fatal: morestack on g0",
        ),
        Phrase(
            ClueKind.ABORT,
            "Observed a panic: ",
            r"(?P<detail>Observed a panic: .{1,240})",
            'E0115 08:12:45.123456 4242 runtime.go:66] Observed a panic: "index out of range"',
        ),
        Phrase(
            ClueKind.ABORT,
            "memory allocation of ",
            r"(?P<detail>memory allocation of \d{1,20} bytes failed)",
            "memory allocation of 4096 bytes failed",
            signal="SIGABRT",
        ),
    ),
)
