"""The modules of a core, each checked on this machine."""

from __future__ import annotations

from dataclasses import replace

from vllm_forensics.capture import files
from vllm_forensics.capture.core_sources import opened_core
from vllm_forensics.capture.module_audit import audit_module
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.symbol_index import SymbolIndex
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.audit import CoreAudit, ModuleAudit
from vllm_forensics.model.process import Module


def audit_core(path: str, executable: str | None, symbols: SymbolIndex | None = None) -> CoreAudit:
    """Check every mapped module: what it needs, what is missing, what is instrumented.

    Raises:
        EvidenceError: the core cannot be read.

    """
    store = ModuleStore(executable, symbols)
    with opened_core(path) as kept:
        notes = CoreImage(files.map_core(kept.file), store)
        store.program = notes.process.program
        names = frozenset(name for module in notes.modules for name in _names(module, store))
        return CoreAudit(core=path, modules=tuple(_audit(m, store, names) for m in notes.modules))


def _audit(module: Module, store: ModuleStore, names: frozenset[str]) -> ModuleAudit:
    answer = store(module)
    if isinstance(answer, Gap):
        return ModuleAudit(path=module.path, problem=answer.what)
    try:
        audit = audit_module(store.path_of(module), names)
        # A separate debug file counts: gdb finds it too.
        return replace(audit, debug_info=answer.value.has_debug_info)
    except EvidenceError as error:
        return ModuleAudit(path=module.path, problem=error.message)


def _names(module: Module, store: ModuleStore) -> set[str]:
    """A library is needed by its soname; the file's own name may carry a longer version."""
    answer = store(module)
    soname = None if isinstance(answer, Gap) else answer.value.soname
    return {module.name, soname} if soname else {module.name}
