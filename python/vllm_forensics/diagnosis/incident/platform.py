"""The system on which a process died, if it was no Linux, and what there is to type on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.incident import CauseClass, Clue, Death

_NATIVE: Final = {CauseClass.NATIVE_FAULT, CauseClass.HEAP_CORRUPTION, CauseClass.ABORT_EXCEPTION}
_PLATFORMS: Final[tuple[tuple[str, re.Pattern[str], tuple[str, ...]], ...]] = (
    (
        "firmware",
        re.compile(r"Guru Meditation Error|ZEPHYR FATAL ERROR"),
        (
            "addr2line -pfiaC -e FIRMWARE.elf ADDRESSES    # the lines of its backtrace, from the "
            "build that ran",
            "idf.py coredump-info    # ESP-IDF: all tasks, where a core dump to flash is enabled",
        ),
    ),
    (
        "Android",
        re.compile(r"/data/app/|\.apk!|/apex/com\.android|\bTombstone\b|\bF DEBUG\b"),
        (
            "adb logcat -b crash -d > crash.txt    # its stack; forensics log crash.txt reads it",
            "ndk-stack -sym SYMBOLS -dump crash.txt    # names and lines for its offsets",
        ),
    ),
    (
        "Windows",
        re.compile(
            r"\b\w[\w.+-]{0,120}\.(?:dll|exe|pyd)\b|0x[cC]000[0-9a-fA-F]{4}\b|(?i:\bwindows fatal)|"
            r"(?i:access violation)|-10737\d{5}\b|\b32212\d{5}\b"
        ),
        (
            "Get-WinEvent -FilterHashtable @{LogName='Application'; Id=1000} -MaxEvents 5 | "
            "Format-List    # module and offset of the fault",
            'reg add "HKLM\\SOFTWARE\\Microsoft\\Windows\\Windows Error Reporting\\LocalDumps" /f'
            "    # keeps a dump of the next one in %LOCALAPPDATA%\\CrashDumps",
            "python -X faulthandler SCRIPT    # Python's own stack when it faults",
        ),
    ),
    (
        "macOS",
        re.compile(r"\b\w[\w.+-]{0,120}\.dylib\b|\bEXC_[A-Z]{3,20}|\bNSException\b|\bmacOS\b"),
        (
            "ls -t ~/Library/Logs/DiagnosticReports | head    # its report; forensics log reads it",
            "lldb -- COMMAND    # then run, and bt all where it stops",
        ),
    ),
)
"""Who reports there by that name, what only its texts hold, and what to type; in this order."""


def steps_of_platform(death: Death, told: Sequence[Clue]) -> tuple[str, ...] | None:
    """What to type where it died; None on Linux, and where no signal or abort ended it.

    Args:
        death: the first death.
        told: the clues to it.

    """
    if death.cause.kind not in _NATIVE:
        return None
    sources = {clue.source for clue in told}
    modules = (frame.module for frame in death.frames)
    lines = (line.text for line in death.evidence)
    words = "\n".join(filter(None, (death.name, death.module, *modules, *lines)))
    return next(
        (
            steps
            for platform, pattern, steps in _PLATFORMS
            if platform in sources or pattern.search(words) is not None
        ),
        None,
    )
