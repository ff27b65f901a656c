"""Imports the scheduler's own modules of an unmodified vLLM, and nothing else of it.

An importer stands before Python's own while the engine is in use. The modules that decide about
blocks and requests are executed from the tree that was given; every other module of vLLM, and
every library outside of the standard one, is a placeholder (`absent`). See docs/adr/0010.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import VllmTree
from vllm_forensics.sandbox.engine.absent import Absent, Loading

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_REALLY_IMPORTED: Final = frozenset({"msgspec"})
"""Small, and its classes are used, not only mentioned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which modules of a generation are executed."""

    modules: Collection[str]
    """Executed, each by its full name."""
    packages: Collection[str]
    """Executed with all that is below them."""
    stand_ins: Mapping[str, Mapping[str, Any]]
    """Names that a placeholder module really has, by module."""

    def holds(self, name: str) -> bool:
        """Whether the module is executed."""
        return name in self.modules or any(
            name == package or name.startswith(f"{package}.") for package in self.packages
        )


class _RealLoader(importlib.machinery.SourceFileLoader):
    """Executes a module of vLLM; placeholders may be touched meanwhile."""

    def __init__(self, name: str, path: str, loading: Loading) -> None:
        super().__init__(name, path)
        self._loading = loading

    def exec_module(self, module: ModuleType) -> None:
        """Execute it, and only then make placeholders strict again."""
        self._loading.depth += 1
        try:
            super().exec_module(module)
        finally:
            self._loading.depth -= 1

    def set_data(self, path: str, data: ReadableBuffer, *, _mode: int = 0o666) -> None:
        """Keep no bytecode: the tree may be somebody's checkout, which stays as it is."""


class _AbsentLoader(Loader):
    """Makes a module whose every name is a placeholder."""

    def __init__(self, loading: Loading, names: Mapping[str, Any]) -> None:
        self._loading = loading
        self._names = names

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Let Python make the usual one."""
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give it the names that it really has, and placeholders for the others."""
        loading = self._loading

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            full = f"{module.__name__}.{name}"
            if importlib.machinery.PathFinder.find_spec(full, module.__dict__.get("__path__")):
                return importlib.import_module(full)  # `from vllm import envs`
            # A function may import what it only compares types with: using it is what is refused.
            return Absent(full, loading)

        module.__dict__.update(self._names)
        module.__dict__["__getattr__"] = missing


class _Finder(MetaPathFinder):
    """Finds vLLM's modules in one tree; libraries only for code of that tree."""

    def __init__(self, tree: VllmTree, selection: Selection) -> None:
        self._tree = tree
        self._selection = selection
        self.loading = Loading()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """How to load a module, or None: Python looks on."""
        del target
        top = fullname.partition(".")[0]
        if top == "vllm":
            return self._spec_of_vllm(fullname, path)
        if top in sys.stdlib_module_names or top in _REALLY_IMPORTED or not self._asked_by_vllm():
            return None
        return importlib.machinery.ModuleSpec(
            fullname, _AbsentLoader(self.loading, {}), is_package=True
        )

    def _spec_of_vllm(
        self, name: str, path: Sequence[str] | None
    ) -> importlib.machinery.ModuleSpec | None:
        found = importlib.machinery.PathFinder.find_spec(name, path or [self._tree.root])
        if found is None:
            return None
        if found.origin is not None and self._selection.holds(name):
            loader = _RealLoader(name, found.origin, self.loading)
            return importlib.util.spec_from_file_location(
                name,
                found.origin,
                loader=loader,
                submodule_search_locations=found.submodule_search_locations,
            )
        names = self._selection.stand_ins.get(name, {})
        spec = importlib.machinery.ModuleSpec(
            name,
            _AbsentLoader(self.loading, names),
            origin=found.origin,
            is_package=found.submodule_search_locations is not None,
        )
        spec.has_location = found.origin is not None
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def _asked_by_vllm(self) -> bool:
        frame = sys._getframe(1)
        own = (__name__, "importlib._bootstrap", "importlib._bootstrap_external", "importlib")
        while frame.f_back is not None and frame.f_globals.get("__name__") in own:
            frame = frame.f_back
        return str(frame.f_globals.get("__name__")).partition(".")[0] == "vllm"


