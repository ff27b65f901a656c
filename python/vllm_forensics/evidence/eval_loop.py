"""The parts of CPython's evaluation loop in an interpreter without a symbol table.

`_PyEval_EvalFrameDefault` is exported, so its beginning is known. Compilers move what seldom runs
to a part of its own that has no name and its own entry in the unwind tables: of Debian's python3.14
the loop stands on stacks in 84 kB of code at 0x43fb58, far from the exported 1,184 bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from vllm_forensics.evidence.modules import ModuleFile

EVALUATION: Final = "_PyEval_EvalFrameDefault"
_MACHINE: Final = 62  # EM_X86_64
_JUMP: Final = re.compile(rb"(?=(\x0f[\x80-\x8f]|\xe9)(.{4}))", re.DOTALL)
"""Jcc rel32 and JMP rel32 (Intel SDM, volume 2), wherever their bytes stand."""
_MAX_BODY: Final = 1 << 20
_MIN_JUMPS: Final = 2
"""Into the middle of one part; bytes that only look like a jump do not agree on one."""


def loop_parts(file: ModuleFile) -> frozenset[int]:
    """Where the nameless parts begin that the exported one jumps into; unbiased addresses.

    A function jumps into the middle of no other one.
    """
    loop = file.symbol_named(EVALUATION)
    if loop is None or file.header.machine != _MACHINE or not 0 < loop.size <= _MAX_BODY:
        return frozenset()
    body = file.read(loop.address, loop.size) or b""
    jumps: Counter[int] = Counter()
    for found in _JUMP.finditer(body):
        after = loop.address + found.end(2)
        target = after + int.from_bytes(found[2], "little", signed=True)
        start = file.unwind_start(target)
        if start is not None and start != target:
            jumps[start] += 1
    return frozenset(
        start for start, count in jumps.items() if count >= _MIN_JUMPS and _is_nameless(file, start)
    )


def _is_nameless(file: ModuleFile, start: int) -> bool:
    symbol = file.function_at(start)
    return symbol is None or not symbol.name
