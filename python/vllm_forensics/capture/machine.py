"""Reads what decides whether a crash on this machine leaves evidence. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import find_program, first_line
from vllm_forensics.model.machine import MachineFacts

_COMPILERS: Final = ("g++", "clang++")
_RUNTIMES: Final = ("libasan.so", "libubsan.so", "libtsan.so")
_NOTABLE_FEATURES: Final = ("sse4_2", "avx", "avx2", "avx512f", "avx512_bf16", "amx_bf16")


def read_machine(folder: Path) -> MachineFacts:
    """Gather the facts for a program that would run in `folder`."""
    pattern = _text("/proc/sys/kernel/core_pattern")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    core_folder = core_folder_of(pattern, folder)
    gdb = first_line("gdb", "--version")
    return MachineFacts(
        core_pattern=pattern,
        core_limit_soft=soft,
        core_limit_hard=hard,
        core_uses_pid=_number("/proc/sys/kernel/core_uses_pid"),
        suid_dumpable=_number("/proc/sys/fs/suid_dumpable"),
        coredump_filter=_number("/proc/self/coredump_filter", 16),
        working_folder=str(folder),
        is_root=os.geteuid() == 0,
        core_folder=str(core_folder) if core_folder else None,
        core_folder_writable=os.access(core_folder, os.W_OK | os.X_OK) if core_folder else None,
        core_folder_free=_free(core_folder) if core_folder else None,
        container=_container(),
        cgroup_version=_cgroup_version(),
        memory_limit=_memory_limit(),
        shm_size=_size(Path("/dev/shm")),  # noqa: S108 - asked about, not written to
        shm_free=_free(Path("/dev/shm")),  # noqa: S108
        ptrace_scope=_number("/proc/sys/kernel/yama/ptrace_scope"),
        seccomp=_status_number("Seccomp"),
        gdb=gdb,
        gdb_has_python=gdb is not None and _gdb_has_python(),
        compilers=tuple(name for name in _COMPILERS if find_program(name)),
        sanitizer_runtimes=_runtimes(),
        mmap_rnd_bits=_number("/proc/sys/vm/mmap_rnd_bits"),
        cpu_features=_cpu_features(),
    )


def core_folder_of(pattern: str | None, folder: Path) -> Path | None:
    """Where core(5) puts a core of a process in `folder`; None for a pipe or an unknown pattern."""
    if not pattern or pattern.startswith("|"):
        return None
    parent, _, _ = pattern.rpartition("/")
    if "%" in parent:
        return None
    if pattern.startswith("/"):
        return Path(parent or "/")
    return folder / parent if parent else folder


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(path: str, base: int = 10) -> int | None:
    text = _text(path)
    try:
        return int(text, base) if text else None
    except ValueError:
        return None


def _status_number(name: str) -> int | None:
    match = re.search(rf"^{name}:\s*(\d+)", _text("/proc/self/status") or "", re.MULTILINE)
    return int(match.group(1)) if match else None


def _free(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free
    return None


def _size(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).total
    return None


def _container() -> str | None:
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    groups = _text("/proc/1/cgroup") or ""
    match = re.search(r"docker|kubepods|containerd|libpod|lxc", groups)
    return match.group() if match else None


def _cgroup_version() -> int | None:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return 2
    return 1 if Path("/sys/fs/cgroup/memory").exists() else None


def _memory_limit() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = _number(path)
        if limit is not None and limit < 1 << 60:
            return limit
    return None


def _gdb_has_python() -> bool:
    command = ("gdb", "-nx", "-batch", "-iex", "set auto-load off", "-ex", "python print('yes')")
    return first_line(*command) == "yes"


def _runtimes() -> tuple[str, ...]:
    """Gcc's shared runtimes; `-print-file-name` echoes the bare name where it finds none."""
    if find_program("gcc") is None:
        return ()
    found = []
    for name in _RUNTIMES:
        path = first_line("gcc", f"-print-file-name={name}")
        if path and "/" in path:
            found.append(str(Path(path).resolve()))
    return tuple(found)


def _cpu_features() -> tuple[str, ...]:
    text = _text("/proc/cpuinfo") or ""
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    present = set(match.group(1).split()) if match else set()
    return tuple(name for name in _NOTABLE_FEATURES if name in present)
