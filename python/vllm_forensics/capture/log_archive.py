"""Opens the members of a .zip or a .tar as logs: what CI systems and `kubectl cp` hand over.

A tar is read once, as a stream; only its headers are interpreted, and no name in it is used as a
path. Both are bounded in memory, whatever their headers claim.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from lzma import LZMAError
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from vllm_forensics.capture.compressed import PIECE, Source, inflate
from vllm_forensics.errors import EvidenceError

if TYPE_CHECKING:
    import zipfile

ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_MAX_MEMBERS: Final = 10_000
_MAX_DIRECTORY: Final = 16 << 20
"""Of a zip's list of members; the library keeps it all in memory."""
_MAX_NAME: Final = 1 << 16
_BLOCK: Final = 512
_END_OF_ZIP: Final = 22 + 0xFFFF + 20 + 56


class Member(NamedTuple):
    """One file; its bytes must be read before the next is asked for."""

    name: str
    pieces: Iterator[bytes]


def is_tar(head: bytes) -> bool:
    """Is this block the header of a tar's first member?"""
    return len(head) >= _BLOCK and _checksum_holds(head[:_BLOCK])


def tar_members(source: Source) -> Iterator[Member]:
    """The regular files of a tar, in its order.

    Raises:
        EvidenceError: a header is damaged, the tar is cut off, or it has too many members.

    """
    name, size, count = "", -1, 0
    while header := _block(source):
        if not header.strip(b"\0"):
            return
        if not _checksum_holds(header):
            raise EvidenceError(
                f"could not be read to its end: the header after {count} members is damaged",
                remedy="tar -tf FILE says what can be read",
            )
        kind = header[156:157]
        length = _number(header[124:136])
        if kind in b"Lx" and kind:
            said = _read(source, length)
            if kind == b"L":
                name = said.rstrip(b"\0").decode("utf-8", "replace")
            else:
                name, size = _pax(said, name)
            continue
        known = name or _name(header)
        length = size if size >= 0 else length
        rest = _Body(source, length)
        if kind in {b"0", b"\0", b"7"}:
            count += 1
            _check_count(count)
            yield Member(known, rest.pieces())
        rest.skip()
        name, size = "", -1


def has_zip_directory(stream: IO[bytes]) -> bool:
    """Is the file itself a zip, with the list of its members at its end?"""
    if not stream.seekable():
        return False
    import zipfile

    stream.seek(0)
    found = stream.read(4).startswith(ZIP_MAGICS) and zipfile.is_zipfile(stream)
    stream.seek(0)
    return found


def zip_members(stream: IO[bytes]) -> Iterator[Member]:
    """The files of a zip, in its order.

    Raises:
        EvidenceError: it is damaged, encrypted, or its list of members is too long.

    """
    import zipfile  # costs as much as the whole reader of logs, which seldom needs it

    _check_directory(stream)
    try:
        with zipfile.ZipFile(stream) as archive:
            for count, entry in enumerate(archive.infolist(), start=1):
                _check_count(count)
                if not entry.is_dir():
                    yield Member(entry.filename, _unzipped(archive, entry))
    except (zipfile.BadZipFile, ValueError, struct.error, OSError) as error:
        raise EvidenceError(
            f"is a damaged zip: {error}", remedy="unzip -l FILE says what can be read"
        ) from error


def streamed_zip_members(source: Source) -> Iterator[Member]:
    """The files of a zip that comes through a pipe or lost its end, by the headers before each.

    Raises:
        EvidenceError: it is damaged, cut off, or its files are encrypted or stored without a size.

    """
    count = 0
    told: list[EvidenceError] = []
    while source.peek(4) == b"PK\x03\x04":
        header = _taken(source, 30)
        if len(header) < 30:
            return
        flags, method = struct.unpack_from("<HH", header, 6)
        (stored,) = struct.unpack_from("<I", header, 18)
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        name = _taken(source, name_length).decode("utf-8", "replace")
        _taken(source, extra_length)
        if flags & 1 or method not in {0, 8} or (method == 0 and flags & 8):
            raise EvidenceError(
                f"cannot be read as a stream after {count} files",
                remedy="save it to a file, and give that",
            )
        count += 1
        _check_count(count)
        body = inflate(source) if method == 8 else _Body(source, stored, block=1).pieces()
        body = _noting(body, told)
        if not name.endswith("/"):
            yield Member(name, body)
        if not told:
            deque(body, maxlen=0)  # what nobody has read
        if told:
            return
        if flags & 8:
            _skip_descriptor(source)
    if not source.peek(4).startswith((b"PK\x01\x02", b"PK\x05\x06")):
        raise EvidenceError(
            f"could not be read to its end: the zip is damaged or cut off after {count} files",
            remedy="copy the archive once more",
        )


