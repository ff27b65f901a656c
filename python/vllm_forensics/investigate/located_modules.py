"""The file on this machine that stands for a module that a log names, and how sure that is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from vllm_forensics.capture import files
from vllm_forensics.capture.debug_link import linked_debug_file
from vllm_forensics.capture.packages import debug_file
from vllm_forensics.capture.system_libraries import system_library
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.elf import text_at
from vllm_forensics.evidence.modules import ModuleFile, parse_module
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.locations import Certainty

_BUILD_ID: Final = re.compile(r"(?:[0-9a-f]{2}){2,64}")
_MAX_BYTES: Final = 16 << 30
_PUT_BACK: Final = "put the build that ran back there, or give its folder: --symbols DIR"


class FilesByBuildId(Protocol):
    """Files that the user gave, found by build-id."""

    def module_file(self, build_id: str | None) -> str | None:
        """The path of the module of that build."""

    def debug_file(self, build_id: str | None) -> str | None:
        """The path of the debug information of that build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedModule:
    """A module's file, and the one to ask about its source: the same, or its debug file."""

    file: ModuleFile
    certainty: Certainty
    asked_path: str
    asked: ModuleFile


def plain_build_id(printed: str | None) -> str | None:
    """A printed BuildId in lower-case hexadecimal digits; None where it is none."""
    digits = (printed or "").lower().replace("-", "")
    return digits if _BUILD_ID.fullmatch(digits) else None


class LocatedModules:
    """Looks at the printed path, then by build-id in what the user gave and the system has."""

    def __init__(self, symbols: FilesByBuildId | None = None) -> None:
        """`symbols` are files that the user gave."""
        self._symbols = symbols
        self._opened: dict[str, Answer[ModuleFile]] = {}

    def __call__(self, module: str, build_id: str | None) -> Answer[LocatedModule]:
        """The module's file, or why there is none. A file with another build-id is never used."""
        wanted = plain_build_id(build_id)
        path = module.removesuffix(" (deleted)")
        if path.startswith(("[", "<")):
            return Gap(what="it is the kernel's, or generated code: no file has it")
        if "/" not in path:
            path = system_library(path) or path
        here = self._open(path)
        if isinstance(here, Known) and wanted in {None, here.value.build_id}:
            sure = Certainty.LIKELY if wanted is None else Certainty.PROVED
            return Known(value=self._with_debug(path, here.value, sure))
        for other in self._of_build(wanted):
            found = self._open(other)
            if isinstance(found, Known) and found.value.build_id == wanted:
                return Known(value=self._with_debug(other, found.value, Certainty.PROVED))
        if isinstance(here, Gap):
            return here
        return Gap(
            what=f"rebuilt since: BuildId {wanted} in the log, "
            f"{here.value.build_id or 'none'} in the file",
            remedy=_PUT_BACK,
        )

    def _of_build(self, build_id: str | None) -> list[str]:
        if build_id is None:
            return []
        found: list[str | None] = []
        if self._symbols is not None:
            found += [self._symbols.module_file(build_id), self._symbols.debug_file(build_id)]
        system = debug_file(build_id)
        found.append(str(system) if system else None)
        return [path for path in found if path is not None]

    def _open(self, path: str) -> Answer[ModuleFile]:
        answer = self._opened.get(path)
        if answer is None:
            answer = self._opened[path] = _open(path)
        return answer

    def _with_debug(self, path: str, file: ModuleFile, certainty: Certainty) -> LocatedModule:
        asked_path, asked = path, file
        if not file.has_debug_info:
            asked_path, asked = self._debug_of(path, file) or (path, file)
        return LocatedModule(file=file, certainty=certainty, asked_path=asked_path, asked=asked)

    def _debug_of(self, path: str, file: ModuleFile) -> tuple[str, ModuleFile] | None:
        for other in self._of_build(file.build_id):
            found = self._open(other)
            if (
                isinstance(found, Known)
                and found.value.build_id == file.build_id
                and found.value.has_debug_info
            ):
                return other, found.value
        link = _debug_link(file)
        linked = linked_debug_file(path, *link) if link is not None else None
        if linked is None:
            return None
        found = self._open(linked)
        return (linked, found.value) if isinstance(found, Known) else None


def _open(path: str) -> Answer[ModuleFile]:
    # Asked before it is opened: to open a device may already do something.
    if not files.is_regular_file(path):
        there = Path(path).exists() if "\0" not in path else False
        what = "it is no regular file" if there else "it is not on this machine"
        return Gap(what=what, remedy=_PUT_BACK)
    try:
        data = files.map_file(path)
        if len(data) > _MAX_BYTES:
            return Gap(what=f"it is larger than {_MAX_BYTES >> 30} GiB", remedy=_PUT_BACK)
        return Known(value=parse_module(data))
    except EvidenceError as error:
        return Gap(what=f"the file there: {error.message}", remedy=_PUT_BACK)


def _debug_link(file: ModuleFile) -> tuple[str, int] | None:
    """The name and CRC-32 in .gnu_debuglink: a string, zeros up to a multiple of 4, four bytes."""
    for section in file.sections:
        if section.name == ".gnu_debuglink" and 8 <= section.size <= 4096:
            data = file.data[section.offset : section.offset + section.size]
            if len(data) == section.size:
                return text_at(data, 0), int.from_bytes(data[-4:], "little")
    return None
