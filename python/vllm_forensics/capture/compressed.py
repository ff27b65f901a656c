"""Expands gzip, bzip2, xz, Zstandard and LZ4 as a stream, whatever the file is called.

Memory is bounded by the largest window that a format may ask for, time by the output. The input is
handed to a decoder in small pieces: of damaged data nearly all that came before the damage is kept.
"""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from vllm_forensics.errors import EvidenceError

PIECE: Final = 1 << 17
"""Bytes that lie in a processor's cache while a reader goes through them, more than once."""
_INPUT: Final = 1 << 12
_MAX_LAYERS: Final = 4
"""A log in .zst in a .tar.gz in a .gz: more is not a log."""
_LZMA_MEMORY: Final = 256 << 20
"""`xz -9` needs 65 MiB."""
_ZSTD_WINDOW_LOG: Final = 27
"""128 MiB, the most that `zstd -d` takes without being told to."""
_HEAD: Final = 8


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Codec(NamedTuple):
    name: str
    decoder: _Decoder
    errors: tuple[type[Exception], ...]


class Source:
    """Bytes in pieces, whose beginning can be looked at first."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """Read nothing yet."""
        self._pieces = pieces
        self._kept = b""
        self._at = 0
        self._failure: EvidenceError | None = None

    def peek(self, count: int) -> bytes:
        """The next bytes, fewer only at the end; they stay."""
        while len(self._kept) - self._at < count and self._failure is None:
            try:
                piece = next(self._pieces, b"")
            except EvidenceError as error:  # told when what came before it has been taken
                self._failure = error
                break
            if not piece:
                break
            self._kept = self._kept[self._at :] + piece
            self._at = 0
        return self._kept[self._at : self._at + count]

    def take(self, limit: int) -> bytes:
        """At least one byte and at most `limit`; none at the end.

        Raises:
            EvidenceError: the pieces could not be read on.

        """
        if self._at == len(self._kept):
            if self._failure is not None:
                raise self._failure
            self._kept, self._at = next(self._pieces, b""), 0
        taken = self._kept[self._at : self._at + limit]
        self._at += len(taken)
        return taken

    def give_back(self, data: bytes) -> None:
        """Put bytes before all others."""
        self._kept, self._at = data + self._kept[self._at :], 0

    def rest(self) -> Iterator[bytes]:
        """All that is left."""
        while piece := self.take(PIECE):
            yield piece


def expand(pieces: Iterator[bytes], layers: int = _MAX_LAYERS) -> Iterator[bytes]:
    """The bytes in pieces, expanded if their beginning says that they are compressed.

    Raises:
        EvidenceError: what is compressed is damaged or cut off, or its decoder is not installed;
            what could be read has been yielded by then.

    """
    source = Source(pieces)
    if layers == 0 or not is_compressed(source.peek(_HEAD)):
        yield from source.rest()
    else:
        yield from expand(_members(source), layers - 1)


def is_compressed(head: bytes) -> bool:
    """Is this how a compressed file begins?"""
    return any(head.startswith(magic) for magic in _MAKERS) or _skippable(head)


def inflate(source: Source) -> Iterator[bytes]:
    """A deflated stream without a header, as in a zip; what follows it stays in the source.

    Raises:
        EvidenceError: it is damaged or cut off.

    """
    yield from _member(_Codec("zip", _Inflate(-zlib.MAX_WBITS), (zlib.error,)), source)


def _skippable(head: bytes) -> bool:
    """A Zstandard frame for other uses; pzstd begins with one."""
    return head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F


def _members(source: Source) -> Iterator[bytes]:
    """Member after member: `cat a.gz b.gz`, and what pigz, pbzip2, pzstd and logrotate write."""
    while head := source.peek(_HEAD):
        maker = next((made for magic, made in _MAKERS.items() if head.startswith(magic)), None)
        if maker is None and not _skippable(head):
            raise EvidenceError(
                "could not be read to its end: something else follows what is compressed",
                remedy="cut off what follows, or copy the file once more",
            )
        yield from _member((maker or _zstd)(), source)
        padding = source.peek(_INPUT)
        while padding and not padding.strip(b"\0"):  # to a block's end, as tapes need it
            source.take(len(padding))
            padding = source.peek(_INPUT)


def _member(codec: _Codec, source: Source) -> Iterator[bytes]:
    decoder = codec.decoder
    try:
        while not decoder.eof:
            data = source.take(_INPUT) if decoder.needs_input else b""
            if not data and decoder.needs_input:
                raise EvidenceError(
                    f"could not be read to its end: the {codec.name} data is cut off",
                    remedy="copy the file once more, or wait until it is written",
                )
            piece = decoder.decompress(data, max_length=PIECE)
            if piece:
                yield piece
    except codec.errors as error:
        reason = str(error) or type(error).__name__
        raise EvidenceError(
            f"could not be read to its end: the {codec.name} data is damaged: {reason}",
            remedy="copy the file once more",
        ) from error
    source.give_back(decoder.unused_data or b"")


class _Inflate:
    """zlib's decoder with the interface of the others."""

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)
        self._full = False

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._full and not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        limit = max(max_length, 0)
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, limit)
        self._full = len(piece) == limit
        return piece


def _gzip() -> _Codec:
    return _Codec("gzip", _Inflate(zlib.MAX_WBITS | 16), (zlib.error,))


def _bzip2() -> _Codec:
    return _Codec("bzip2", bz2.BZ2Decompressor(), (OSError, ValueError))


def _xz() -> _Codec:
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY)
    return _Codec("xz", decoder, (lzma.LZMAError, MemoryError))


def _zstd() -> _Codec:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        raise _missing("Zstandard", "backports.zstd", "zstd -dc") from error
    options = {int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW_LOG}
    return _Codec("Zstandard", zstd.ZstdDecompressor(options=options), (zstd.ZstdError,))


def _lz4() -> _Codec:
    try:
        from lz4.frame import LZ4FrameDecompressor
    except ImportError as error:
        raise _missing("LZ4", "lz4", "lz4 -dc") from error
    # Its errors have no class of their own.
    return _Codec("LZ4", LZ4FrameDecompressor(), (RuntimeError, MemoryError))


def _missing(name: str, package: str, command: str) -> EvidenceError:
    return EvidenceError(
        f"is compressed with {name}, and the package for that is not installed",
        remedy=f"python -m pip install {package}    # or: {command} FILE | forensics asan -",
    )


_MAKERS: Final[dict[bytes, Callable[[], _Codec]]] = {
    b"\x1f\x8b": _gzip,
    b"BZh": _bzip2,
    b"\xfd7zXZ\0": _xz,
    b"\x28\xb5\x2f\xfd": _zstd,
    b"\x04\x22\x4d\x18": _lz4,
}
