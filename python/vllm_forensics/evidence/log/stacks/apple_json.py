"""Apple's crash reports as JSON (`.ips`): the thread that died, and the libraries of its frames.

The frames of all threads stand on one line, and name a library by its number in a list that
follows, an object over several lines for each.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.model.incident import NativeCall

TRIGGERED: Final = '"triggered":true'
_FRAMES: Final = '"frames":['
_FRAME: Final = re.compile(r"\{[^{}]{1,800}\}?")
_SYMBOL: Final = re.compile(r"\"symbol\" ?: ?\"(?P<function>[^\"]{1,400})\"")
_OFFSET: Final = re.compile(r"\"imageOffset\" ?: ?(?P<offset>\d{1,18})")
_IMAGE: Final = re.compile(r"\"imageIndex\" ?: ?(?P<index>\d{1,5})")
_NAME: Final = re.compile(r"\s*\"name\" ?: ?\"(?P<name>[^\"]{1,240})\"")
_LIST: Final = '"usedImages"'
_MAX_THREAD: Final = 40_000
_MAX_FRAMES: Final = 48
_MAX_IMAGES: Final = 5_000


class AppleThread:
    """The frames of the thread that died, whose libraries are named further down."""

    def __init__(self, text: str) -> None:
        """Begin with the line that holds the threads."""
        start = text.find(_FRAMES, text.find(TRIGGERED))
        end = text.find("}]", start, start + _MAX_THREAD)
        frames = text[start : end + 1 if end > 0 else start + _MAX_THREAD] if start >= 0 else ""
        self._calls: list[NativeCall] = []
        self._images: list[int | None] = []
        for frame in _FRAME.findall(frames)[:_MAX_FRAMES]:
            symbol, offset, image = (one.search(frame) for one in (_SYMBOL, _OFFSET, _IMAGE))
            if symbol is None and image is None:
                continue
            self._images.append(int(image["index"]) if image else None)
            self._calls.append(
                NativeCall(
                    function=symbol["function"] if symbol else None,
                    module=None,
                    offset=hex(int(offset["offset"])) if offset and image else None,
                )
            )
        self._names: dict[int, str] = {}
        self._image: int | None = None
        """The number of the object that is being read; None before the list."""

    def feed(self, text: str) -> bool:
        """Take in a line of the list of libraries."""
        if _LIST in text:
            self._image = -1
            return True
        if self._image is None or self._image > _MAX_IMAGES:
            return False
        bare = text.strip()
        if bare.startswith("{"):
            self._image += 1
        elif (match := _NAME.match(text)) is not None:
            if self._image in self._images:
                self._names[self._image] = match["name"]
        elif bare == "],":
            self._image = _MAX_IMAGES + 1
            return True
        return bare.startswith(('"', "{", "}"))

    def calls(self) -> tuple[NativeCall, ...]:
        """The frames, innermost first, with the libraries that were named."""
        return tuple(
            call if image not in self._names else replace(call, module=self._names[image])
            for call, image in zip(self._calls, self._images, strict=True)
        )