@dataclass(slots=True)
class _Loaded:
    """A tree that was imported: its modules come back the next time, for a run costs less."""

    finder: _Finder
    modules: dict[str, ModuleType]


_LOADED: dict[tuple[str, int], _Loaded] = {}
"""By root of the tree and identity of the selection, which is a constant."""


@contextmanager
def loaded(tree: VllmTree, selection: Selection) -> Iterator[Callable[[str], ModuleType]]:
    """A function that imports one of the tree's modules; all are put away after the block.

    One tree at a time: `vllm` is one name. Modules called vllm that were there before come back.
    """
    key = (tree.root, id(selection))
    kept = _LOADED.setdefault(key, _Loaded(finder=_Finder(tree, selection), modules={}))
    before = _taken_out()
    held = set(sys.modules)
    sys.modules.update({name: kept.modules[name] for name in kept.modules if name not in held})
    sys.meta_path.insert(0, kept.finder)
    try:
        yield importlib.import_module
    finally:
        sys.meta_path.remove(kept.finder)
        new = set(sys.modules) - held
        kept.modules |= _taken_out()
        for name in new & set(sys.modules):
            spec = getattr(sys.modules[name], "__spec__", None)
            if isinstance(getattr(spec, "loader", None), _AbsentLoader):
                kept.modules[name] = sys.modules.pop(name)
        sys.modules.update(before)


@contextmanager
def whole(tree: VllmTree) -> Iterator[Callable[[str], ModuleType]]:
    """A function that imports modules of the whole vLLM that this Python has, with its torch.

    Nothing stands in for anything, and nothing is put away: torch can be imported only once.

    Raises:
        UsageError: there is no such vLLM, or it lacks something that it needs.

    """
    # Its log goes to standard output, which is ours.
    os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
    try:
        importlib.import_module("torch")
        importlib.import_module("vllm.v1.core.sched.scheduler")
    except (ImportError, OSError) as error:
        raise UsageError(
            f"{sys.executable} has no whole vLLM: {type(error).__name__}: {error}",
            remedy="leave --full out: the scheduler's own code is driven without torch",
        ) from error
    found = sys.modules["vllm"].__file__
    if found != tree.file:
        raise UsageError(
            f"{found} is imported, and not {tree.file}", remedy="give --vllm installed with --full"
        )
    yield importlib.import_module


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "vllm"]
    return {name: sys.modules.pop(name) for name in names}


class QuietLogger(logging.Logger):
    """vLLM's logger, with the methods that vLLM adds to the standard one; it prints nothing."""

    def __init__(self, name: str) -> None:
        """Disabled: what vLLM would log, the recorder sees better."""
        super().__init__(name, logging.CRITICAL + 1)
        self.debug_once = self.info_once = self.warning_once = self.error_once = self.debug


def defaults_in(source: str, class_name: str) -> dict[str, Any]:
    """The defaults that a configuration class states as literals, by field.

    So a run has the values of the vLLM that it drives, not of the one that we know. What is
    computed is left out, and so is refused when it is asked for.
    """
    found: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    known, value = _literal(line.value, found)
                    if known:
                        found[line.target.id] = value
    return found


_EMPTY: Final[Mapping[str, Callable[[], Any]]] = {"list": list, "dict": dict, "set": set}


def _literal(node: ast.expr | None, names: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether an expression is a literal, and its value; looks into `Field(default=…)`."""
    if isinstance(node, ast.Name) and node.id in names:
        return True, names[node.id]
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "default":
                return _literal(keyword.value, names)
            if keyword.arg == "default_factory" and isinstance(keyword.value, ast.Name):
                make = _EMPTY.get(keyword.value.id)
                return make is not None, make() if make else None
        return False, None
    try:
        return node is not None, None if node is None else ast.literal_eval(node)
    except ValueError:
        return False, None
