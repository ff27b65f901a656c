"""Python frames out of cores through pystack's library, in children of their own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Final

import msgspec

from vllm_forensics.capture.process import Limits
from vllm_forensics.capture.worker_pool import Closed, WorkerPool, path_as_text
from vllm_forensics.errors import ToolError
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.python_stack import PythonFrame, PythonThread

_WORKER: Final = Path(__file__).with_name("python_worker.py")
_HEAP_BYTES: Final = 2 << 30


class _WireThread(msgspec.Struct):
    tid: int
    holds_gil: int
    frames: list[tuple[str, str, int, bool]]


class _WireAnswer(msgspec.Struct):
    threads: list[_WireThread] = []
    error: str | None = None


_DECODE: Final = msgspec.json.Decoder(_WireAnswer).decode
_ENCODE: Final = msgspec.json.Encoder().encode


def has_pystack() -> bool:
    """Is the library there? It has no wheels for every platform."""
    return _folder_of_pystack() is not None


def _folder_of_pystack() -> str | None:
    """The folder to import it from."""
    spec = importlib.util.find_spec("pystack")
    return None if spec is None or spec.origin is None else str(Path(spec.origin).parents[1])


class PythonStacks(Closed):
    """Children that read Python's own structures out of cores. Safe to share between threads."""

    def __init__(self, *, timeout_s: float = 30.0) -> None:
        """`timeout_s` is for each core."""
        # Told where pystack lies, a child need not look through all of site-packages.
        self._pool = WorkerPool(
            [sys.executable, "-I", "-S", str(_WORKER), _folder_of_pystack() or ""],
            limits=Limits(timeout_s=timeout_s, heap_bytes=_HEAP_BYTES),
        )

    def close(self) -> None:
        """End all children."""
        self._pool.close()

    def read(
        self, core: str, executable: str, folders: tuple[str, ...] = ()
    ) -> tuple[PythonThread, ...]:
        """The threads that the interpreter knows; `executable` must be the one that crashed.

        `folders` are looked through for libraries, by their file names, before their own places.

        Raises:
            ToolError: pystack finds no interpreter in the core, or did not survive it.

        """
        request = {
            "core": path_as_text(core),
            "executable": path_as_text(executable),
            "libraries": path_as_text(":".join(folders)),
        }
        try:
            answer = self._pool.ask(_ENCODE(request), _DECODE)
        except ToolError as error:
            raise ToolError(f"pystack: {error.message}", remedy=error.remedy) from error
        if answer.error is not None:
            raise ToolError(
                f"pystack found no Python frames: {answer.error}",
                remedy="the interpreter's symbols may be stripped, or its pages not in the core",
            )
        return tuple(
            PythonThread(
                tid=thread.tid,
                holds_gil=None if thread.holds_gil < 0 else thread.holds_gil > 0,
                frames=tuple(
                    PythonFrame(
                        function=function,
                        file=file or None,
                        line=line if line > 0 else None,
                        is_entry=is_entry,
                        tier=Tier.PYSTACK,
                    )
                    for function, file, line, is_entry in thread.frames
                ),
            )
            for thread in answer.threads
        )
