"""Faults as kernels of other processors tell them, audit's records, and memory that is broken.

Sources: `show_unhandled_signals` of arch/{arm,arm64,mips,powerpc,riscv,s390}, kernel/signal.c,
mm/memory-failure.c, audit's record types 1701 (ANOM_ABEND) and 1326 (SECCOMP).
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_WHO: Final = r"(?P<name>[^\s\[\]][^\[\]]{0,15})\[(?P<pid>\d{1,20})\]: "
_IN: Final = r"(?:,? in (?P<module>[^\[\s]{1,200})\[(?P<offset>[0-9a-f]{1,200})?)?"
_FAULTS: Final[tuple[tuple[str, str, str] | tuple[str, str, str, str], ...]] = (
    (  # PowerPC, older and newer, and RISC-V
        "]: unhandled signal ",
        rf"{_WHO}(?P<detail>unhandled signal (?P<signal>\d{{1,2}})(?: code \S{{1,20}})? at "
        rf"\S{{1,20}})(?: nip \S{{1,20}} lr \S{{1,20}} code \S{{1,10}}(?<!,))?{_IN}",
        "python[4242]: unhandled signal 11 code 0x1 at 0x0000000000000048 in "
        "libexample.so[7f1be0000000+21000]",
    ),
    (
        "]: segfault (",
        rf"{_WHO}(?P<detail>segfault \((?P<signal>\d{{1,2}})\) at [0-9a-f]{{1,16}})"
        rf"(?: nip \S{{1,20}} lr \S{{1,20}} code \S{{1,10}}(?<!,))?{_IN}",
        "python[4242]: segfault (11) at 48 nip 7f1be0001234 lr 7f1be0001230 code 1 in "
        "libexample.so[7f1be0000000+21000]",
    ),
    (  # MIPS
        "): sending SIG",
        r"do_page_fault\(\): sending (?P<signal>SIG[A-Z]{3,4}) to (?P<name>\S{1,15}) for "
        r"(?P<detail>invalid \w{4,7} access (?:from|to) \S{1,20})",
        "do_page_fault(): sending SIGSEGV to python for invalid read access from 00000048",
    ),
    (  # s390, which names no process
        "User process fault: interruption code ",
        r"(?P<detail>User process fault: interruption code [0-9a-fX]{1,10}(?: ilc:\d)?)" + _IN,
        "User process fault: interruption code 003b ilc:3 in libexample.so[3ff9a000000+21000]",
        "SIGSEGV",
    ),
    (  # ARM
        ": undefined instruction: pc=",
        r"(?P<name>[^\s\[\]()]{1,15}) ?[\[(](?P<pid>\d{1,20})[\])]: (?P<detail>undefined "
        r"instruction: pc=\S{1,20})",
        "python (4242): undefined instruction: pc=b6f00000",
        "SIGILL",
    ),
    (
        ": bad frame in ",
        r"(?P<name>[^\s\[\]]{1,15})\[(?P<pid>\d{1,20})\]:? (?P<detail>bad frame in \w{1,40})\b",
        "python[4242]: bad frame in rt_sigreturn frame:0000 ip:7f1be0001234 sp:7ffd3c00",
        "SIGSEGV",
    ),
    (  # print-fatal-signals=1
        ": potentially unexpected fatal signal ",
        r"(?P<name>[^\s/]{1,15})/(?P<pid>\d{1,20}): potentially unexpected fatal signal "
        r"(?P<signal>\d{1,2})\b",
        "python/4242: potentially unexpected fatal signal 11.",
    ),
    (
        "type=1701 ",
        r"type=1701 .{0,200}?\bpid=(?P<pid>\d{1,20}) comm=\"(?P<name>[^\"]{1,40})\".{0,300}?\b"
        r"sig=(?P<signal>\d{1,3})",
        'audit: type=1701 audit(1700000000.123:45): auid=1000 uid=1000 pid=4242 comm="python3" '
        'exe="/usr/bin/python3" sig=6 res=1',
    ),
    *(
        (
            needle,
            rf"{needle}.{{0,200}}?\bpid=(?P<pid>\d{{1,20}}) comm=\"(?P<name>[^\"]{{1,40}})\""
            r".{0,300}?\bsig=(?P<signal>[1-9]\d?)\b",
            f'{needle}audit(1700000000.123:45): auid=1000 pid=4242 comm="serve" '
            'exe="/usr/bin/serve" sig=31 arch=c000003e syscall=83',
        )
        for needle in ("type=1326 ", "type=SECCOMP msg=")
    ),
)
KERNELS_ABROAD: Final = Family(
    source="kernel",
    phrases=(
        *(Phrase(ClueKind.SIGNAL, *row) for row in _FAULTS),
        *(
            Phrase(  # OpenBSD, of a promise that was broken
                ClueKind.ABORT,
                needle,
                rf"^(?:/bsd: )?(?P<name>[\w.+-]{{1,40}}){pattern}",
                example,
                signal="SIGABRT",
            )
            for needle, pattern, example in (
                (
                    "): syscall ",
                    r"\((?P<pid>\d{1,9})\): (?P<detail>syscall \d{1,4} \"\w{1,20}\")",
                    'serve(4242): syscall 4 "stdio"',
                ),
                (
                    "]: pledge ",
                    r"\[(?P<pid>\d{1,9})\]: (?P<detail>pledge \"\w{0,20}\", syscall \d{1,4})",
                    'serve[4242]: pledge "stdio", syscall 4',
                ),
            )
        ),
        Phrase(
            ClueKind.ENVIRONMENT,
            " due to hardware memory corruption",
            r"Killing (?P<name>[^\s:]{1,15}):(?P<pid>\d{1,20}) (?P<detail>due to hardware memory "
            r"corruption)",
            "Memory failure: 0x12345: Killing python:4242 due to hardware memory corruption",
            signal="SIGBUS",
        ),
    ),
)
