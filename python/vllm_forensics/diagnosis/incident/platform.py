"""The system on which a process died, if it was no Linux, and what there is to type on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.incident import CauseClass, Clue, Death

_NATIVE: Final = {CauseClass.NATIVE_FAULT, CauseClass.HEAP_CORRUPTION, CauseClass.ABORT_EXCEPTION}
_EXE: Final = re.compile(r"(?i)(?!python)[\w .+-]{1,80}\.exe")
_PYTHON: Final = ("python3", "_")
_OF_PYTHON: Final = "python -X faulthandler SCRIPT    # Python's own stack when it faults"
_OF_PROGRAM: Final = "procdump -ma -e PROGRAM.exe    # a whole dump when it faults again"
_OF_PROCESSOR: Final = (
    "Get-CimInstance Win32_Processor | Select-Object Name    # has it what the build needs?",
    _OF_PROGRAM,
)
_OTHERWISE: Final = {
    ("Windows", CauseClass.HANG): (
        "procdump -ma -h PROGRAM.exe    # a whole dump when it hangs again",
        "windbg -z PROGRAM.dmp -c '!analyze -hang -v'    # who waits for whom",
    ),
    ("Windows", CauseClass.ENVIRONMENT): (
        "dumpbin /dependents PROGRAM.exe    # the libraries that it needs",
        "where LIBRARY.dll    # is it there, and which one comes first?",
    ),
    ("macOS", CauseClass.ENVIRONMENT): (
        "codesign --verify --deep --strict --verbose=2 PROGRAM.app    # is its signature whole?",
        "otool -L PROGRAM    # the libraries that it needs",
    ),
}
"""Where no fault ended it: by who told of the end, and of what."""
_WINDOWS: Final = re.compile(
    r"\b\w[\w.+-]{0,120}\.(?:dll|exe|pyd)\b|0x[cC]000[0-9a-fA-F]{4}\b|(?i:\bwindows fatal)|"
    r"(?i:access violation)|\bEXCEPTION_[A-Z_]{6,30}\b|(?<![\w/])[A-Z]:\\\w|"
    r"-10737\d{5}\b|\b32212\d{5}\b"
)
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
        _WINDOWS,
        (
            "Get-WinEvent -FilterHashtable @{LogName='Application'; Id=1000} -MaxEvents 5 | "
            "Format-List    # module and offset of the fault",
            'reg add "HKLM\\SOFTWARE\\Microsoft\\Windows\\Windows Error Reporting\\LocalDumps" /f'
            "    # keeps a dump of the next one in %LOCALAPPDATA%\\CrashDumps",
            _OF_PYTHON,
            _OF_PROGRAM,
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
    sources = {clue.source for clue in told}
    if death.cause.kind not in _NATIVE:
        if death.signal == "SIGILL" and _WINDOWS.search("\n".join(one.text for one in told)):
            return _OF_PROCESSOR
        own = (_OTHERWISE.get((source, death.cause.kind)) for source in sources)
        return next(filter(None, own), None)
    modules = (frame.module for frame in death.frames)
    lines = (line.text for line in death.evidence)
    words = "\n".join(filter(None, (death.name, death.module, death.file, *modules, *lines)))
    return next(
        (
            tuple(step for step in steps if _fits(step, death))
            for platform, pattern, steps in _PLATFORMS
            if platform in sources or pattern.search(words) is not None
        ),
        None,
    )


def _fits(step: str, death: Death) -> bool:
    """Is it what one types of Python where Python died, and of a program where another did?"""
    modules = [death.module or "", *(frame.module or "" for frame in death.frames)]
    is_named = death.name is not None and _EXE.fullmatch(death.name) is not None
    is_other = is_named and not any(one.lower().startswith(_PYTHON) for one in modules)
    return step not in {_OF_PYTHON, _OF_PROGRAM} or (step == _OF_PROGRAM) is is_other
