"""Reads what the compiler's stand-in wrote down of each call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vllm_forensics.model.build import CompilerCall

_SEPARATOR: Final = b"\x1f"


def parse_compiler_calls(records: Iterable[bytes]) -> tuple[CompilerCall, ...]:
    """Calls out of records of lines: a folder and arguments, each ended by 0x1f.

    A line that an argument with a line break tore apart holds no folder, and is passed over.
    """
    calls = []
    for record in records:
        for line in record.splitlines():
            folder, *arguments = line.split(_SEPARATOR)[:-1] or (b"",)
            if folder.startswith(b"/") and arguments:
                calls.append(
                    CompilerCall(
                        folder=_text(folder), arguments=tuple(_text(one) for one in arguments)
                    )
                )
    return tuple(calls)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
