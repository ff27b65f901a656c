"""One gdb over its machine interface (GDB manual, "The gdb/mi Interface").

The transport is our own: every command carries a token and is answered when the result with that
token arrives; both pipes are drained, so that gdb never waits for us; a deadline ends it with
SIGKILL, since gdb ignores SIGTERM while it opens a file. Nothing that the core names is opened: a
sysroot that does not exist hides the core's own paths, and files are handed over through links in a
private folder.
"""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import Final, Self

from vllm_forensics.capture.packages import DEBUG_FOLDER
from vllm_forensics.capture.process import (
    Limits,
    end_group,
    find_program,
    plain_environment,
    started,
)
from vllm_forensics.errors import ToolError
from vllm_forensics.model.process import Architecture

_HARDENING: Final = (
    "-iex", "set auto-load off",
    "-iex", "set debuginfod enabled off",
    "-iex", "set auto-solib-add off",
    "-iex", "set sysroot /nonexistent",
)  # fmt: skip
_SETTINGS: Final = (
    "confirm off", "pagination off", "width 0", "height 0", "print elements 128", "print repeats 8",
    "print max-depth 4", "max-value-size 65536", "print static-members off",
    "python print-stack none", "print frame-arguments all", "print asm-demangle on",
    "backtrace limit 100000",
)  # fmt: skip
_PRINTERS: Final = "/usr/share/gcc/python"
_MEMORY: Final = 16 << 30
_CHUNK: Final = 1 << 16
_OFFERED: Final = "debug"
_INDEXES: Final = "indexes"
_OWN: Final = {
    "x86_64": {Architecture.X86_64, Architecture.I386},
    "i686": {Architecture.I386},
    "aarch64": {Architecture.AARCH64},
    "riscv64": {Architecture.RISCV64},
    "ppc64le": {Architecture.PPC64LE},
    "s390x": {Architecture.S390X},
}
"""What a distribution's plain gdb reads, by the machine that it runs on."""


def gdb_for(architecture: Architecture) -> str:
    """The name of the gdb that reads cores of an architecture on this machine."""
    return "gdb" if architecture in _OWN.get(platform.machine(), ()) else "gdb-multiarch"


