"""The kernel's lines: faults, traps and the out-of-memory killer.

Sources: arch/x86/mm/fault.c (`show_signal_msg`, bits of the page fault's error code),
arch/x86/kernel/traps.c, mm/oom_kill.c.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import Clue, ClueKind

_COMM: Final = (
    r"(?P<name>(?:^(?!kernel: |# )|(?<=\bkernel: ))[^\s\[\]][^\[\]]{0,14}|[^\s\[\]]{1,15})"
    r"\[(?P<pid>\d{1,20})\]"
)
_STRIPPED: Final = (
    r"(?:\bkernel: |^)(?:[\d.]{1,20} )?(?P<name>[^\W\d][^\s\[\]]{0,14}?)(?P<pid>(?<!\d)\d{1,9})"
)
"""A thread has fifteen letters at most. Markdown takes brackets for a link's, and eats them."""
_IN: Final = (
    r"(?:,? in (?:(?P<module>[^\[]{1,200}(?=\[)|[\w.+-]{1,80}\.so(?:\.\d{1,6}){0,4}"
    r"(?=\.?\]?\s*$)))"
    r"(?:\[(?P<offset>[0-9a-f]{1,200}))?)?"
)
"""Where, or as much of it as fitted into a title."""
_SEGFAULT: Final = (
    r": (?P<detail>segfault at [0-9a-f]{1,200}(?: ip {1,16}\S{1,200}(?: sp"
    rf" \S{{1,200}}(?: error [0-9a-f]{{1,200}})?)?)?){_IN}"
)
KERNEL: Final = Family(
    source="kernel",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            ": segfault at ",
            _COMM + _SEGFAULT,
            "python[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
            "libexample.so[7f1be0000000+21000] likely on CPU 3 (core 3, socket 0)",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            ": segfault at ",
            _STRIPPED + _SEGFAULT,
            "kernel: 12345.678901 python4242: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,  # where kernel.print-fatal-signals is set
            "potentially unexpected fatal signal ",
            r"(?:(?P<name>[\w.+-]{1,15})(?:: |/)(?P<pid>\d{1,9}): )?"
            r"(?P<detail>potentially unexpected fatal signal (?P<signal>\d{1,2}))\.",
            "serve/4242: potentially unexpected fatal signal 11.",
        ),
        Phrase(
            ClueKind.SIGNAL,
            " general protection",
            r"(?:traps: |\bkernel: (?!traps)|^(?:\[ {0,8}[\d.]{1,20}\] )?(?!# |.{0,60}traps: ))"
            r"(?P<name>[^\s\[\]][^\[\]]{0,40})\[(?P<pid>\d{1,20})\] (?P<detail>"
            r"general protection(?: fault)? ip:\S{1,200}(?: sp:\S{1,200}(?: error:\S{1,200})?)?)"
            + _IN,
            "traps: python[4242] general protection fault ip:7f1be0001234 sp:7ffd3c00 error:0 in "
            "libexample.so[7f1be0000000+21000]",
            signal="SIGSEGV",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "] trap ",
            r"(?:traps: |\bkernel: (?!traps)|^(?!# |.{0,60}traps: ))"
            r"(?P<name>[^\s\[\]][^\[\]]{0,40})\[(?P<pid>\d{1,20})\] (?P<detail>trap "
            r"(?P<signal>invalid "
            r"opcode|divide error|int3|\w[\w ]{2,30}?) ip:\S{1,200}(?: sp:\S{1,200}"
            r"(?: error:\S{1,200})?)?)" + _IN,
            "traps: python[4242] trap invalid opcode ip:7f1be0001234 sp:7ffd3c00 error:0 in "
            "libexample.so[7f1be0000000+21000]",
            signal="SIGILL",
        ),
        Phrase(
            ClueKind.MEMORY,
            "illed process ",
            r"(?P<detail>(?:Out of memory|Memory cgroup out of memory|oom_reaper|"
            r"Memory cgroup stats)?:? ?[Kk]illed process (?P<pid>\d{1,20}),? ?(?:UID \d{1,20},? ?)?"
            r"\((?P<name>[^)]*)\).*)",
            "Memory cgroup out of memory: Killed process 4242 (python) total-vm:9000000kB, "
            "anon-rss:8000000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:17000kB "
            "oom_score_adj:0",
            signal="SIGKILL",
        ),
        Phrase(
            ClueKind.MEMORY,
            "ill process ",
            r"(?P<detail>(?:Out of memory|Memory cgroup out of memory): Kill process "
            r"(?P<pid>\d{1,20}) \((?P<name>[^)]*)\).*)",
            "Out of memory: Kill process 4242 (python) score 900 or sacrifice child",
            signal="SIGKILL",
        ),
        Phrase(  # BSD's, which titles cut off
            ClueKind.SIGNAL,
            "exited on signal ",
            r"(?:\bpid (?P<pid>\d{1,20}) )?\((?P<name>[^()]{1,40})\)(?:, jid \d{1,9})?, uid "
            r"\d{1,9}:? (?P<detail>exited on signal (?P<signal>\d{1,2}))\b",
            "pid 4242 (serve), jid 0, uid 80: exited on signal 11 (core dumped)",
        ),
        Phrase(  # bcc's oomkill
            ClueKind.MEMORY,
            "OOM kill of PID ",
            r"(?P<detail>OOM kill of PID (?P<pid>\d{1,20}) \(\"(?P<name>[^\"]{1,60})\"\).{0,200})",
            'Triggered by PID 4240 ("serve"), OOM kill of PID 4242 ("python"), 9000 pages',
            signal="SIGKILL",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "]: unhandled ",
            r"(?P<name>[^\s\[\]][^\[\]]{0,40})\[(?P<pid>\d{1,20})\]: (?P<detail>unhandled .{1,60}? "
            r"\((?P<signal>\d{1,20})\) at 0x[0-9a-f]{1,200})(?:, esr \S{1,200}(?<!,))?" + _IN,
            "python[4242]: unhandled level 1 translation fault (11) at 0x00000048, esr 0x92000005, "
            "in libexample.so[7f1be0000000+21000]",
        ),
        Phrase(
            ClueKind.SIGNAL,
            "ANOM_ABEND ",
            r"ANOM_ABEND .{0,200}?\bpid=(?P<pid>\d{1,20}) comm=\"(?P<name>[^\"]{1,40})\".{0,300}?\b"
            r"sig=(?P<signal>\d{1,3})",
            'audit[4242]: ANOM_ABEND auid=1000 uid=1000 gid=1000 ses=2 pid=4242 comm="python3" '
            'exe="/usr/bin/python3.11" sig=11 res=1',
        ),
        Phrase(
            ClueKind.SIGNAL,
            "called for pid ",
            r"called for pid (?P<pid>\d{1,20}), signal (?P<signal>\d{1,3})(?:,|$)",
            "ERROR: apport (pid 4300): called for pid 4242, signal 11, core limit 0, dump mode 1",
        ),
        Phrase(
            ClueKind.MEMORY,
            "oom_reaper: reaped process ",
            r"(?P<detail>oom_reaper: reaped process (?P<pid>\d{1,20}) \((?P<name>[^)]*)\).*)",
            "oom_reaper: reaped process 4242 (python), now anon-rss:0kB, file-rss:0kB",
            signal="SIGKILL",
        ),
        Phrase(
            ClueKind.MEMORY,
            " killed as a result of limit of ",
            r"(?P<detail>Task in /\S{0,400} killed as a result of limit of /\S{0,400})",
            "Task in /docker/a1b2 killed as a result of limit of /docker/a1b2",
            signal="SIGKILL",
        ),
        Phrase(
            ClueKind.MEMORY,
            " invoked oom-killer: ",
            # a thread's name may hold a blank
            r"(?P<detail>(?:(?:^|(?<=[\]:] ))[^\s:\[\]][^:\[\]]{0,14}|\S{1,40}) "
            r"invoked oom-killer: .{1,120})",
            "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            signal="SIGKILL",
            of_another=True,
        ),
        *(
            Phrase(  # its stack, where the lines above and below are missing
                ClueKind.MEMORY,
                needle,
                rf"^(?:.{{0,80}}\s)?(?:\[<[0-9a-f]{{8,16}}>\] )?"
                rf"(?P<detail>{needle}(?:\.\w{{1,20}})?\+0x[0-9a-f]{{1,6}}/0x[0-9a-f]{{1,6}})",
                f"[ 1234.567890]  [<ffffffff8115a32e>] {needle}+0x24e/0x3b0",
                signal="SIGKILL",
                of_another=True,
            )
            for needle in ("oom_kill_process", "mem_cgroup_out_of_memory")
        ),
        Phrase(  # its table of tasks, of which the rows tell of nobody's end
            ClueKind.MEMORY,
            "Tasks state (memory values in ",
            r"^(?P<detail>Tasks state \(memory values in \w{1,10}\)):?\s*$",
            "[ 1234.567890] Tasks state (memory values in pages):",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "oom-kill:",
            r"(?P<detail>oom-kill:constraint=\S{0,200}?,.{0,600}?task=(?P<name>[^,]{1,200}),pid="
            r"(?P<pid>\d{1,20}).*)",
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,"
            "oom_memcg=/a,task_memcg=/a,task=python,pid=4242,uid=0",
            signal="SIGKILL",
        ),
    ),
)
_FAULT: Final = re.compile(
    r"segfault at (?P<at>[0-9a-f]{1,200})(?: ip {1,16}(?P<ip>[0-9a-f]{1,200}|\(null\))"
    r"(?: sp \S{1,200}(?: error (?P<bits>[0-9a-f]{1,200}))?)?)?"
)
_TRAP: Final = re.compile(r" ip:(?P<ip>[0-9a-f]{1,200})\b")
_WITHIN: Final = re.compile(
    r"\[(?:(?P<rel>[0-9a-f]{1,200}),)?(?P<base>[0-9a-f]{1,200})\+(?P<size>[0-9a-f]{1,200})\]"
)
_NULL_PAGE: Final = 0x10000
_TRAPS: Final = (
    ("trap invalid opcode", "SIGILL"),
    ("trap divide error", "SIGFPE"),
    ("trap int3", "SIGTRAP"),
    ("trap stack segment", "SIGBUS"),
    ("trap simd", "SIGFPE"),
)


