"""Text that must wait for its turn, kept out of memory: a file without a name, gone afterwards."""

from __future__ import annotations

import contextlib
import tempfile
from typing import Final

from vllm_forensics.capture.worker_pool import Closed
from vllm_forensics.errors import ToolError

_IN_MEMORY: Final = 4 << 20

Place = tuple[int, int]
"""Where a text lies, and how many bytes it has."""


class Spool(Closed):
    """Texts by the places that they were given; the first few megabytes stay in memory."""

    def __init__(self) -> None:
        """No file is made yet."""
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._end = 0

    def put(self, text: str) -> Place:
        """Keep a text.

        Raises:
            ToolError: there is no room.

        """
        data = text.encode("utf-8", "surrogatepass")
        try:
            self._file.seek(self._end)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise ToolError(
                f"what waits to be printed cannot be kept in {tempfile.gettempdir()}: "
                f"{error.strerror}",
                remedy="TMPDIR=/another/folder, or --depth stack, which prints at once",
            ) from error
        place = (self._end, len(data))
        self._end += len(data)
        return place

    def get(self, place: Place) -> str:
        """The text that was given this place."""
        self._file.seek(place[0])
        return self._file.read(place[1]).decode("utf-8", "surrogatepass")

    def close(self) -> None:
        """Forget all."""
        with contextlib.suppress(OSError):  # what found no room finds none now
            self._file.close()
