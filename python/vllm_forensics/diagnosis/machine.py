"""Judges a machine's settings: which of them cost evidence, and what to type about each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Final

from vllm_forensics.diagnosis.sanitizer.machine import judge_sanitizers
from vllm_forensics.diagnosis.wording import size_text
from vllm_forensics.model.machine import Check, MachineFacts, Verdict

PATTERN_BYTES: Final = 127
"""The kernel keeps at most this much of core_pattern (core(5))."""
_ELF_HEADERS: Final = 1 << 4  # coredump_filter bit 4, core(5)
_ANONYMOUS_PRIVATE: Final = 1 << 0
_LITTLE_DISK: Final = 2 << 30
_LITTLE_SHM: Final = 256 << 20
_CODES: Final = {
    "%": "%", "c": "LIMIT", "d": "1", "e": "THREAD", "E": "PATH!TO!PROGRAM", "f": "PROGRAM",
    "F": "PIDFD", "g": "GID", "h": "HOST", "i": "TID", "I": "TID", "p": "PID", "P": "PID",
    "s": "SIGNAL", "t": "TIME", "u": "UID", "C": "CPU",
}  # fmt: skip
_CODE: Final = re.compile("%.?", re.DOTALL)
_PER_PROCESS: Final = {"%p", "%P", "%t", "%i", "%I"}
_SHM: Final = "/dev/shm"  # noqa: S108 - named to a person, not written to
_HANDLERS: Final = {
    "systemd-coredump": ("systemd keeps the cores", "coredumpctl list"),
    "apport": ("apport keeps cores of packaged programs only, in /var/crash", "ls /var/crash"),
    "abrt": ("abrt keeps the cores", "abrt list"),
}


def judge(facts: MachineFacts) -> tuple[Check, ...]:
    """Every check, in the order in which they decide over a core."""
    return tuple(check for rule in _CHECKS for check in rule(facts))


def expand_pattern(pattern: str) -> str:
    """What the codes of a core_pattern stand for: `core.%e.%p` → `core.THREAD.PID`.

    An unknown code and a single % at the end stand for nothing (core(5)).
    """
    return _CODE.sub(lambda code: _CODES.get(code.group()[1:], ""), pattern)


def _names_differ(pattern: str) -> bool:
    """Does each process have a name of its own? In `core.%%p` the p is a letter."""
    return any(code in _PER_PROCESS for code in _CODE.findall(pattern))


def _pattern(facts: MachineFacts) -> list[Check]:
    pattern = facts.core_pattern
    if pattern is None:
        return [_bad("core pattern", "cannot be read", "mount /proc, or look on the host")]
    if not pattern:
        return [_bad("core pattern", "is empty: no cores are written", _SET_PATTERN)]
    if pattern.startswith("|"):
        return [_piped(facts, pattern)]
    if len(pattern.encode()) >= PATTERN_BYTES:
        found = f"{pattern} has {len(pattern.encode())} bytes; the kernel cuts at {PATTERN_BYTES}"
        return [_bad("core pattern", found, _SET_PATTERN)]
    where = expand_pattern(pattern)
    found = f"{pattern}, a file such as {where}"
    if not _names_differ(pattern) and not facts.core_uses_pid:
        return [
            _warn("core pattern", f"{found}: a second crash overwrites the first", _SET_PATTERN)
        ]
    return [_good("core pattern", found)]


def _piped(facts: MachineFacts, pattern: str) -> Check:
    program = pattern[1:].split()[0] if pattern[1:].split() else "nothing"
    for name, (words, command) in _HANDLERS.items():
        if name in program:
            return _warn("core pattern", f"a pipe: {words}", command)
    where = " on the host, not in this container" if facts.container else ""
    return _warn("core pattern", f"a pipe to {program}{where}", _SET_PATTERN)


def _limit(facts: MachineFacts) -> list[Check]:
    soft, hard = facts.core_limit_soft, facts.core_limit_hard
    if soft == -1:
        return [_good("core limit", "unlimited")]
    if soft == 0 and facts.core_pattern and facts.core_pattern.startswith("|"):
        return [
            _warn("core limit", "0; a pipe handler is called all the same", "ulimit -c unlimited")
        ]
    verdict = _bad if soft == 0 else _warn
    words = "0: no core is written" if soft == 0 else f"{size_text(soft)}: larger cores are cut off"
    if hard == 0 and not facts.is_root:
        return [_bad("core limit", f"{words}, and the hard limit is 0 too", _RAISE_AS_ROOT)]
    return [verdict("core limit", words, "ulimit -c unlimited")]


def _folder(facts: MachineFacts) -> list[Check]:
    if facts.core_folder is None:
        return []
    if facts.core_folder_writable is False:
        found = f"{facts.core_folder} is not writable for this user"
        return [_bad("core folder", found, f"ls -ld {shlex.quote(facts.core_folder)}")]
    free = facts.core_folder_free
    if free is not None and free < _LITTLE_DISK:
        found = f"{facts.core_folder} has {size_text(free)} free"
        return [_warn("core folder", found, f"df -h {shlex.quote(facts.core_folder)}")]
    room = f", {size_text(free)} free" if free is not None else ""
    return [_good("core folder", f"{facts.core_folder}{room}")]


def _filter(facts: MachineFacts) -> list[Check]:
    bits = facts.coredump_filter
    if bits is None:
        return []
    if not bits & _ELF_HEADERS:
        found = f"{bits:#x}: ELF headers are left out, modules cannot be told apart"
        return [_warn("core contents", found, "echo 0x33 > /proc/self/coredump_filter")]
    if not bits & _ANONYMOUS_PRIVATE:
        found = f"{bits:#x}: heap and stacks are left out"
        return [_bad("core contents", found, "echo 0x33 > /proc/self/coredump_filter")]
    return [_good("core contents", f"coredump_filter {bits:#x}")]


def _privileges(facts: MachineFacts) -> list[Check]:
    checks = []
    if facts.suid_dumpable == 0:
        found = "0: programs that change their user leave no core"
        checks.append(_good("suid_dumpable", found))
    if facts.ptrace_scope is not None and facts.ptrace_scope > 1:
        found = f"ptrace_scope {facts.ptrace_scope}: gdb cannot attach to a running program"
        checks.append(_warn("ptrace", found, "as root: sysctl kernel.yama.ptrace_scope=1"))
    elif facts.seccomp == 2:
        checks.append(_good("ptrace", "a seccomp filter is on; the proof below tells if it bites"))
    else:
        checks.append(_good("ptrace", "allowed for own children"))
    return checks


def _container(facts: MachineFacts) -> list[Check]:
    if facts.container is None:
        return [_good("container", "none")]
    version = f", cgroup v{facts.cgroup_version}" if facts.cgroup_version else ""
    memory = f", {size_text(facts.memory_limit)} of memory" if facts.memory_limit else ""
    found = f"{facts.container}{version}{memory}: core_pattern is the host's, for all containers"
    return [_warn("container", found, "set it on the host, or run: forensics run -- COMMAND")]


def _shared_memory(facts: MachineFacts) -> list[Check]:
    if facts.shm_size is None:
        return [_bad(_SHM, "is not there: shared memory fails", f"mount -t tmpfs tmpfs {_SHM}")]
    size = f"{size_text(facts.shm_size)}, {size_text(facts.shm_free or 0)} free"
    if facts.shm_size < _LITTLE_SHM:
        found = f"{size}: vLLM's workers share more, and die of SIGBUS when it is full"
        return [_warn(_SHM, found, "docker run --shm-size=8g, or an emptyDir of medium Memory")]
    return [_good(_SHM, size)]


def _tools(facts: MachineFacts) -> list[Check]:
    checks = []
    if facts.gdb is None:
        found = "not installed: no values of arguments and variables"
        checks.append(_bad("gdb", found, "apt-get install gdb"))
    elif not facts.gdb_has_python:
        found = f"{facts.gdb}, without Python: containers are printed raw"
        checks.append(_warn("gdb", found, "apt-get install gdb"))
    else:
        checks.append(_good("gdb", facts.gdb))
    if not facts.compilers:
        checks.append(_warn("compiler", "none: no sanitizer builds", "apt-get install g++"))
    else:
        checks.append(_good("compiler", ", ".join(facts.compilers)))
    if facts.sanitizers is not None:
        return checks  # judged on their own, a compiler at a time
    if facts.compilers and not facts.sanitizer_runtimes:
        checks.append(
            _warn("sanitizers", "no shared runtime found", "apt-get install libasan8 libubsan1")
        )
    elif facts.sanitizer_runtimes:
        names = ", ".join(path.rsplit("/", 1)[-1] for path in facts.sanitizer_runtimes)
        checks.append(_good("sanitizers", names))
    return checks


def _processor(facts: MachineFacts) -> list[Check]:
    if not facts.cpu_features:
        return []
    words = ", ".join(facts.cpu_features)
    if "avx512f" not in facts.cpu_features:
        return [_good("processor", f"{words}; no AVX-512: builds for it die of SIGILL here")]
    return [_good("processor", words)]


def _good(name: str, found: str) -> Check:
    return Check(name=name, verdict=Verdict.GOOD, found=found)


def _warn(name: str, found: str, remedy: str) -> Check:
    return Check(name=name, verdict=Verdict.WARNING, found=found, remedy=remedy)


def _bad(name: str, found: str, remedy: str) -> Check:
    return Check(name=name, verdict=Verdict.BAD, found=found, remedy=remedy)


_SET_PATTERN: Final = "as root: forensics setup"
_RAISE_AS_ROOT: Final = "as root: prlimit --pid $$ --core=unlimited"
_CHECKS: Final[tuple[Callable[[MachineFacts], list[Check]], ...]] = (
    _pattern, _limit, _folder, _filter, _privileges, _container, _shared_memory, _tools,
    judge_sanitizers, _processor,
)  # fmt: skip
