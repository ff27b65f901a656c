"""Runs the steps of a build: each logged whole, timed, and told while it goes on."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from vllm_forensics.capture.foreign_build.workspace import Workspace
from vllm_forensics.capture.process import Limits, run_program
from vllm_forensics.errors import ToolError
from vllm_forensics.model.build import Step

_LIMITS: Final = Limits(timeout_s=6 * 3600.0, output_bytes=64 << 20, core_bytes=None)
_NINJA: Final = re.compile(rb"\[(\d+)/(\d+)\] ")
_MAX_SHOWN: Final = 60
_MAX_CHARACTERS: Final = 20_000
_FAILED: Final = re.compile(
    r"^CMake Error|^[\w./-]*meson\.build:\d+:\d+: ERROR|^ERROR: |^\w*(?:Error|Exception|Exit)\b|"
    r"\berror: |\bfatal error: |^FAILED: "
)


class Watcher(Protocol):
    """Is told how the build goes on."""

    def begin(self, name: str) -> None:
        """A step begins."""

    def advance(self, done: int, total: int | None) -> None:
        """So many files are compiled, of so many where that is known."""

    def end(self, step: Step) -> None:
        """It is done."""


class Steps:
    """The steps of one build, in order."""

    def __init__(self, workspace: Workspace, watcher: Watcher) -> None:
        """Begin with an empty log."""
        self._workspace = workspace
        self._watcher = watcher
        self.done: list[Step] = []
        workspace.log.write_bytes(b"")

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        remedy: str = "the whole log is named above",
    ) -> bytes:
        """Run one program; what it printed on standard output is returned.

        Raises:
            ToolError: it failed; the message holds the compiler's own words, or else the end of
                what was printed, and names the log.

        """
        arguments = [str(one) for one in command]
        shown = shlex.join(arguments)
        started = time.monotonic()
        self._watcher.begin(name)
        with self._workspace.log.open("ab", buffering=0) as log:
            log.write(f"━━ {name}: {shown}\n".encode())

            def gather(chunk: bytes) -> None:
                log.write(chunk)
                self._tell(chunk)

            finished = run_program(
                arguments,
                limits=_LIMITS,
                cwd=cwd,
                environment=dict(environment or self._workspace.environment),
                on_output=gather,
            )
        step = Step(name=name, seconds=round(time.monotonic() - started, 2), command=shown)
        self.done.append(step)
        if finished.status != 0:
            said = (finished.stdout + b"\n" + finished.stderr).decode("utf-8", "replace")
            raise ToolError(
                f"{name} failed:\n{self._explain(said)}\n\nlog: {self._workspace.log}",
                remedy=remedy,
            )
        self._watcher.end(step)
        return finished.stdout

    def note(self, name: str, seconds: float) -> None:
        """A step that no program of its own did."""
        step = Step(name=name, seconds=round(seconds, 2))
        self.done.append(step)
        self._watcher.end(step)

    def say(self, text: str) -> None:
        """Put a remark into the log."""
        with self._workspace.log.open("ab") as log:
            log.write(f"━━ {text}\n".encode())

    def failures(self) -> str:
        """What failed calls of the compiler printed, kept by its stand-in; empty where none did."""
        paths = sorted(
            self._workspace.wrappers.failures.iterdir(), key=lambda path: path.stat().st_mtime
        )
        said = [path.read_text("utf-8", "replace").strip() for path in paths]
        words = "\n".join(one for one in said if one)
        for copy, original in self._workspace.renamed:
            words = words.replace(f"{copy}/", f"{original}/")
        return f"\n{_shortened(words)}" if words else ""

    def _tell(self, chunk: bytes) -> None:
        counted = _NINJA.findall(chunk)
        if counted:
            done, total = counted[-1]
            self._watcher.advance(int(done), int(total))
        elif self._workspace.wrappers.calls.is_dir():
            self._watcher.advance(sum(1 for _ in self._workspace.wrappers.calls.iterdir()), None)

    def _explain(self, said: str) -> str:
        """The compiler's words; where it did not fail, the lines from the first error on."""
        words = self.failures().strip()
        if words:
            return words
        lines = [line for line in said.splitlines() if line.strip()]
        first = next((at for at, line in enumerate(lines) if _FAILED.search(line)), None)
        kept = lines[-_MAX_SHOWN:] if first is None else lines[first:][:_MAX_SHOWN]
        return _shortened("\n".join(kept))


def _shortened(words: str) -> str:
    if len(words) <= _MAX_CHARACTERS:
        return words
    return words[:_MAX_CHARACTERS] + "\n… (the rest is in the log)"
