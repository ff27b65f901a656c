"""Makes a machine keep cores, and puts it back as it was."""

from __future__ import annotations

import json
import os
import resource
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.host import CORE_PATTERN
from vllm_forensics.capture.proc_stat import START_TICKS, stat_fields
from vllm_forensics.errors import ToolError, UsageError

CORE_FOLDER: Final = Path("/var/tmp/forensics")  # noqa: S108 - root-owned, sticky, see make_folder
DEFAULT_PATTERN: Final = f"{CORE_FOLDER}/core.%e.%p.%t"
STATE_FILE: Final = Path("/var/lib/vllm-forensics/setup.json")
PATTERN_BYTES: Final = 127
_WRITE_ONLY: Final = 0o1733
"""Everybody may leave a core, nobody may list or remove another's; the kernel follows no links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting, before and after."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shell:
    """A process whose core limit was lifted, and its limits before, in bytes."""

    pid: int
    started: int
    """Clock ticks since the machine's start: pids come again, both together do not."""
    soft: int
    hard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    previous: str
    ours: tuple[str, ...]
    """Every pattern that was set since: whichever of them an interruption left is put back."""
    shells: tuple[_Shell, ...] = ()


def set_up(pattern: str, shell_pid: int | None) -> tuple[Change, ...]:
    """Set core_pattern, make its folder, lift the calling shell's core limit.

    Raises:
        UsageError: the pattern is empty, too long, or a pipe.
        ToolError: not permitted; nothing was changed.

    """
    unusable = not pattern or pattern.startswith("|") or "\n" in pattern or "\0" in pattern
    if unusable or len(os.fsencode(pattern)) > PATTERN_BYTES:
        raise UsageError(
            f"{pattern!r} is no usable file pattern of at most {PATTERN_BYTES} bytes",
            remedy=f"for example {DEFAULT_PATTERN}",
        )
    before = _read_pattern()
    state = _read_state()
    if state is None or before not in state.ours:
        state = _State(previous=before, ours=())
    _require_permission()
    shell = None if shell_pid is None else _look_at(shell_pid)
    changes = []
    folder = Path(pattern).parent
    if pattern.startswith("/") and "%" not in str(folder):
        changes += _make_folder(folder)
    # Written down first: killed between the two, `restore` still knows all that was.
    shells = _with_shell(state.shells, shell)
    _write_state(_State(previous=state.previous, ours=(*state.ours, pattern), shells=shells))
    _write_pattern(pattern)
    changes.append(Change(name="core_pattern", before=before, after=_read_pattern()))
    if shell is not None:
        changes += _lift_limit(shell)
    return tuple(changes)


def restore() -> tuple[Change, ...]:
    """Put core_pattern back, if the present value is the one that `set_up` set, and core limits.

    A limit is put back where its process still runs and nobody else changed it since.

    Raises:
        ToolError: nothing to restore, changed by somebody else since, or not permitted.

    """
    state = _read_state()
    if state is None:
        raise ToolError("nothing was set up here", remedy="forensics setup sets core_pattern")
    before = _read_pattern()
    if before not in (*state.ours, state.previous):
        raise ToolError(
            f"core_pattern is {before!r} now, not {state.ours[-1]!r}: "
            "somebody else changed it since",
            remedy=f"as root, if you mean it: sysctl -w 'kernel.core_pattern={state.previous}'",
        )
    _require_permission()
    _write_pattern(state.previous)
    changes = [Change(name="core_pattern", before=before, after=_read_pattern())]
    for shell in state.shells:
        changes += _lower_limit(shell)
    STATE_FILE.unlink()
    return tuple(changes)


def _make_folder(folder: Path) -> list[Change]:
    """Make the folder, or take our own as it is; somebody else's folder keeps its rights."""
    if folder.is_symlink():
        raise ToolError(f"{folder} is a link", remedy="give another --pattern")
    existed = folder.exists()
    if existed and folder != CORE_FOLDER:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before, after = _give_rights(folder)
    except OSError as error:
        raise ToolError(
            f"{folder} cannot be used: {error.strerror}; nothing was changed",
            remedy="give another --pattern",
        ) from error
    changed = before != after or not existed
    shown = oct(before) if existed else "not there"
    return [Change(name=str(folder), before=shown, after=oct(after))] if changed else []