def _noting(pieces: Iterator[bytes], told: list[EvidenceError]) -> Iterator[bytes]:
    """The pieces, and in `told` what their reader was told about their end."""
    try:
        yield from pieces
    except EvidenceError as error:
        told.append(error)
        raise


def _skip_descriptor(source: Source) -> None:
    """The checksum and sizes that follow a file whose size was not known before it."""
    following = source.peek(28)
    start = 4 if following.startswith(b"PK\x07\x08") else 0
    short, long = start + 12, start + 20
    _taken(source, long if following[long : long + 2] == b"PK" else short)


def _taken(source: Source, count: int) -> bytes:
    data = source.peek(count)
    left = len(data)
    while left:
        left -= len(source.take(left))
    return data


def _unzipped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    import zipfile

    try:
        with archive.open(entry) as member:
            while piece := member.read(PIECE):
                yield piece
    except (
        *(zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError),
        *(ValueError, RuntimeError, NotImplementedError),  # encrypted; an unknown method
    ) as error:
        raise EvidenceError(
            f"could not be read to its end: {error}", remedy="unzip the archive, and give the file"
        ) from error


def _check_count(count: int) -> None:
    if count > _MAX_MEMBERS:
        raise EvidenceError(
            f"holds more than {_MAX_MEMBERS:,} files; the rest was not read",
            remedy="unpack it, and give the files that matter",
        )


def _check_directory(stream: IO[bytes]) -> None:
    """Refuse a list of members that would not fit in memory, as the archive's end states it."""
    end = stream.seek(0, 2)
    stream.seek(max(0, end - _END_OF_ZIP))
    tail = stream.read(_END_OF_ZIP)
    stream.seek(0)
    at = tail.rfind(b"PK\x05\x06")
    size = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    large = tail.rfind(b"PK\x06\x06")
    if large >= 0:
        size = max(size if size != 0xFFFFFFFF else 0, *_large_size(tail, large))
    if size > _MAX_DIRECTORY:
        raise EvidenceError(
            f"is a zip whose list of members takes {size >> 20} MiB",
            remedy="unpack it, and give the files that matter",
        )


def _large_size(tail: bytes, at: int) -> tuple[int, int]:
    return 0, int.from_bytes(tail[at + 40 : at + 48], "little")


class _Body:
    """What follows a header: the file's bytes, then zeros to the next block."""

    def __init__(self, source: Source, length: int, block: int = _BLOCK) -> None:
        self._source = source
        self._left = length
        self._padding = -length % block

    def pieces(self) -> Iterator[bytes]:
        while self._left > 0:
            piece = self._source.take(min(self._left, PIECE))
            if not piece:
                raise EvidenceError(
                    "could not be read to its end: the archive is cut off",
                    remedy="copy the archive once more",
                )
            self._left -= len(piece)
            yield piece

    def skip(self) -> None:
        """Read on to the next header."""
        left = self._left + self._padding
        while left > 0:
            taken = self._source.take(min(left, PIECE))
            if not taken:
                return
            left -= len(taken)
        self._left = 0


def _read(source: Source, length: int) -> bytes:
    body = _Body(source, length)
    said = b""
    for piece in body.pieces():
        said += piece[: max(0, _MAX_NAME - len(said))]
    body.skip()
    return said


def _block(source: Source) -> bytes:
    return _taken(source, _BLOCK) if len(source.peek(_BLOCK)) == _BLOCK else b""


def _checksum_holds(header: bytes) -> bool:
    stated = header[148:156].strip(b" \0")
    if not stated or not all(0x30 <= digit <= 0x37 for digit in stated):
        return False
    return int(stated, 8) == sum(header[:148]) + 8 * 0x20 + sum(header[156:])


def _number(field: bytes) -> int:
    """Octal digits, or with its top bit set a binary number; what is neither counts as nothing."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else 0
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and all(0x30 <= digit <= 0x37 for digit in digits) else 0


def _name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "replace")


def _pax(said: bytes, name: str) -> tuple[str, int]:
    """`path` and `size` of a pax header: records of `LENGTH KEY=VALUE` and a newline."""
    size = -1
    while said:
        digits, _, _ = said.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 8 else 0
        if length <= len(digits) + 1:
            break
        key, _, value = said[len(digits) + 1 : length].rstrip(b"\n").partition(b"=")
        said = said[length:]
        if key == b"path":
            name = value.decode("utf-8", "replace")
        elif key == b"size" and value.isdigit() and len(value) < 19:
            size = int(value)
    return name, size
