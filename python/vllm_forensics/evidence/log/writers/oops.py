"""What a kernel says of itself: its oopses and panics, and who keeps one of its CPUs.

Sources: `die()` and `show_regs()` of each architecture, kernel/watchdog.c, kernel/hung_task.c,
kernel/rcu/tree_stall.h.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import OOPS, ClueKind

_FAULTS: Final = (
    (
        "Unable to handle kernel ",
        r"(?P<detail>Unable to handle kernel .{1,80} at (?:virtual )?address [0-9a-f]{4,16})",
        "[ 1234.567890] Unable to handle kernel NULL pointer dereference at virtual address "
        "0000000000000048",
    ),
    (
        "BUG: kernel NULL pointer",
        r"(?P<detail>BUG: kernel NULL pointer dereference, address: [0-9a-f]{4,16})",
        "[ 1234.567890] BUG: kernel NULL pointer dereference, address: 0000000000000048",
    ),
    (
        "BUG: unable to handle ",
        r"(?P<detail>BUG: unable to handle (?:page fault|kernel .{1,60}?) (?:for|at)"
        r"(?: (?:address: )?\s{0,12}\S{4,20}|\s*$))",
        "[ 1234.567890] BUG: unable to handle page fault for address: ffffffffc0de1234",
    ),
    (
        "general protection fault, ",
        r"(?P<detail>general protection fault, (?:probably|maybe) for .{1,120})",
        "[ 1234.567890] general protection fault, probably for non-canonical address "
        "0xdead000000000100: 0000 [#1] SMP",
    ),
    (
        "kernel BUG at ",
        r"(?P<detail>kernel BUG at \S{1,160}:\d{1,6}!)",
        "[ 1234.567890] kernel BUG at mm/slub.c:42!",
    ),
    (
        "Kernel panic - not syncing",
        r"(?P<detail>Kernel panic - not syncing: .{1,160})",
        "[ 1234.567890] Kernel panic - not syncing: Fatal exception in interrupt",
    ),
    (  # Solaris, illumos
        "BAD TRAP: ",
        r"(?P<detail>BAD TRAP: type=\w{1,8} \([^()]{3,60}\))",
        "BAD TRAP: type=e (#pf Page fault) rp=ffffff003d0074d0 addr=48",
    ),
    (
        "panic[cpu",
        r"(?P<detail>panic\[cpu\d{1,4}\]/thread=[0-9a-f]{4,16}:.{0,120})",
        "panic[cpu7]/thread=ffffff09083790c0: assertion failed",
    ),
    (
        "Internal error: Oops",
        r"(?P<detail>Internal error: Oops.{1,80})",
        "[ 1234.567890] Internal error: Oops: 96000004 [#1] PREEMPT SMP",
    ),
    (  # OpenBSD and NetBSD; below it, or in a copy behind it, stand the trap's own functions
        " fault in supervisor mode",
        r"(?P<detail>fatal (?:page|protection|integer divide) fault in supervisor mode)"
        r"(?:.{0,400}? at alltraps\w{0,40}\+0x[0-9a-f]{1,8} (?P<function>\w{1,80})\()?",
        "fatal page fault in supervisor mode",
    ),
    (  # FreeBSD
        "Fatal trap ",
        r"(?P<detail>Fatal trap \d{1,3}: .{1,60} while in kernel mode)",
        "Fatal trap 12: page fault while in kernel mode",
    ),
    (
        "urrent process",
        r"^current process\s{1,12}= (?P<pid>\d{1,9}) \((?P<name>[^()]{1,40})\)",
        "current process         = 4242 (serve)",
    ),
    (  # ZFS
        "PANIC at ",
        r"(?P<detail>PANIC at \S{1,80}:\d{1,6}:(?P<function>\w{1,80})\(\))",
        "[ 1234.567890] PANIC at pool.c:340:take()",
    ),
    (
        "SPLError: ",
        r"(?P<detail>SPLError: \d{1,9}:\d:\(\S{1,80}:\d{1,6}:(?P<function>\w{1,80})\(\)\))",
        "[ 1234.567890] SPLError: 4242:0:(pool.c:340:take()) SPL PANIC",
    ),
    (  # ARM's, of which the beginning may be cut off
        ", stack limit = 0x",
        r"Process (?P<name>\S{1,40}) \(pid: (?P<pid>\d{1,20}), stack limit = 0x",
        "[ 1234.567890] Process serve (pid: 4242, stack limit = 0x9e436188)",
    ),
    (  # whatever it was: every architecture counts its deaths so
        "[#",
        r"\b(?P<detail>(?:Oops(?:: .{1,80}?)?|Internal error: .{1,60}|"
        r"[A-Za-z][\w ,.-]{2,60}: [0-9a-f]{4,8}(?: ilc:\d)?) ?\[#\d{1,4}\])(?=\W|$)",
        "[ 1234.567890] general protection fault: 0000 [#1] SMP",
    ),
)
_WAITS: Final = (
    (
        "soft lockup",
        r"(?P<detail>BUG: soft lockup\.? - CPU#\d{1,5} stuck for \d{1,6}s!) -?"
        r"\[(?P<name>[^\]]{1,40}):(?P<pid>\d{1,20})\]",
        "[ 1234.567890] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [serve:4242]",
    ),
    (
        "BUG: soft lockup",
        r"\bwatchdog: (?P<detail>BUG: soft lockup)(?!\.? - CPU)",
        "# watchdog: BUG: soft lockup in the new kernel",
    ),
    (
        "hard LOCKUP on cpu",
        r"(?P<detail>Watchdog detected hard LOCKUP on cpu ?\d{1,5})",
        "[ 1234.567890] NMI watchdog: Watchdog detected hard LOCKUP on cpu 3",
    ),
    (
        " blocked for more than ",
        r"\btask (?P<name>\S{1,40}):(?P<pid>\d{1,20}) (?P<detail>blocked for more than "
        r"\d{1,6} seconds)",
        "[ 1234.567890] INFO: task serve:4242 blocked for more than 120 seconds.",
    ),
    *(
        (
            needle,
            r"(?P<detail>\brcu\w{0,20} (?:self-)?detected (?:expedited )?stalls? on CPUs?\b"
            r".{0,40})",
            example,
        )
        for needle, example in (
            (
                "self-detected stall",
                "[ 1234.567890] rcu: INFO: rcu_sched self-detected stall on CPU",
            ),
            ("detected stalls on", "INFO: rcu_preempt detected stalls on CPUs/tasks:"),
            (
                "detected expedited stalls on",
                "rcu: INFO: rcu_sched detected expedited stalls on CPUs",
            ),
        )
    ),
)
KERNELS: Final = Family(
    source=OOPS,
    phrases=(
        *(Phrase(ClueKind.SIGNAL, *row) for row in _FAULTS),
        *(Phrase(ClueKind.HANG, *row) for row in _WAITS),
    ),
)
