"""Windows' kernel where it stops, as the debugger, the event log and a program's message tell it.

Also what Delphi's runtime says of a fault: in each of its languages an address, the module that
it lies in, and the address that could not be read.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import BUGCHECK, UNNAMED, ClueKind

STOPS: Final = Family(
    source=BUGCHECK,
    phrases=tuple(
        Phrase(ClueKind.SIGNAL, needle, pattern, example)
        for needle, pattern, example in (
            (
                "Fatal System Error: 0x",
                r"^\W{0,8}(?P<detail>Fatal System Error: 0x[0-9a-f]{4,8})\b",
                "*** Fatal System Error: 0x00000139",
            ),
            (
                "bugcheck was: 0x",
                r"\b(?P<detail>[Tt]he bugcheck was: 0x[0-9a-f]{4,8})\b",
                "The computer has rebooted from a bugcheck.  The bugcheck was: 0x00000139 (0x4).",
            ),
            (
                "BugCheck ",
                r"^\W{0,4}(?P<detail>BugCheck [0-9A-F]{1,8}), \{",
                "BugCheck 139, {3, ffffd0002a78a940, ffffd0002a78a898, 0}",
            ),
        )
    ),
)
HANGS: Final = Family(
    source="Windows",
    phrases=(
        Phrase(
            ClueKind.HANG,
            " stopped interacting with Windows",
            r"\b[Tt]he program (?P<name>[\w .+-]{1,60}?\.(?i:exe)) version \S{1,40} "
            r"(?P<detail>stopped interacting with Windows)",
            "The program serve.exe version 1.2.0.0 stopped interacting with Windows and was "
            "closed.",
            of_another=True,
        ),
    ),
)
_ADDRESS: Final = r"(?<![0-9A-Fa-f])[0-9A-F]{8,16}(?![0-9A-Fa-f])"
_MODULE: Final = r"['\"\u201c\u00ab](?P<module>[\w .+-]{1,60}\.(?:exe|dll|bpl))['\"\u201d\u00bb]"
_ORDERS: Final = (
    (
        rf"(?P<detail>[^\W\d].{{3,50}} {_ADDRESS} [^\d:=]{{1,40}}{_MODULE}\W{{1,3}}[^\W\d]"
        rf".{{2,50}} {_ADDRESS})",
        "Access violation at address 0040F5E2 in module 'serve.exe'. Read of address 00000048.",
    ),
    (
        rf"(?P<detail>[^\W\d]\w{{1,12}} ?{_MODULE}[^\d:=]{{1,12}} {_ADDRESS} [^\d:=]{{1,16}}"
        rf" {_ADDRESS} )",
        "Module 'serve.exe' at 000000000040F5E2 by 0000000000000048 was faulting.",
    ),
)
"""The second is Chinese's and Japanese's."""
DELPHI: Final = Family(
    source=UNNAMED,
    phrases=(
        Phrase(  # and Free Pascal
            ClueKind.SIGNAL,
            "EAccessViolation",
            r"^\W{0,4}(?:.{0,60}\b(?:[Cc]lass|[Tt]ype|[Ee]xception)\b\W{1,4})?"
            r"(?P<detail>EAccessViolation(?:(?:[:,]| with message) .{1,160})?)$",
            "Exception: class: EAccessViolation, message: Access violation",
            signal="SIGSEGV",
        ),
        *(
            Phrase(
                ClueKind.SIGNAL,
                f"{suffix}{quote}",
                pattern,
                example.replace(".exe'", f"{suffix}{quote}"),
                signal="SIGSEGV",
            )
            for pattern, example in _ORDERS
            for suffix in (".exe", ".dll", ".bpl")
            for quote in ("'", '"', "\u201d", "\u00bb")
        ),
    ),
)
