"""Names that people give to who died and that are no programs': a library's, a function's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.known_libraries import imported_in, is_pythons
from vllm_forensics.model.incident import Clue

_DOTTED: Final = lazily(
    r"[a-z_]\w{1,40}(?:\.[A-Za-z_]\w{0,40}){0,4}\.(?!(?:py|js|mjs|cjs|ts|sh|rb|php|pl|jar|exe|bin|cpp|c|cc|rs|go|"
    r"net|io|com|org|dev|ai|app|service|socket|bat|ps1|lua|jl|R|r|ipynb|x|d|service|AppImage|so|elf|out|"
    r"test|sys|dll|run|timer|mount|slice|scope)$)[A-Za-z_]\w{2,40}"
)
"""`torch.compile`: a function, and no program's file."""
_HEAD: Final = 80
"""So many lines of a text are read for what it imports."""


def without_libraries(clues: Sequence[Clue], lines: Sequence[str]) -> list[Clue]:
    """The clues; without the name that people give where it is a library's or a function's.

    Who imports a library in Python is python.
    """
    if not any(clue.is_told and clue.name for clue in clues):
        return list(clues)
    imported = imported_in(lines[:_HEAD])
    importer = "python" if imported and is_pythons(lines[:_HEAD]) else None
    return [
        replace(clue, name=importer) if clue.is_told and _is_no_program(clue, imported) else clue
        for clue in clues
    ]


def _is_no_program(clue: Clue, imported: Collection[str]) -> bool:
    name = clue.name or ""
    return name.lower() in imported or _DOTTED.fullmatch(name) is not None
