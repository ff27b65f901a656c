"""The nameless part of CPython's evaluation loop in an interpreter without a symbol table.

`_PyEval_EvalFrameDefault` is exported, so its beginning is known. Compilers move what seldom runs
to a part of its own that has no name and its own entry in the unwind tables: of Debian's python3.14
the loop stands on stacks in 84 kB of code at 0x43fb58, far from the exported 1,184 bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from vllm_forensics.evidence.modules import ModuleFile

EVALUATION: Final = "_PyEval_EvalFrameDefault"
_MACHINE: Final = 62  # EM_X86_64
_JUMP: Final = re.compile(rb"(?=(\x0f[\x80-\x8f]|\xe9)(.{4}))", re.DOTALL)
"""Jcc rel32 and JMP rel32 (Intel SDM, volume 2), wherever their bytes stand."""
_MAX_BODY: Final = 1 << 20
_MAX_JUMPS: Final = 1024
_MIN_JUMPS: Final = 2


def loop_part(file: ModuleFile) -> int | None:
    """Where the nameless part begins that the exported one jumps into; unbiased.

    A function jumps into the middle of no other one, and has one such part. Bytes that only look
    like jumps lead here and there: of 617 in Debian's python3.11, 378 into the part, 31 behind the
    end of all code.
    """
    loop = file.symbol_named(EVALUATION)
    if loop is None or file.header.machine != _MACHINE or not 0 < loop.size <= _MAX_BODY:
        return None
    body = file.read(loop.address, loop.size) or b""
    jumps: Counter[int] = Counter()
    for target in islice(_targets_outside(body, loop.address), _MAX_JUMPS):
        start = file.unwind_start(target)
        if start is not None and start != target:
            jumps[start] += 1
    for part, count in jumps.most_common(1):
        is_plain = count >= _MIN_JUMPS and 2 * count > jumps.total()
        return part if is_plain and _is_nameless(file, part) else None
    return None


def _targets_outside(body: bytes, start: int) -> Iterator[int]:
    """Where its jumps lead, of those that leave it."""
    for found in _JUMP.finditer(body):
        target = start + found.end(2) + int.from_bytes(found[2], "little", signed=True)
        if not start <= target < start + len(body):
            yield target


def _is_nameless(file: ModuleFile, start: int) -> bool:
    symbol = file.function_at(start)
    return symbol is None or not symbol.name
