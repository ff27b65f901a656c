"""What a machine allows a crash to leave behind, as read and as judged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerFacts:
    """A C++ compiler and its sanitizers' shared runtimes."""

    name: str
    major: int | None
    runtimes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Those of asan, ubsan and tsan that are not here."""
    remedy: str | None = None
    """How to get them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerFacts:
    """What decides whether a sanitizer starts here."""

    compilers: tuple[CompilerFacts, ...] = ()
    preloaded: tuple[str, ...] = ()
    """LD_PRELOAD of the environment."""
    address_space_limit: int = -1
    """RLIMIT_AS in bytes; -1 is unlimited."""
    overcommit: int | None = None
    """vm.overcommit_memory: 2 refuses what is not backed by memory."""
    options: tuple[tuple[str, str, str], ...] = ()
    """Variable, option, value: ASAN_OPTIONS and its kin in the environment."""
    unwritable: tuple[str, ...] = ()
    """Values of log_path that cannot be written."""
    start: str | None = None
    """What a Python said that did not start with the runtime preloaded; empty where it did start,
    None where there is no runtime."""
    valgrind: str | None = None
    """Its version line."""
    scudo: str | None = None
    """The path of LLVM's allocator with GWP-ASan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Settings and tools as they are; None where they cannot be read here. Sizes in bytes."""

    core_pattern: str | None
    core_limit_soft: int
    """RLIMIT_CORE of this process; -1 is unlimited."""
    core_limit_hard: int
    core_uses_pid: int | None
    suid_dumpable: int | None
    coredump_filter: int | None
    working_folder: str
    is_root: bool
    core_folder: str | None
    """Where a core of a process in the working folder would land, if it is a folder at all."""
    core_folder_writable: bool | None
    core_folder_free: int | None
    container: str | None
    """What kind of container this is inside of, or None."""
    cgroup_version: int | None
    memory_limit: int | None
    shm_size: int | None
    shm_free: int | None
    ptrace_scope: int | None
    seccomp: int | None
    """The Seccomp line of /proc/self/status: 0 none, 1 strict, 2 filter."""
    gdb: str | None
    """gdb's version line."""
    gdb_has_python: bool
    compilers: tuple[str, ...]
    sanitizer_runtimes: tuple[str, ...]
    mmap_rnd_bits: int | None
    cpu_features: tuple[str, ...]
    sanitizers: SanitizerFacts | None = None


class Verdict(StrEnum):
    """How a setting bears on evidence."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One setting, judged; `remedy` is a command, empty where nothing need be done."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureProof:
    """What a child that crashed on purpose really left."""

    captured: bool
    how: str
    core: str | None = None
    core_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The doctor's answer."""

    checks: tuple[Check, ...]
    proof: CaptureProof
    """By the kernel."""
    supervised: CaptureProof
    """By `forensics run`, with a core limit of 0."""

    @property
    def is_ready(self) -> bool:
        """Will a crash in this folder leave a core that can be read?"""
        return self.proof.captured
