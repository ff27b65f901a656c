"""Where a live engine's trace goes: private files of bounded size, whole up to the last write.

Each write is one call of the kernel, which keeps what it was given however the process ends: a
SIGSEGV or SIGKILL after it loses nothing. A trace that grows too long goes on in a new segment, and
only the last two are kept, since what matters of a crash is its end.
"""

from __future__ import annotations

import os
from pathlib import Path


class TraceFile:
    """One process's trace. Not safe for use from several threads at once."""

    def __init__(self, folder: str, *, limit_bytes: int) -> None:
        """Open the first segment in `folder`, which is made if it is not there.

        `limit_bytes` is what all segments together may take.

        Raises:
            OSError: the folder or a file in it cannot be made.

        """
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._limit = limit_bytes // 2
        # What comes after a fork is the parent's alone to tell.
        os.register_at_fork(after_in_child=self.close)
        self._pid = os.getpid()
        self._run = 0
        self._paths: list[Path] = []
        self._descriptor = -1
        self._size = 0
        self.segment = 0
        """Which one is being written; the first is 1."""
        self.next_segment()

    @property
    def path(self) -> Path:
        """The segment that is being written."""
        return self._paths[-1]

    @property
    def full(self) -> bool:
        """Whether it is time for the next segment."""
        return self._size >= self._limit

    def next_segment(self) -> None:
        """Go on in a new file, and remove the one before the last."""
        self.close()
        self.segment += 1
        self._size = 0
        self._descriptor, path = self._opened()
        self._paths.append(path)
        while len(self._paths) > 2:
            self._paths.pop(0).unlink(missing_ok=True)

    def _opened(self) -> tuple[int, Path]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            # A second engine of one process, or a process that has an earlier one's number.
            run = f".{self._run}" if self._run else ""
            path = self._folder / f"vllm-{self._pid}{run}-{self.segment}.jsonl"
            try:
                return os.open(path, flags, 0o600), path
            except FileExistsError:
                self._run += 1

    def write(self, data: bytes) -> None:
        """Append.

        Raises:
            OSError: nothing more can be written.

        """
        if self._descriptor < 0:
            return
        self._size += len(data)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        """Write no more."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
