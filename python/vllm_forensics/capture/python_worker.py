"""The child that calls pystack: a hostile core may crash it, and then costs nobody else anything.

It has a process of its own, apart from `unwind_worker.py`: pystack brings its own libdw. It is
started by its file name, without site-packages, with the folder that pystack lies in. The protocol
is `worker_pool.py`'s, with JSON in the frames.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any, Final

sys.path.append(sys.argv[1])
gc.disable()  # it makes little, and what it imports is no garbage

from pystack.engine import NativeReportingMode, get_process_threads_for_core  # noqa: E402
from pystack.errors import PystackError  # noqa: E402

_MAX_FRAMES: Final = 1000


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    # pystack's C++ side may print: only the answers belong on the pipe.
    sys.stdout = sys.stderr
    while len(head := requests.read(4)) == 4:
        request = json.loads(requests.read(int.from_bytes(head, "big")))
        body = json.dumps(_answer(request)).encode()
        answers.write(len(body).to_bytes(4, "big") + body)
        answers.flush()


def _answer(request: dict[str, str]) -> dict[str, Any]:
    try:
        threads = get_process_threads_for_core(
            _path(request["core"]),
            _path(request["executable"]),
            library_search_path=_path(request["libraries"]) or None,
            native_mode=NativeReportingMode.OFF,
        )
        return {"threads": [_thread(thread) for thread in threads]}
    except (PystackError, RuntimeError, OSError, ValueError) as error:
        return {"error": str(error) or type(error).__name__}


def _thread(thread: Any) -> dict[str, Any]:
    frames = []
    begins = False
    for frame in thread.all_frames:  # the outermost first
        # Since 3.12 a shim, which is no function, stands where C code entered the interpreter.
        begins = begins or frame.is_entry
        if frame.is_shim:
            continue
        frames.append((frame.code.scope, frame.code.filename, frame.code.location.lineno, begins))
        begins = False
    return {
        "tid": thread.tid,
        "holds_gil": thread.holds_the_gil,
        "frames": frames[::-1][:_MAX_FRAMES],
    }


def _path(text: str) -> str:
    """Paths come as one character a byte: they need not be UTF-8."""
    return text.encode("latin-1").decode(sys.getfilesystemencoding(), "surrogateescape")


if __name__ == "__main__":
    main()