class GdbSession:
    """A gdb that was told nothing by its user's files and fetches nothing.

    Use it as a context manager; it is gone afterwards, whatever happened.
    """

    def __init__(self, *, timeout_s: float = 60.0, program: str = "gdb") -> None:
        """Keep the settings; gdb starts when the block is entered. `timeout_s` is per command."""
        self._timeout_s = timeout_s
        self._program = program
        self._token = 0
        self._buffer = bytearray()
        self._stack = contextlib.ExitStack()
        self._child: Popen[bytes] | None = None
        self._folder: Path | None = None
        self._links = 0

    def __enter__(self) -> Self:
        """Start gdb.

        Raises:
            ToolError: gdb is not installed, or did not come up in time.

        """
        path = find_program(self._program)
        if path is None:
            raise ToolError(
                f"{self._program} is not installed",
                remedy=f"apt-get install {self._program}    # the values of variables need it",
            )
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="forensics-gdb-"))
            limits = Limits(timeout_s=self._timeout_s, memory_bytes=_MEMORY)
            command = (path, "-nx", "-q", "--interpreter=mi3", *_HARDENING)
            self._child = stack.enter_context(
                started(command, limits=limits, environment=plain_environment({"TERM": "dumb"}))
            )
            self._folder = Path(folder)
            for setting in _SETTINGS:
                self.command(f"-gdb-set {setting}")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End gdb and remove its folder."""
        self._child = None
        self._stack.close()

    def link(self, path: str) -> str:
        """A name for a file that needs no quoting: a link in the session's own folder."""
        if self._folder is None:
            raise ToolError("gdb is not running", remedy="this is a defect: report it")
        self._links += 1
        link = self._folder / f"file{self._links}"
        # Not where it leads: behind /proc/PID/fd there may be a file that has no name.
        link.symlink_to(os.path.abspath(path))  # noqa: PTH100 - also for str with surrogates
        return str(link)

    @property
    def debug_folders(self) -> str:
        """Where gdb looks for separate debug information, as its `debug-file-directory` has it."""
        own = self._folder and self._folder / _OFFERED
        return f"{own}:{DEBUG_FOLDER}" if own and own.is_dir() else str(DEBUG_FOLDER)

    def offer_debug_file(self, build_id: str, path: str) -> None:
        """Let gdb find a build's debug information when it reads that build's module.

        gdb looks for it by build-id, and checks the build-id of what it finds.
        """
        if self._folder is None:
            raise ToolError("gdb is not running", remedy="this is a defect: report it")
        offer_debug_file(self._folder / _OFFERED, build_id, path)
        self.console(f"set debug-file-directory {self.debug_folders}")

    @contextlib.contextmanager
    def offered_index(self, build_id: str, index: bytes) -> Iterator[None]:
        """Let gdb read a build's debug information by a given index, in the block."""
        if self._folder is None:
            raise ToolError("gdb is not running", remedy="this is a defect: report it")
        folder = self._folder / _INDEXES
        folder.mkdir(exist_ok=True)
        (folder / f"{build_id}.gdb-index").write_bytes(index)
        self.console(f"set index-cache directory {folder}")
        self.console("set index-cache enabled on")
        try:
            yield
        finally:
            # Left on, gdb would write indexes of what it reads next.
            self.console("set index-cache enabled off")

    def command(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        """Send one MI command and return every line up to and with its result.

        Raises:
            ToolError: no result in time, too much output, or gdb died; gdb is ended then.

        """
        child = self._child
        if child is None or child.stdin is None:
            raise ToolError("gdb is not running any more", remedy="see the first message about gdb")
        self._token += 1
        deadline = time.monotonic() + (timeout_s or self._timeout_s)
        try:
            child.stdin.write(f"{self._token}{text}\n".encode("utf-8", "surrogateescape"))
            return list(self._lines(child, f"{self._token}^".encode(), deadline, text))
        except (OSError, ToolError) as error:
            self._child = None
            end_group(child)
            if isinstance(error, ToolError):
                raise
            raise ToolError(
                f"gdb died at {text.split()[0]}",
                remedy="try gdb by hand: forensics core --gdb CORE",
            ) from error

    def console(self, text: str, *, timeout_s: float | None = None) -> list[str]:
        """Run a command of gdb's command line; see `command`."""
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return self.command(f'-interpreter-exec console "{quoted}"', timeout_s=timeout_s)

    def load_printers(self) -> list[str]:
        """Let gdb print C++ containers readably, with the printers of this machine's gcc.

        They are installed system files; those that a core's libraries would bring are never loaded.
        """
        if not Path(_PRINTERS, "libstdcxx").is_dir():
            return []
        code = (
            f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, '{_PRINTERS}'); "
            "from libstdcxx.v6.printers import register_libstdcxx_printers as r; r(None)"
        )
        return self.console(f"python {code}")

    def _lines(
        self, child: Popen[bytes], result: bytes, deadline: float, text: str
    ) -> Iterator[str]:
        gathered = 0
        with selectors.DefaultSelector() as selector:
            for pipe, is_output in ((child.stdout, True), (child.stderr, False)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, is_output)
            while True:
                for line in self._complete_lines():
                    yield line.decode("utf-8", "replace").rstrip("\r")
                    if line.startswith(result):
                        return
                gathered += self._fill(selector, deadline, text.split()[0])
                if gathered > Limits().output_bytes:
                    raise ToolError(
                        f"gdb printed more than {Limits().output_bytes >> 20} MiB",
                        remedy="look at this core by hand: forensics core --gdb CORE",
                    )

    def _complete_lines(self) -> Iterator[bytes]:
        """Take the finished lines out of the buffer, one at a time."""
        end = self._buffer.find(b"\n")
        while end >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            yield line
            end = self._buffer.find(b"\n")

    def _fill(self, selector: selectors.BaseSelector, deadline: float, command: str) -> int:
        """Wait for gdb and drain both pipes once; how many bytes came."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise ToolError(
                f"gdb did not answer {command} in time",
                remedy="raise --timeout; a huge program's debug information takes long to read",
            )
        size_bytes = 0
        for event, _ in selector.select(left):
            chunk = os.read(event.fd, _CHUNK)
            if not chunk and event.data:
                raise ToolError(
                    f"gdb ended while it worked on {command}",
                    remedy="try gdb by hand: forensics core --gdb CORE",
                )
            if not chunk:
                selector.unregister(event.fileobj)
            if event.data:
                self._buffer += chunk
            size_bytes += len(chunk)
        return size_bytes


def offer_debug_file(folder: Path, build_id: str, path: str) -> None:
    """Put a link into `folder` where gdb looks for a build: .build-id/ab/cdef.debug."""
    link = folder / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        # Not where it leads: behind /proc/PID/fd there may be a file that has no name.
        link.symlink_to(os.path.abspath(path))  # noqa: PTH100 - also for str with surrogates


def interactive_arguments(
    core: str,
    program: str | None,
    modules: list[tuple[str, int]],
    debug_folder: Path | None = None,
    gdb: str = "gdb",
) -> list[str]:
    """The command line of a gdb for a person, with the same care and everything loaded.

    `modules` are path and load bias of the files that match the core. `debug_folder` holds debug
    information beside the system's, in the layout of `offer_debug_file`.
    """
    arguments = [gdb, "-nx", "-q", *_HARDENING]
    if debug_folder is not None:
        arguments += ["-iex", f"set debug-file-directory {debug_folder}:{DEBUG_FOLDER}"]
    for setting in ("print pretty on", "confirm off"):
        arguments += ["-iex", f"set {setting}"]
    if program is not None:
        arguments += ["--exec", program, "--symbols", program]
    arguments += ["--core", core]
    for path, bias in modules:
        quoted = path.replace("\\", "\\\\").replace('"', '\\"')
        arguments += ["-ex", f'add-symbol-file "{quoted}" -o {bias:#x}']
    return [*arguments, "-ex", "set confirm on", "-ex", "bt"]
