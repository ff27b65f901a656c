"""Names of signals and of their si_codes (signal(7), sigaction(2), asm-generic/siginfo.h)."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.process import Signal

SI_KERNEL: Final = 128
"""The si_code of what the kernel sends without an address; on x86, of a general protection."""
_NAMES: Final = (
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU",
    "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
)  # fmt: skip
_CODES: Final = {
    4: ("ILL_ILLOPC", "ILL_ILLOPN", "ILL_ILLADR", "ILL_ILLTRP", "ILL_PRVOPC", "ILL_PRVREG",
        "ILL_COPROC", "ILL_BADSTK"),
    5: ("TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT"),
    7: ("BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"),
    8: ("FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF", "FPE_FLTUND", "FPE_FLTRES",
        "FPE_FLTINV", "FPE_FLTSUB"),
    11: ("SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"),
}  # fmt: skip
_GENERAL: Final = {
    0: "SI_USER", SI_KERNEL: "SI_KERNEL", -1: "SI_QUEUE", -2: "SI_TIMER", -3: "SI_MESGQ",
    -4: "SI_ASYNCIO", -5: "SI_SIGIO", -6: "SI_TKILL",
}  # fmt: skip


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; `signal 40` for one without a name."""
    if 0 < number < len(_NAMES):
        return f"SIG{_NAMES[number]}"
    return f"signal {number}"


def code_name(signal: Signal) -> str:
    """`SEGV_MAPERR` for code 1 of SIGSEGV; the number where it has no name, or words for none."""
    if not signal.is_recorded:
        return "si_code not recorded"
    general = _GENERAL.get(signal.code)
    if general is not None:
        return general
    names = _CODES.get(signal.number, ())
    return names[signal.code - 1] if 0 < signal.code <= len(names) else str(signal.code)


def signal_number(name: str) -> int | None:
    """11 for `SIGSEGV`; `SIGRT_3` and `SIGRTMIN+3` count from 32 and 34; None for no signal."""
    if name.startswith("SIG") and name[3:] in _NAMES[1:]:
        return _NAMES.index(name[3:])
    for prefix, first in (("SIGRT_", 32), ("SIGRTMIN+", 34)):
        rest = name.removeprefix(prefix)
        if rest != name and rest.isascii() and rest.isdecimal() and len(rest) < 3:
            return first + int(rest)
    return None
