"""A temporary folder that is removed however its block ends."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def private_folder(prefix: str, parent: str | None = None) -> Iterator[Path]:
    """A new folder that only this user can enter, gone after the block.

    It lies in `parent`, by default the system's for temporary files.

    SIGTERM and SIGHUP, which otherwise end Python at once, become a SystemExit inside of the block
    (128 + the signal's number), so that they too leave nothing behind. Only the main thread can
    see to that.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    handled = _ENDING if threading.current_thread() is threading.main_thread() else ()
    before = {}
    try:
        before = {number: signal.signal(number, _end) for number in handled}
        yield folder
    finally:
        # A second signal must not stop the removal half way.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN) if handled else None
        for number in handled:
            signal.signal(number, signal.SIG_IGN)
        shutil.rmtree(folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)
        if handled:
            signal.signal(signal.SIGINT, interrupt)


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)
