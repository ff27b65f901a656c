"""Fetches what a crash's own stack lacks from debuginfod servers, where the user asked for that.

Only modules that stand on the crashing thread's stack are asked for. A stack that ends at a module
which is not here may go on with it, so it is walked again, a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

from vllm_forensics.capture.debuginfod import Debuginfod, FetchedKind
from vllm_forensics.capture.files import map_file, mapped_core
from vllm_forensics.capture.unwinder import shared_unwinder
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.evidence.vdso import VDSO
from vllm_forensics.investigate.layered_image import LayeredImage
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.symbol_index import SymbolIndex, list_place
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.process import Module
from vllm_forensics.model.symbols import PlacedFile, SymbolPlace

_MAX_ROUNDS: Final = 4
_MAX_MODULES: Final = 32


@lru_cache(maxsize=4)
def client_of(servers: tuple[str, ...]) -> Debuginfod:
    """One for all cores of a run, so that nothing is asked for twice and the budget is one."""
    return Debuginfod(servers, _is_of_build)


def fetched_symbols(
    core: str,
    servers: tuple[str, ...],
    store_of: Callable[[SymbolIndex | None], ModuleStore],
    given: SymbolIndex | None,
) -> tuple[SymbolIndex | None, tuple[Gap, ...]]:
    """`given` with what servers have of the crashing stack's modules; and what was not to be had.

    `core` is the core's file, `store_of` makes a store of modules that knows an index.

    Raises:
        EvidenceError: the core cannot be read.

    """
    client = client_of(servers)
    symbols, gaps = given, tuple[Gap, ...]()
    for _ in range(_MAX_ROUNDS):
        store = store_of(symbols)
        found, gaps = _fetch(_on_stack(core, store), store, client)
        if not found:
            break
        symbols = found if symbols is None else symbols.joined(found)
    return symbols, gaps


def _on_stack(core: str, store: ModuleStore) -> list[Module]:
    with mapped_core(core) as data:
        notes = CoreImage(data, store)
        store.program = notes.process.program
        with LayeredImage(notes, store, core, start_gdb=None, unwinder=shared_unwinder()) as image:
            answer = image.unwind(image.threads[0])
            frames = answer.value.frames if isinstance(answer, Known) else ()
            places = [image.module_at(frame.pc) for frame in frames]
    return [place.value for place in places if isinstance(place, Known)]


def _fetch(
    modules: Iterable[Module], store: ModuleStore, client: Debuginfod
) -> tuple[SymbolIndex, tuple[Gap, ...]]:
    """What the servers have of what `store` lacks of these modules, and what they have not."""
    found = SymbolIndex()
    gaps: list[Gap] = []
    for _, module in zip(range(_MAX_MODULES), dict.fromkeys(modules), strict=False):
        if module.build_id is None or module.path == VDSO:
            continue
        for kind in _lacking(module, store):
            try:
                fetched = client.fetch(module.build_id, kind)
            except EvidenceError as error:
                gaps.append(Gap(what=error.message, remedy=error.remedy))
                break
            if fetched is None:
                gaps.append(_not_had(module, kind, client))
                continue
            placed = PlacedFile(name=module.name, path=fetched.path)
            listing = list_place(SymbolPlace(place=fetched.url, files=(placed,)))
            found = found.joined(SymbolIndex(listing.files))
    return found, tuple(dict.fromkeys(gaps))


def _lacking(module: Module, store: ModuleStore) -> Iterator[FetchedKind]:
    answer = store(module)
    if isinstance(answer, Gap):
        yield FetchedKind.CODE
        yield FetchedKind.DEBUG
    elif not answer.value.has_debug_info:
        yield FetchedKind.DEBUG


def _not_had(module: Module, kind: FetchedKind, client: Debuginfod) -> Gap:
    what = "debug information" if kind is FetchedKind.DEBUG else "code"
    return Gap(
        what=f"{', '.join(client.servers)}: no {what} of {module.name}, build {module.build_id}",
        remedy="ask the server of the distribution that the module came from",
    )


def _is_of_build(path: str, build_id: str) -> bool:
    try:
        return parse_module(map_file(path)).build_id == build_id
    except EvidenceError:
        return False