def decoded(clue: Clue) -> Clue:
    """A clue with the kernel's numbers told in words, and the offset in the module.

    A signal's handler hands on the address that the kernel gave it.
    """
    detail = clue.detail or ""
    if detail.startswith("@"):
        return replace(clue, detail=_handed_on(clue.signal, int(detail[1:], 16)))
    if clue.source != KERNEL.source:
        return clue
    fault = _FAULT.search(detail)
    trap = _TRAP.search(detail)
    if fault is not None:
        clue = replace(clue, detail=_page_fault(fault))
    elif trap is not None:
        names = [name for words, name in _TRAPS if words in detail]
        clue = replace(
            clue, signal=names[0] if names else clue.signal, detail=detail.partition(" ip:")[0]
        )
    told = fault or trap
    ip = _address(told["ip"]) if told is not None and told["ip"] else None
    where = _WITHIN.search(clue.text)
    if not clue.native:
        return clue
    offset = -1
    if ip is not None and where is not None:
        # From 5.18 on the kernel prints the offset into the file before base and size.
        offset = int(where["rel"], 16) if where["rel"] else ip - int(where["base"], 16)
    # A call of a null pointer is outside of the module that the kernel names.
    call = replace(clue.native[0], offset=f"{offset:#x}" if offset >= 0 else None)
    return replace(clue, native=(call,))


