"""What sanitizers and hardened allocators write in a line of its own, without a report."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_PID: Final = r"(?:==(?P<pid>\d{1,18})==)? ?"
_TOOL: Final = r"\w{2,24}Sanitizer"
_WRONG_USE: Final = (
    r"(?:(?:heap|stack|global|container|dynamic-stack)-(?:buffer-)?(?:overflow|underflow|"
    r"use-after-\w{3,6})|use-after-poison|attempting (?:double-free|free)|alloc-dealloc-mismatch)"
)
_IN: Final = r"(?: (?:in|from|at) (?:function )?[`'\"]?(?P<function>[A-Za-z_][\w.:]{1,80}[\w)]))?"
SANITIZERS: Final = Family(
    source="a sanitizer",
    phrases=(
        Phrase(
            ClueKind.ENVIRONMENT,
            "Sanitizer: unexpected memory mapping",
            rf"{_PID}(?P<detail>FATAL: {_TOOL}: unexpected memory mapping 0x[0-9a-f]{{4,16}}"
            r"-0x[0-9a-f]{4,16})",
            "FATAL: ThreadSanitizer: unexpected memory mapping 0x6350b02fa000-0x6350b0300000",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "Shadow memory range interleaves",
            rf"{_PID}(?P<detail>Shadow memory range interleaves with an existing memory mapping)",
            "==4242==Shadow memory range interleaves with an existing memory mapping. ASan cannot "
            "proceed correctly. ABORTING.",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "can not mmap the shadow",
            rf"{_PID}(?P<detail>FATAL: {_TOOL} can not mmap the shadow)",
            "==4242==FATAL: MemorySanitizer can not mmap the shadow memory.",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "untime does not come first in initial library list",
            rf"{_PID}(?P<detail>(?:ASan|\w{{2,12}}) runtime does not come first in initial library "
            r"list)",
            "==4242==ASan runtime does not come first in initial library list; you should either "
            "link runtime to your application or manually preload it with LD_PRELOAD.",
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            "incompatible ASan runtimes",
            rf"{_PID}(?P<detail>Your application is linked against incompatible ASan runtimes)",
            "==4242==Your application is linked against incompatible ASan runtimes.",
        ),
        Phrase(
            ClueKind.ABORT,
            "LeakSanitizer has encountered a fatal error",
            rf"{_PID}(?P<detail>LeakSanitizer has encountered a fatal error)",
            "==4242==LeakSanitizer has encountered a fatal error.",
        ),
        *(
            Phrase(
                ClueKind.SIGNAL,
                needle,
                rf"^(?:==\d{{1,18}}==)?{tool}{needle}\s*$",
                example,
                signal=signal,
                detail="a deadly signal",
            )
            for needle, tool, signal, example in (
                ("anitizer:DEADLYSIGNAL", r"\w{2,24}S", None, "AddressSanitizer:DEADLYSIGNAL"),
                ("anitizer: DEADLYSIGNAL", r"\w{2,24}S", None, "AddressSanitizer: DEADLYSIGNAL"),
                ("ASAN:DEADLYSIGNAL", "", None, "ASAN:DEADLYSIGNAL"),
                ("ASAN:SIGSEGV", "", "SIGSEGV", "ASAN:SIGSEGV"),
            )
        ),
        Phrase(  # of its own
            ClueKind.ABORT,
            " CHECK failed: ",
            rf"(?P<detail>{_TOOL}:? CHECK failed: .{{1,200}})",
            'FATAL: ThreadSanitizer CHECK failed: tsan/rtl.cc:88 "((0)) != (0)" (0x0, 0x0)',
        ),
        Phrase(  # a header without its process's number or its stack
            ClueKind.SIGNAL,
            "Sanitizer: ",
            rf"(?P<detail>{_TOOL}: (?P<signal>SEGV|BUS|FPE|ILL|ABRT|TRAP) on unknown address"
            r"(?: 0x[0-9a-f]{1,16})?)",
            "# AddressSanitizer: SEGV on unknown address 0x000000000018",
        ),
        Phrase(
            ClueKind.HEAP,
            "Sanitizer: ",
            rf"(?P<detail>{_TOOL}: {_WRONG_USE}.{{0,20}} on (?:unknown )?address "
            r"0x[0-9a-f]{1,16})",
            "# AddressSanitizer: heap-buffer-overflow on address 0x602000000018",
        ),
        Phrase(  # as titles are cut
            ClueKind.HEAP,
            "Sanitizer: ",
            rf"^#{{1,3}} (?:.{{0,80}} )?(?P<detail>{_TOOL}: {_WRONG_USE}){_IN}",
            "# AddressSanitizer: heap-buffer-overflow in take()",
        ),
        Phrase(
            ClueKind.HEAP,
            "detect",
            r"^#{1,3} (?:.{0,60} )?(?i:(?:Address|HWAddress)Sanitizer|(?:HW)?ASAN) (?:has )?"
            rf"detect(?:s|ed) (?:an? )?(?P<detail>{_WRONG_USE}){_IN}",
            "# BUG: ASAN detects heap-buffer-overflow from `pool.take`",
        ),
        Phrase(  # it says nothing more
            ClueKind.SIGNAL,
            "anitizer: nested bug in the same thread",
            rf"^(?P<detail>{_TOOL}: nested bug in the same thread), aborting",
            "AddressSanitizer: nested bug in the same thread, aborting.",
        ),
        Phrase(
            ClueKind.HEAP,
            "Scudo ERROR: ",
            r"(?P<detail>Scudo ERROR: (?:corrupted chunk|invalid chunk state|misaligned pointer|"
            r"allocation type mismatch|invalid sized delete|race on chunk).{0,120})",
            "Scudo ERROR: corrupted chunk header at address 0x7b0400000800",
        ),
        Phrase(
            ClueKind.ABORT,
            "Scudo ERROR: ",
            r"(?P<detail>Scudo ERROR: \w.{3,160})",
            "Scudo ERROR: internal map failure (error desc=Cannot allocate memory)",
        ),
        Phrase(
            ClueKind.HEAP,
            "GWP-ASan detected a memory error",
            r"\*{0,3} ?(?P<detail>GWP-ASan detected a memory error)",
            "*** GWP-ASan detected a memory error ***",
        ),
    ),
)
