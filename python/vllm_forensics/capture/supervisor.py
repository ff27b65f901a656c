"""Runs a program under the native supervisor, and cuts cores down with it."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from site import getsitepackages
from subprocess import Popen
from typing import Final

from vllm_forensics.capture.process import Limits, find_program, run_attached, run_program
from vllm_forensics.errors import ToolError

_NAME: Final = "forensics-supervisor"
_PACKAGE: Final = Path(__file__).resolve().parent.parent
_EVENTS: Final = "events.jsonl"
_SNAPSHOT_DONE: Final = ('"event": "snapshot"', '"event": "error"')
_MAX_EVENTS: Final = 64 << 20
DEFAULT_BUDGET: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreContents:
    """What a core should hold."""

    budget_bytes: int = DEFAULT_BUDGET
    full: bool = False
    """All that the kernel's core would hold, whatever the budget."""
    secrets: bool = False
    """The environment and the arguments too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedResult:
    """The program's status as a shell sees it, and the supervisor's own words."""

    status: int
    events: str
    started_s: float = 0.0
    """When it began, on the wall clock."""
    started_monotonic_s: float = 0.0
    """The same on the monotonic clock, which the kernel's log goes by."""

    @property
    def died_of_nothing(self) -> bool:
        """Did every process end by itself, as far as the supervisor could see?"""
        interesting = ('"signal":', '"event":"core"', '"event":"error"')
        plain = self.events.replace(" ", "").replace('"signal":null', "")
        return not any(mark in plain for mark in interesting)


def supervisor_path() -> str:
    """The supervisor that was installed with the package.

    Raises:
        ToolError: it was not built for this machine.

    """
    # An editable install has its sources in one place and what was built in another.
    places = (_PACKAGE, *(Path(site) / _PACKAGE.name for site in getsitepackages()))
    for place in places:
        candidate = place / "bin" / _NAME
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = find_program(_NAME)
    if found is None:
        raise ToolError(
            "the supervisor is not in this installation",
            remedy="install a wheel for Linux on x86-64 or aarch64, or build from source",
        )
    return found


class SupervisedTree:
    """A supervised program that still runs."""

    def __init__(self, folder: Path, ask_for_snapshots: Callable[[], None]) -> None:
        """`ask_for_snapshots` makes the supervisor write a core of each process of the tree."""
        self._folder = folder
        self._ask = ask_for_snapshots

    def events(self) -> str:
        """The supervisor's lines so far."""
        return _read_events(self._folder)

    def take_snapshots(self, count: int, timeout_s: float = 20.0) -> str:
        """Have a core of every process written; returns only the lines that this added.

        `count` is how many processes there are; it waits until as many have a core, or an error.
        """
        before = len(self.events())
        self._ask()
        deadline = time.monotonic() + timeout_s
        new = ""
        while time.monotonic() < deadline and sum(map(new.count, _SNAPSHOT_DONE)) < count:
            time.sleep(0.05)
            new, _, _ = self.events()[before:].rpartition("\n")  # the last line may be half written
        return new


def run_supervised(
    command: Sequence[str],
    folder: Path,
    keep: CoreContents,
    on_tick: Callable[[SupervisedTree], None] | None = None,
    on_ask: Callable[[SupervisedTree], None] | None = None,
) -> SupervisedResult:
    """Run to the end with the terminal passed through; cores and events go to `folder`.

    `on_tick` is called about once a second while the program runs, `on_ask` when somebody sends us
    SIGUSR2; without it, that has the snapshots written and no more.

    Raises:
        ToolError: there is no supervisor.

    """
    events = folder / _EVENTS
    options = ["--output", str(folder), "--events", str(events), "--budget", str(keep.budget_bytes)]
    options += ["--full"] if keep.full else []
    options += ["--include-secrets"] if keep.secrets else []
    arguments = [supervisor_path(), *options, "--", *command]

    def with_tree(
        action: Callable[[SupervisedTree], None] | None,
    ) -> Callable[[Popen[bytes]], None] | None:
        if action is None:
            return None
        return lambda child: action(
            SupervisedTree(folder, partial(child.send_signal, signal.SIGUSR2))
        )

    wall, monotonic = time.time(), time.monotonic()
    status = run_attached(arguments, with_tree(on_tick), with_tree(on_ask))
    return SupervisedResult(
        status=status,
        events=_read_events(folder),
        started_s=wall,
        started_monotonic_s=monotonic,
    )


def _read_events(folder: Path) -> str:
    try:
        with (folder / _EVENTS).open("rb") as lines:
            return lines.read(_MAX_EVENTS).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def minify_core(core: str, target: str, *, budget: int, keep: CoreContents | None = None) -> None:
    """Cut an existing core down to what its explanation needs, and take its secrets out.

    With `keep.full` all of its memory stays, with `keep.secrets` the environment and the arguments.

    Raises:
        ToolError: there is no supervisor, or the core cannot be cut.

    """
    options = ["--budget", str(budget)]
    options += ["--full"] if keep is not None and keep.full else []
    options += ["--include-secrets"] if keep is not None and keep.secrets else []
    done = run_program(
        [supervisor_path(), "--minify", core, target, *options],
        limits=Limits(timeout_s=600.0),
    )
    if done.status != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.status}"
        raise ToolError(
            f"{core} could not be cut down: {said}",
            remedy="forensics core CORE    # says what it is; df -h: is there room?",
        )


def remove_evidence(folder: Path) -> None:
    """Remove a folder that holds nothing but the record of an uneventful run."""
    with contextlib.suppress(OSError):
        (folder / _EVENTS).unlink(missing_ok=True)
    remove_if_empty(folder)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that a run was to fill, where none was started."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def evidence_folder(wanted: Path | None) -> Path:
    """Where a run's evidence goes: the wish, else .forensics/run, else a temporary folder.

    Raises:
        ToolError: the wished folder cannot be made.

    """
    if wanted is not None:
        try:
            wanted.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ToolError(
                f"{wanted} cannot be made: {error.strerror}", remedy="give another --folder"
            ) from error
        return wanted.resolve()
    here = Path.cwd() / ".forensics" / "run"
    try:
        here.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="", dir=here))
    except OSError:  # a read-only image: the volume forbids it
        return Path(tempfile.mkdtemp(prefix="forensics-run-"))


def snapshot(pid: int, folder: Path) -> str:
    """Write a minicore of a living process, which is stopped only meanwhile.

    Raises:
        ToolError: there is no supervisor, or the process may not be looked into.

    """
    events = folder / f"snapshot.{pid}.jsonl"
    done = run_program(
        [
            supervisor_path(),
            "--snapshot",
            str(pid),
            "--output",
            str(folder),
            "--events",
            str(events),
        ],
        limits=Limits(timeout_s=60.0),
    )
    if done.status != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.status}"
        raise ToolError(
            f"no snapshot: {said}", remedy="run as its user or root; not under a tracer"
        )
    path = done.stdout.decode("utf-8", "surrogateescape").strip()
    if not path:
        raise ToolError("no snapshot: the supervisor named no file", remedy="is the disk full?")
    return path