def _give_rights(folder: Path) -> tuple[int, int]:
    """Set 1733 on a folder of ours, whatever it is swapped for meanwhile; rights before, after.

    Its parent is open to all: who made the folder before us could list and replace every core.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise ToolError(
                f"{folder} belongs to user {found.st_uid}, who could read every core in it",
                remedy=f"as root, after a look into it: chown root:root {shlex.quote(str(folder))}",
            )
        os.fchmod(descriptor, _WRITE_ONLY)
        return found.st_mode & 0o7777, os.fstat(descriptor).st_mode & 0o7777
    finally:
        os.close(descriptor)


def _look_at(pid: int) -> _Shell | None:
    fields = stat_fields(Path(f"/proc/{pid}"))
    if fields is None:
        return None
    try:
        soft, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
    except OSError:
        return None
    return _Shell(pid=pid, started=int(fields[START_TICKS]), soft=soft, hard=hard)


def _lives(shell: _Shell) -> bool:
    now = _look_at(shell.pid)
    return now is not None and now.started == shell.started


def _with_shell(known: tuple[_Shell, ...], shell: _Shell | None) -> tuple[_Shell, ...]:
    """Of a shell that set up twice, the limits before the first time count."""
    alive = tuple(other for other in known if _lives(other))
    if shell is None or any(other.pid == shell.pid for other in alive):
        return alive
    return (*alive, shell)


def _lift_limit(shell: _Shell) -> list[Change]:
    """Lift the hard limit too where that is allowed (CAP_SYS_RESOURCE), else the soft one to it."""
    for limits in ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (shell.hard, shell.hard)):
        if _set_limit(shell, limits):
            break
    now = _look_at(shell.pid)
    if now is None:
        return []
    after = _limit_text(now.soft)
    if now.soft == 0:
        after += ": the hard limit is 0, and only CAP_SYS_RESOURCE may raise it"
    return [Change(name=_limit_of(shell), before=_limit_text(shell.soft), after=after)]


def _lower_limit(shell: _Shell) -> list[Change]:
    now = _look_at(shell.pid)
    ours = {resource.RLIM_INFINITY, shell.hard}
    if now is None or now.started != shell.started or now.soft not in ours:
        return []
    if now.soft == shell.soft or not _set_limit(shell, (shell.soft, shell.hard)):
        return []
    before, after = _limit_text(now.soft), _limit_text(shell.soft)
    return [Change(name=_limit_of(shell), before=before, after=after)]


def _set_limit(shell: _Shell, limits: tuple[int, int]) -> bool:
    try:
        resource.prlimit(shell.pid, resource.RLIMIT_CORE, limits)
    except (OSError, ValueError):
        return False
    return True


def _limit_of(shell: _Shell) -> str:
    return f"core limit of the shell (pid {shell.pid})"


def _limit_text(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else f"{value} bytes"


def _require_permission() -> None:
    if not os.access(CORE_PATTERN, os.W_OK):
        raise ToolError(
            "core_pattern may not be changed by this user; nothing was changed",
            remedy="sudo forensics setup; without root: forensics run -- COMMAND",
        )


def _read_pattern() -> str:
    try:
        return os.fsdecode(CORE_PATTERN.read_bytes()).rstrip("\n")
    except OSError as error:
        raise ToolError("core_pattern cannot be read", remedy="is /proc mounted?") from error


def _write_pattern(pattern: str) -> None:
    try:
        CORE_PATTERN.write_bytes(os.fsencode(pattern))
    except OSError as error:
        raise ToolError(
            f"the kernel refuses the core_pattern {pattern!r}: {error.strerror}",
            remedy=f"for example {DEFAULT_PATTERN}",
        ) from error


def _read_state() -> _State | None:
    try:
        raw = json.loads(STATE_FILE.read_text(encoding="utf-8"))
        ours = tuple(str(pattern) for pattern in raw["ours"])
        shells = tuple(_Shell(**entry) for entry in raw.get("shells", ()))
        return _State(previous=str(raw["previous"]), ours=ours, shells=shells) if ours else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_state(state: _State) -> None:
    """All or nothing: half a file would lose what the pattern was before."""
    draft = STATE_FILE.with_suffix(".new")
    try:
        STATE_FILE.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(asdict(state)), encoding="utf-8")
        draft.replace(STATE_FILE)
    except OSError as error:
        raise ToolError(
            f"{STATE_FILE} cannot be written, so nothing was changed: {error.strerror}",
            remedy="make room or mount /var/lib writable",
        ) from error
