"""What firmware prints when it dies: ESP32 and ESP8266, Zephyr, NuttX, RIOT, Mbed, OP-TEE."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_CAUSES: Final = (
    "LoadProhibited|StoreProhibited|InstrFetchProhibited|LoadStoreError|LoadStoreAlignment|"
    "InstructionFetchError|Unhandled debug exception|Double exception|Cache disabled but cached "
    "memory region accessed|(?:Load|Store) access fault|Instruction access fault|"
    "(?:Load|Store) address misaligned|Stack protection fault|Memory protection fault"
)
_FAULTS: Final = (
    (
        "Guru Meditation Error",
        rf"(?P<detail>Guru Meditation Error:? .{{0,80}}?(?:{_CAUSES})\)?)",
        "Guru Meditation Error: Core  0 panic'ed (LoadProhibited). Exception was unhandled.",
        "SIGSEGV",
    ),
    (
        "Guru Meditation Error",
        r"(?P<detail>Guru Meditation Error:? .{0,80}?IntegerDivideByZero\)?)",
        "Guru Meditation Error: Core  1 panic'ed (IntegerDivideByZero). Exception was unhandled.",
        "SIGFPE",
    ),
    (
        "Guru Meditation Error",
        r"(?P<detail>Guru Meditation Error:? (?!.{0,80}?wdt timeout)(?:Core {1,2}\d|of type)"
        r".{1,120})",
        "Guru Meditation Error: Core  0 panic'ed (IllegalInstruction). Exception was unhandled.",
    ),
    (  # ESP8266
        "Exception (",
        r"^\W{0,4}(?P<detail>Exception \((?:0|2|3|6|9|28|29)\)):",
        "Exception (28):",
    ),
    (
        "Fatal exception ",
        r"^\W{0,4}(?P<detail>Fatal exception (?:0|2|3|6|9|28|29)\([A-Z]\w{3,40}\)):",
        "Fatal exception 28(LoadProhibitedCause):",
    ),
    (  # Zephyr
        " FAULT *****",
        r"\*{5} (?P<detail>(?:MPU|MMU|BUS|USAGE|HARD|SECURE) FAULT) \*{5}",
        "E: ***** MPU FAULT *****",
    ),
    (
        "ZEPHYR FATAL ERROR",
        r"(?P<detail>ZEPHYR FATAL ERROR (?!(?:3|4)\b)\d{1,3}: .{1,80})",
        ">>> ZEPHYR FATAL ERROR 0: CPU exception on CPU 0",
    ),
    (  # Mbed
        "++ MbedOS Fault Handler ++",
        r"(?P<detail>\+\+ MbedOS Fault Handler \+\+)",
        "++ MbedOS Fault Handler ++",
    ),
    (  # NuttX
        "PANIC!!! ",
        r"\barm_(?P<detail>(?:hard|mem|bus|usage)fault: PANIC!!!)",
        "arm_hardfault: PANIC!!! Hard fault: 40000000",
    ),
    (  # OP-TEE
        " data-abort at address 0x",
        r"(?P<detail>(?:Core|User (?:mode|TA)) data-abort at address 0x[0-9a-f]{1,16}.{0,60})",
        "E/TC:0 0 Core data-abort at address 0x48 (translation fault)",
    ),
    (  # RIOT, and what others do alike
        "Context before hardfault:",
        r"^\W{0,4}(?P<detail>Context before hardfault):",
        "Context before hardfault:",
    ),
)
_ENDS: Final = (
    (
        "abort() was called at PC ",
        r"(?P<detail>abort\(\) was called at PC 0x[0-9a-f]{8}(?: on core \d)?)",
        "abort() was called at PC 0x400d4b1c on core 0",
    ),
    (
        "A stack overflow in task ",
        r"(?P<detail>A stack overflow in task (?P<name>\S{1,40}) has been detected)",
        "***ERROR*** A stack overflow in task poold has been detected.",
    ),
    (
        "ZEPHYR FATAL ERROR",
        r"(?P<detail>ZEPHYR FATAL ERROR (?:3|4)\b.{1,80})",
        "E: >>> ZEPHYR FATAL ERROR 4: Kernel panic on CPU 0",
    ),
    (
        "RIOT kernel panic:",
        r"(?P<detail>RIOT kernel panic:.{0,80})",
        "*** RIOT kernel panic:",
    ),
    (
        "++ MbedOS Error Info ++",
        r"(?P<detail>\+\+ MbedOS Error Info \+\+)",
        "++ MbedOS Error Info ++",
    ),
)
_WAITS: Final = (
    (
        " wdt timeout on CPU",
        r"(?P<detail>(?:Interrupt|Task) wdt timeout on CPU ?\d)",
        "Guru Meditation Error: Core  1 panic'ed (Interrupt wdt timeout on CPU1)",
    ),
    (
        "Soft WDT reset",
        r"^\W{0,4}(?P<detail>Soft WDT reset)$",
        "Soft WDT reset",
    ),
)
EMBEDDED: Final = Family(
    source="firmware",
    phrases=(
        *(Phrase(ClueKind.HANG, *row) for row in _WAITS),
        *(Phrase(ClueKind.SIGNAL, *row) for row in _FAULTS),
        *(Phrase(ClueKind.ABORT, *row) for row in _ENDS),
    ),
)
