"""A module's dependencies and instrumentation, through lief; on demand, as it reads whole files."""

from __future__ import annotations

from typing import Final

import lief

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.audit import ModuleAudit

# At the end the command line frees nothing, to save the time: lief would call each name leaked.
lief.disable_leak_warning()

_RUNTIMES: Final = {
    "__asan_init": "AddressSanitizer",
    "__ubsan_handle_type_mismatch_v1": "UndefinedBehaviorSanitizer",
    "__ubsan_handle_pointer_overflow": "UndefinedBehaviorSanitizer",
    "__tsan_init": "ThreadSanitizer",
    "__msan_init": "MemorySanitizer",
    "__hwasan_init": "HWAddressSanitizer",
}


def audit_module(path: str, mapped: frozenset[str]) -> ModuleAudit:
    """Check one file. `mapped` holds the names of all libraries that the process had mapped.

    Raises:
        EvidenceError: lief cannot read the file.

    """
    config = lief.ELF.ParserConfig()
    config.parse_relocations = False
    config.parse_symtab_symbols = False
    config.parse_notes = False
    config.parse_overlay = False
    binary = lief.ELF.parse(path, config)
    if binary is None:
        raise EvidenceError(f"{path} is not readable as ELF", remedy="is it damaged? reinstall it")
    needed = tuple(str(name) for name in binary.libraries)
    imported = {str(symbol.name) for symbol in binary.dynamic_symbols}
    sections = {str(section.name) for section in binary.sections}
    found = {label for name, label in _RUNTIMES.items() if name in imported}
    return ModuleAudit(
        path=path,
        needed=needed,
        missing=tuple(name for name in needed if name not in mapped),
        sanitizers=tuple(sorted(found)),
        debug_info=".debug_info" in sections,
        symbol_table=".symtab" in sections,
        runpath=_runpath(binary),
    )


def _runpath(binary: lief.ELF.Binary) -> str | None:
    for tag in (lief.ELF.DynamicEntry.TAG.RUNPATH, lief.ELF.DynamicEntry.TAG.RPATH):
        entry = binary.get(tag)
        if isinstance(entry, lief.ELF.DynamicEntryRunPath):
            return str(entry.runpath)
        if isinstance(entry, lief.ELF.DynamicEntryRpath):
            return str(entry.rpath)
    return None
