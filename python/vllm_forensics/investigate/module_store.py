"""The mapped files on this machine, each opened once and checked against the core before use."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from vllm_forensics.capture import files
from vllm_forensics.capture.packages import debug_file
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.modules import ModuleFile, parse_module
from vllm_forensics.investigate.symbol_index import SymbolIndex
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Module

_OPEN_FILES: Final = 192
"""Each stays mapped, with a descriptor: fewer than the usual limit of 1,024 for two threads."""


class ModuleStore:
    """Answers with a module's file only where it is the very file that was mapped (same build-id).

    A file that was rebuilt since the crash would give wrong names without any warning.
    """

    def __init__(
        self,
        executable: str | None = None,
        symbols: SymbolIndex | None = None,
        sysroot: str | None = None,
    ) -> None:
        """`executable` stands in for the program's own path, if the user gave one.

        `symbols` add debug information, and stand in for modules that are not here or are others.
        `sysroot` is a folder that holds the files of the machine that crashed.
        """
        self.executable = executable
        self.sysroot = sysroot.rstrip("/") if sysroot is not None else None
        self.program: str | None = None
        self.symbols = symbols or SymbolIndex()
        self._known: dict[str, Answer[ModuleFile]] = {}
        self._stand_ins: dict[str, str] = {}
        self._debug_paths: dict[str, str] = {}

    def __call__(self, module: Module) -> Answer[ModuleFile]:
        """The module's file, or why it cannot be used."""
        answer = self._known.get(module.path)
        if answer is None:
            answer = self._known[module.path] = self._open(module)
        return answer

    def path_of(self, module: Module) -> str:
        """Where the module's file lies on this machine."""
        if module.path in self._stand_ins:
            return self._stand_ins[module.path]
        if self.executable is not None and module.path == self.program:
            return self.executable
        if self.sysroot is not None and module.path.startswith("/"):
            below = self.sysroot + module.path
            return below if files.is_regular_file(below) else module.path
        return module.path

    def given_debug_file(self, module: Module) -> str | None:
        """The path of the debug information that the user gave for this very build."""
        return self.symbols.debug_file(module.build_id)

    def debug_path_of(self, module: Module) -> str | None:
        """Where the module's separate debug information lies, if any is used."""
        return self._debug_paths.get(module.path)

    def debug_place_of(self, module: Module) -> str | None:
        """The place or server that the debug information in use was given by, if it was given."""
        given = self.symbols.debug_file(module.build_id)
        used = {self._debug_paths.get(module.path), self._stand_ins.get(module.path)}
        return self.symbols.debug_place(module.build_id) if given in used else None

    def unchecked(self, module: Module) -> Answer[ModuleFile]:
        """The file at the module's path, the same one or not."""
        try:
            return Known(value=_parse_once(self.path_of(module)))
        except EvidenceError as error:
            option = ", or pass --executable PATH" if module.path == self.program else ""
            return Gap(
                what=f"{module.path} {error.message}: no names, and no stack beyond its frames",
                remedy=f"put the same build back there{option}",
            )

    def _open(self, module: Module) -> Answer[ModuleFile]:
        answer = self._open_here(module)
        given = self.symbols.module_file(module.build_id)
        if isinstance(answer, Known) or given is None:
            return answer
        self._stand_ins[module.path] = given
        return self._open_here(module)

    def _open_here(self, module: Module) -> Answer[ModuleFile]:
        if module.path.startswith("["):
            return Gap(what=f"{module.path} is the kernel's, not a file")
        if module.is_unlisted and (option := self._missing_option(module)):
            return Gap(
                what=f"the core lists no files and no build-ids, so {module.name} cannot be found "
                "and checked",
                remedy=f"pass {option}, if you have the very build that crashed",
            )
        path = self.path_of(module)
        if module.deleted and not Path(path).exists():
            return Gap(
                what=f"{module.path} was deleted while it was in use",
                remedy="put the same build back in its place, then triage again",
            )
        answer = self.unchecked(module)
        if isinstance(answer, Gap):
            return answer
        gap = (
            _mismatch(module, answer.value.build_id)
            if not module.is_unlisted
            else self._doubt(module, answer.value)
        )
        return gap or self._with_debug(module, answer)

    def _missing_option(self, module: Module) -> str | None:
        """What the user must say before a file is taken for a module that no list names."""
        if module.headers is not None:
            return None if self.executable is not None else "--executable PATH"
        return None if self.sysroot is not None else "--sysroot DIR"

    def _doubt(self, module: Module, file: ModuleFile) -> Gap | None:
        """Why a file is not taken for a module that its core does not list."""
        fits = (
            file.bias_by(module.headers) is not None
            if module.headers is not None
            else file.dynamic_address == (module.dynamic or 0) - module.bias
        )
        if not fits and module.headers is None:
            return Gap(
                what=f"{self.path_of(module)} is not the library that was loaded: its dynamic "
                "section lies elsewhere",
                remedy="pass --sysroot with the files of the machine that crashed",
            )
        if not fits:
            return Gap(
                what=f"{self.executable} is not the program that crashed: its headers and entry "
                "point lie elsewhere",
                remedy="pass --executable with the very build that crashed",
            )
        return None

    def _with_debug(self, module: Module, answer: Known[ModuleFile]) -> Known[ModuleFile]:
        """Add the separate debug information of a stripped file: its symbol table names more."""
        file = answer.value
        path: str | Path | None = None
        if not file.has_debug_info:
            path = self.symbols.debug_file(file.build_id)
        if path is None and not file.has_symbol_table:
            path = debug_file(file.build_id)
        if path is None:
            return answer
        try:
            debug = _parse_once(str(path))
        except EvidenceError:
            return answer
        if debug.build_id != file.build_id:
            return answer
        self._debug_paths[module.path] = str(path)
        return Known(value=_joined(file, debug), tier=answer.tier)