def _handed_on(signal: str | None, address: int) -> str | None:
    """Of a null pointer and of an address that cannot be, the kernel says the same: 0.

    Other signals have another number there, such as the sender's.
    """
    if signal not in {"SIGSEGV", "SIGBUS"} or not address:
        return None
    return _access(address)


def _access(address: int) -> str:
    null = ": a null pointer" if address < _NULL_PAGE else ""
    return f"an access to address {address:#x}{null}"


def _address(text: str) -> int:
    """Older kernels write a null pointer in words."""
    return 0 if text == "(null)" else int(text, 16)


def _page_fault(fault: re.Match[str]) -> str:
    address, bits = int(fault["at"], 16), int(fault["bits"] or "0", 16)
    if fault["bits"] is None:  # the line was cut
        return _access(address)
    if bits & 0x10:
        access = "an instruction was fetched from"
    else:
        access = "a write to" if bits & 2 else "a read of"
    why = "which its protection forbids" if bits & 1 else "which is not mapped"
    if _address(fault["ip"]) == address and address < _NULL_PAGE:
        if not address:
            return f"a call of a null function pointer ({address:#x})"
        return f"a jump to address {address:#x}, next to null, where no code lies"
    if address < _NULL_PAGE:
        why += ": a null pointer"
    return f"{access} address {address:#x}, {why}"
