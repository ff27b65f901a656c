"""What a live session knows of requests and contents, so that it tells only what is new."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Final

_LEAST: Final = 100_000
"""Contents that are told apart, about 150 bytes each."""


class _Outputs:
    """Of a request that keeps its output elsewhere: how many tokens it has put out."""

    __slots__ = ("_request",)

    def __init__(self, request: Any) -> None:
        self._request = request

    def __len__(self) -> int:
        count: int = self._request.num_output_tokens
        return count


class Known:
    """A request that came, and how much of it was told."""

    __slots__ = ("block_hashes", "hashes", "name", "outputs", "request")

    def __init__(self, request: Any) -> None:
        """Nothing was told."""
        self.request = request
        self.name: str = request.request_id
        own = getattr(request, "_output_token_ids", None)
        self.outputs: Sized = own if isinstance(own, list) else _Outputs(request)
        """As long as there are tokens that it has put out."""
        self.hashes = 0
        known = getattr(request, "block_hashes", None)
        self.block_hashes: list[Any] = known if isinstance(known, list) else []
        """Of its full blocks; requests have them since 0.10, in a list that grows."""


class Contents:
    """Numbers contents as they come; anew those that did not come again for long.

    A cache holds as many contents as the pool has blocks: what it can still find keeps its number.
    """

    def __init__(self) -> None:
        """None came."""
        self.most = _LEAST
        """In each of two halves; the older half is forgotten when the newer is full."""
        self._count = 0
        self._new: dict[Any, int] = {}
        self._old: dict[Any, int] = {}

    def number(self, content: Any) -> int:
        """The same for the same content."""
        number = self._new.get(content)
        if number is None:
            number = self._old.get(content)
            if number is None:
                number, self._count = self._count, self._count + 1
            self._new[content] = number
            if len(self._new) >= self.most:
                self._old, self._new = self._new, {}
        return number