def _parse_once(path: str) -> ModuleFile:
    """A file that is parsed once, however many cores map it; anew if it was changed meanwhile.

    Raises:
        EvidenceError: it cannot be read, or is no ELF file.

    """
    identity = files.identity_of(path)
    if identity is None:
        return parse_module(files.map_file(path))  # which says what is wrong with it
    return _parsed(path, identity)


@lru_cache(maxsize=_OPEN_FILES)
def _parsed(path: str, identity: tuple[int, ...]) -> ModuleFile:
    del identity  # part of the key
    return parse_module(files.map_file(path))


class _Joined(NamedTuple):
    file: ModuleFile
    debug: ModuleFile
    whole: ModuleFile


_JOINED: Final[dict[tuple[int, int], _Joined]] = {}


def _joined(file: ModuleFile, debug: ModuleFile) -> ModuleFile:
    """The two as one, made once: what is looked up in it is remembered in it."""
    key = (id(file), id(debug))
    known = _JOINED.get(key)
    if known is None:
        if len(_JOINED) >= _OPEN_FILES:
            _JOINED.clear()
        # The parts are kept beside it, so that their ids stay theirs.
        known = _JOINED[key] = _Joined(file, debug, replace(file, debug=debug))
    return known.whole


def _mismatch(module: Module, found: str | None) -> Gap | None:
    """Why a file with the build-id `found` cannot stand for the module that was mapped."""
    if module.build_id is None and found is not None:
        return Gap(
            what=f"the core does not hold {module.name}'s build-id, so its file cannot be checked",
            remedy="it was cut off, or left out: bit 4 of /proc/PID/coredump_filter, core(5)",
        )
    if module.deleted and found is None:
        return Gap(
            what=f"{module.path} was deleted while in use, and has no build-id to be known by",
            remedy="link with -Wl,--build-id, so that the next crash can be matched",
        )
    if found != module.build_id:
        return Gap(
            what=f"{module.path} was rebuilt or replaced since the crash "
            f"(build-id {_short(found)} on disk, {_short(module.build_id)} in the core)",
            remedy="install the build that crashed, or crash the present one",
        )
    return None


def _short(build_id: str | None) -> str:
    return build_id[:12] if build_id else "none"
