"""Keeps memory out of cores: whole pages of a buffer, marked for the kernel and the supervisor."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from vllm_forensics.errors import ToolError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Array(Protocol):
    """A NumPy array, which has the buffer protocol too; before Python 3.12 its type hides that."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's description of the array."""
        ...


# asm-generic/mman-common.h; the mmap module does not name them on every Python.
_DONTDUMP: Final = 16
_DODUMP: Final = 17


def exclude(buffer: Buffer | Array) -> int:
    """Leave the whole pages inside a buffer out of every core from now on; says how many bytes.

    Takes a NumPy array, an mmap, a bytearray, or anything else with the buffer protocol; of a torch
    tensor on the CPU, `tensor.view(torch.uint8).numpy()`. What does not fill a page stays in: its
    page holds other things too. A buffer without one whole page gives 0.

    The mark belongs to the pages, also after the buffer is freed and in children that are forked
    later: call `include` first where the memory will be used again.

    Raises:
        ValueError: the buffer is read-only, or not contiguous in C order.
        ToolError: the kernel refuses.

    """
    return _advise(buffer, _DONTDUMP)


def include(buffer: Buffer | Array) -> int:
    """Undo `exclude`; says how many bytes are in cores again.

    Raises:
        ValueError: the buffer is read-only, or not contiguous in C order.
        ToolError: the kernel refuses, as for memory of a device.

    """
    return _advise(buffer, _DODUMP)


def _advise(buffer: Buffer | Array, advice: int) -> int:
    with memoryview(cast("Buffer", buffer)) as view:
        if view.readonly:
            raise ValueError("the buffer is read-only: its pages may be shared with other data")
        if not view.c_contiguous:
            raise ValueError("the buffer is not contiguous in C order: give the array it views")
        size = view.nbytes
        if size < mmap.PAGESIZE:
            return 0
        start = ctypes.addressof(ctypes.c_char.from_buffer(view))
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    inside = (start + size) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if inside <= 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(inside), ctypes.c_int(advice)) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ToolError(
            f"the kernel does not change what cores hold of {inside} bytes: {reason}",
            remedy="only memory of the process itself can be left out, not a device's",
        )
    return inside
