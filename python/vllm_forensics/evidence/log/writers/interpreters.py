"""What runtimes of languages far from Python print when they end: one line each, with its example.

Sources: each runtime's own messages, as its documentation or its source prints them.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_FAULTS: Final = (
    (  # Dart
        "si_signo=",
        r"\bsi_signo=(?P<signal>[A-Z][\w ]{3,40})\(\d{1,2}\), si_code=",
        "si_signo=Segmentation fault(11), si_code=1, si_addr=0x48",
        None,
    ),
    (  # Nim
        "SIGSEGV: Illegal storage access",
        r"^(?P<signal>SIGSEGV): (?P<detail>Illegal storage access)",
        "SIGSEGV: Illegal storage access. (Attempt to read from nil?)",
        None,
    ),
    (  # Crystal
        "Invalid memory access (signal ",
        r"^(?P<detail>Invalid memory access) \(signal (?P<signal>\d{1,2})\) at address",
        "Invalid memory access (signal 11) at address 0x48",
        None,
    ),
    (  # Ada
        "raised STORAGE_ERROR : ",
        r"^raised (?P<detail>STORAGE_ERROR : (?:stack overflow|erroneous|SIGSEGV|Segm).{0,80})",
        "raised STORAGE_ERROR : stack overflow or erroneous memory access",
        "SIGSEGV",
    ),
    (  # Free Pascal
        "untime error 216",
        r"\bRuntime error 216 at \$?(?P<detail>[0-9A-Fa-f]{6,16})",
        "Runtime error 216 at $0000000000401234",
        "SIGSEGV",
    ),
    (  # Delphi, and Free Pascal with its exceptions
        "EAccessViolation",
        r"\bEAccessViolation(?: in module (?P<module>[\w.-]{1,80})|:)",
        "Exception EAccessViolation in module serve.exe at 00012345.",
        "SIGSEGV",
    ),
    (  # GnuCOBOL
        "(signal SIG",
        r"^\w{1,20}: (?:error: )?(?P<detail>.{3,80}) \(signal (?P<signal>SIG[A-Z]{2,6})\)$",
        "libcob: error: attempt to reference unallocated memory (signal SIGSEGV)",
        None,
    ),
    (  # Racket
        " si_code ",
        r"^(?P<signal>SIG(?:SEGV|BUS)) [A-Z_]{3,12} (?:si_code \d{1,3} )?fault on addr",
        "SIGSEGV MAPERR si_code 1 fault on addr 0x48",
        None,
    ),
    (  # PARI/GP
        "bug in PARI/GP (",
        r"\*{3} {1,4}bug in PARI/GP \((?P<signal>Segmentation Fault|Bus Error)\)",
        "  ***   bug in PARI/GP (Segmentation Fault), please report.",
        None,
    ),
    (  # CLISP
        "SIGSEGV cannot be cured",
        r"^(?P<signal>SIGSEGV) cannot be cured",
        "SIGSEGV cannot be cured. Fault address = 0x48.",
        None,
    ),
    (  # Octave; before version 5
        " -- stopping myself",
        r"\b(?P<signal>Segmentation fault|Bus error|Aborted|Illegal instruction) -- stopping "
        r"myself",
        "panic: Segmentation fault -- stopping myself...",
        None,
    ),
    (  # ROOT
        "*** Break *** ",
        r"\*{3} Break \*{3} (?P<signal>segmentation violation|bus error|illegal instruction|"
        r"floating point exception)",
        " *** Break *** segmentation violation",
        None,
    ),
    (  # Wine
        "nhandled page fault on ",
        r"\b(?:wine: |:)?(?P<detail>Unhandled page fault on \w{4,7} access to "
        r"(?:0x)?[0-9A-Fa-f]{1,16})",
        "wine: Unhandled page fault on read access to 0000000000000048 at address 0000000140001234",
        "SIGSEGV",
    ),
    *(
        (
            f"wine: Unhandled {words}",
            rf"\bwine: Unhandled (?P<signal>{words}) (?:at|in|to)\b",
            f"wine: Unhandled {words} at address 0000000140001234 (thread 0024)",
            None,
        )
        for words in ("illegal instruction", "stack overflow", "division by zero", "trap")
    ),
    (
        "nhandled exception: page fault on ",
        r"\bU?nhandled exception: (?P<detail>page fault on \w{4,7} access to 0x[0-9A-Fa-f]{1,16})",
        "Unhandled exception: page fault on read access to 0x00000048 in 32-bit code (0x00401234).",
        "SIGSEGV",
    ),
    (  # Visual Studio in any language
        ": 0xC0000005: ",
        r"[\s\"'\u00ab\u201c](?P<name>[\w+-][\w .+-]{0,60}?\.(?i:exe))[\"'\u00bb\u201d]: "
        r"0xC0000005: (?P<detail>[^()]{3,120})(?:\((?P<module>[\w.+-]{1,80}\.dll)\))?",
        'Ausnahme bei "0x13ed17b0" in "serve.exe": 0xC0000005: Zugriff auf "0x48" (pool.dll).',
        "SIGSEGV",
    ),
    (  # Visual Studio
        ": 0xC0000005: ",
        r"(?:Unhandled exception|Exception thrown) at 0x[0-9A-Fa-f]{6,16} "
        r"(?:\((?P<module>[\w.-]{1,80})\) )?in (?P<name>[\w .-]{1,80}): 0xC0000005: "
        r"(?P<detail>Access violation .{0,80})",
        "Unhandled exception at 0x00007FF612341234 in serve.exe: 0xC0000005: Access violation "
        "reading location 0x0000000000000048.",
        "SIGSEGV",
    ),
    (  # .NET, in the event log
        "internal error in the .NET Runtime at IP ",
        r"\bThe process was terminated due to an (?P<detail>internal error in the \.NET Runtime) "
        r"at IP .{1,80} with exit code c0000005\b",
        "Description: The process was terminated due to an internal error in the .NET Runtime at "
        "IP 00007FFBA4C11EA9 (00007FFBA4A60000) with exit code c0000005.",
        "SIGSEGV",
    ),
    (  # OpenJ9
        "Type=Segmentation error ",
        r"^Type=(?P<signal>Segmentation error) vmState=0x",
        "Type=Segmentation error vmState=0x00040000",
        "SIGSEGV",
    ),
    (  # DrMingw
        " caused an Access Violation at location ",
        r"^(?P<name>[\w .+-]{1,80}) caused an (?P<signal>Access Violation) at location "
        r"(?P<detail>[0-9A-Fa-f]{8,16})(?: in module (?P<module>[\w.+-]{1,80}))?",
        "serve.exe caused an Access Violation at location 00007FFA7F9E1BF6 in module pool.dll",
        None,
    ),
    (  # BugTrap
        " caused ACCESS_VIOLATION in module ",
        r"^(?P<name>[\w .+-]{1,80}) caused ACCESS_VIOLATION in module \"(?:[^\"]{0,200}\\)?"
        r"(?P<module>[^\"\\]{1,80})\" at [\dA-F]{4}:[\dA-F]{8,16}"
        r"(?:, (?P<function>[\w:~<>]{1,200})\(\))?",
        'serve.exe caused ACCESS_VIOLATION in module "C:\\pool\\take.dll" at 0023:060B1579, '
        "Pool::take()+24 byte(s)",
        "SIGSEGV",
    ),
    (  # Buffout, and its kin
        'nhandled exception "EXCEPTION_',
        r"\bUnhandled exception \"(?P<signal>EXCEPTION_\w{1,40})\" at 0x[\dA-Fa-f]{6,16} "
        r"(?P<module>[\w.-]{1,80})\+(?P<offset>(?:0x)?[\dA-Fa-f]{4,12})\b",
        'Unhandled exception "EXCEPTION_ACCESS_VIOLATION" at 0x7FF694033CCD serve.exe+0053CCD',
        None,
    ),
    (
        " inaccessible memory",
        r"(?P<detail>Attempt to (?:read from|write to|execute) inaccessible memory)\b",
        "Error: Attempt to read from inaccessible memory address.",
        "SIGSEGV",
    ),
    (  # Rust's compiler
        " interrupted by SIG",
        r"^(?:error: )?(?P<name>[\w-]{2,40}) interrupted by (?P<signal>SIG[A-Z]{2,6}), "
        r"printing backtrace",
        "error: rustc interrupted by SIGSEGV, printing backtrace",
        None,
    ),
    (  # Vivado
        "bnormal program termination (",
        r"^Abnormal program termination \((?P<signal>\d{1,2})\)",
        "Abnormal program termination (11)",
        None,
    ),
    (
        "n unexpected error has occurred (",
        r"^(?:# )?An unexpected error has occurred \((?P<signal>\d{1,2})\)$",
        "# An unexpected error has occurred (6)",
        None,
    ),
    (  # OBS
        "nhandled exception: c0000005",
        r"^(?P<detail>Unhandled exception: c0000005)\b(?: .{0,60}Fault address: [\dA-F]{6,16} "
        r"\((?:[^)]{0,200}\\)?(?P<module>[^)\\]{1,80})\))?",
        "Unhandled exception: c0000005",
        "SIGSEGV",
    ),
    (  # Mono and Unity
        "Native Crash Reporting",
        r"^\s{0,12}(?P<detail>Native Crash Reporting)$",
        "\tNative Crash Reporting",
        None,
    ),
    (
        "OUTPUTTING STACK TRACE ==",
        r"^=+ (?P<detail>OUTPUTTING STACK TRACE) =+$",
        "========== OUTPUTTING STACK TRACE ==================",
        None,
    ),
)
_ENDS: Final = (
    (  # Haskell
        ": internal error: ",
        r"^(?:\S{0,80}/)?(?P<name>[\w.+-]{1,60}): (?P<detail>internal error: \S.{1,200})$",
        "serve: internal error: evacuate(static): strange closure type 12",
    ),
    (  # OCaml
        "atal error: exception ",
        r"^(?P<detail>Fatal error: exception \S.{0,200})",
        "Fatal error: exception Stack_overflow",
    ),
    (  # Swift
        "atal error: ",
        r"^(?:\S{1,200}:\d{1,6}: )?(?P<detail>Fatal error: (?!exception ).{1,200}: file .{1,200}, "
        r"line \d{1,6})$",
        "Fatal error: Index out of range: file Swift/ContiguousArrayBuffer.swift, line 600",
    ),
    (  # newer ones name the file before it
        ".swift:",
        r"^\S{1,200}\.swift:\d{1,6}: (?P<detail>Fatal error: \S.{0,200})",
        "pool/Take.swift:55: Fatal error: result 1",
    ),
    (  # and the oldest none
        "atal error: ",
        r"^(?P<detail>fatal error: (?:(?:Array )?[Ii]ndex out of range|Negative Array index.{0,40}|"
        r"unexpectedly found nil while unwrapping an Optional value|Can't form Range .{1,60}))$",
        "fatal error: Index out of range",
    ),
    (  # Microsoft's C runtime
        "Debug Assertion Failed!",
        r"^(?P<detail>Debug Assertion Failed!)",
        "Debug Assertion Failed!",
    ),
    (  # Perl
        "panic: ",
        r"^(?P<detail>panic: (?:free from wrong pool|attempt to free|malloc|pad_|sv_|"
        r"memory wrap).{0,80})",
        "panic: free from wrong pool during global destruction.",
    ),
    (  # D
        "core.exception.",
        r"^(?P<detail>core\.exception\.\w{1,40}(?:Error|Exception)@\S{1,200}\(\d{1,7}\).{0,120})",
        "core.exception.RangeError@pool.d(42): Range violation",
    ),
    (  # Zig
        " panic: ",
        r"^(?P<detail>thread \d{1,20} panic: \S.{0,200})",
        "thread 4242 panic: index out of bounds: index 4, len 3",
    ),
    (  # Android
        "FATAL EXCEPTION: ",
        r"\b(?P<detail>FATAL EXCEPTION: \S.{0,80})",
        "E AndroidRuntime: FATAL EXCEPTION: main",
    ),
    (  # Java's machine
        "#  Internal Error (",
        r"^#  (?P<detail>Internal Error \(\S{1,200}:\d{1,6}\)), pid=(?P<pid>\d{1,20})",
        "#  Internal Error (sharedRuntime.cpp:553), pid=4242, tid=4300",
    ),
    (  # Chromium
        ":FATAL:",
        r"^\[\d{1,9}:(?:\d{1,9}:)?\d{4}/\d{6}\.\d{1,9}:FATAL:"
        r"(?P<detail>\S{1,80}\(\d{1,6}\)\] .{1,200})",
        "[4242:4300:0115/081245.123456:FATAL:pool.cc(88)] GPU process isn't usable. Goodbye.",
    ),
)
_OF_ERLANG: Final = (
    (  # Erlang
        " bytes of memory (of type ",
        r"(?P<detail>(?:\b\w{1,12}_alloc: )?Cannot (?:re)?allocate \d{1,20} bytes of memory "
        r"\(of type .{0,40})",
        'eheap_alloc: Cannot allocate 147852528 bytes of memory (of type "heap").',
    ),
    (  # and the head of its dump
        "Slogan: ",
        r"^(?:# )?Slogan: (?P<detail>\S.{2,200})",
        "Slogan: Kernel pid terminated (application_controller) (shutdown)",
    ),
    (  # where it is told within other lines
        "Kernel pid terminated (",
        r"(?P<detail>Kernel pid terminated \(\w{1,40}\) \(.{1,160})",
        "Unable to start poold: Kernel pid terminated (application_controller) ({shutdown,pool})",
    ),
    (
        "rash dump is being written to: ",
        r"^\W{0,4}(?P<detail>Crash dump is being written to: [\w./-]{0,200}?"
        r"erl_crash\.dump)(?!.{1,200}core dumped\))",
        "Crash dump is being written to: erl_crash.dump...done",
    ),
)
FAULTS: Final = Family(
    source="a runtime's own handler",
    phrases=(
        *(
            Phrase(ClueKind.SIGNAL, needle, pattern, example, signal=signal)
            for needle, pattern, example, signal in _FAULTS
        ),
        Phrase(  # below the signal's line, or alone
            ClueKind.ABORT,
            "has crashed. This indicates a bug in",
            r"oh no: (?P<name>Bun) has crashed\. (?P<detail>This indicates a bug in Bun)",
            "oh no: Bun has crashed. This indicates a bug in Bun, not your code.",
        ),
        Phrase(
            ClueKind.HEAP,
            "zend_mm_heap corrupted",
            r"(?P<detail>zend_mm_heap corrupted)",
            "zend_mm_heap corrupted",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "insufficient memory for the Java Runtime",
            r"(?P<detail>There is insufficient memory for the Java Runtime Environment to "
            r"continue)",
            "# There is insufficient memory for the Java Runtime Environment to continue.",
        ),
    ),
)
ENDS: Final = Family(
    source="a language runtime",
    phrases=tuple(Phrase(ClueKind.ABORT, *row) for row in _ENDS),
)
ERLANG: Final = Family(
    source="Erlang",
    phrases=tuple(
        Phrase(ClueKind.ABORT, needle, pattern, example) for needle, pattern, example in _OF_ERLANG
    ),
)
