"""Packs a core with what it takes to explain it elsewhere: the modules that its stacks need."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from vllm_forensics.capture.bundle import (
    CORE,
    LARGEST_BUNDLE,
    debug_name,
    module_name,
    write_bundle,
)
from vllm_forensics.capture.core_sources import find_cores, opened_core
from vllm_forensics.capture.files import map_core, size_of
from vllm_forensics.capture.packages import debug_file
from vllm_forensics.capture.private_folder import private_folder
from vllm_forensics.capture.supervisor import CoreContents, minify_core
from vllm_forensics.diagnosis.runtime_frames import INTERPRETER
from vllm_forensics.diagnosis.signature import signed
from vllm_forensics.errors import ToolError, UsageError, naming
from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.investigate.core_crash import crash_of
from vllm_forensics.investigate.module_store import ModuleStore
from vllm_forensics.investigate.python_layer import with_python
from vllm_forensics.investigate.triage import TriageOptions, open_image, with_kept_modules
from vllm_forensics.model.answer import Depth, Gap, Known
from vllm_forensics.model.bundle import Bundle, LeftOut, Member, MemberKind
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Module
from vllm_forensics.render.clean import escape

DEFAULT_BUDGET: Final = 512 << 20
_MAX_THREADS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOptions:
    """What goes in."""

    budget_bytes: int = DEFAULT_BUDGET
    """For all that is in it, before it is compressed; half of it at most for the core."""
    secrets: bool = False
    """The environment and the arguments too."""
    output: str | None = None
    """Default: the core's name, in the working directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Core:
    member: Member
    minified: bool


def make_bundle(core: str, options: BundleOptions, triage: TriageOptions) -> Bundle:
    """Write the bundle of one core.

    Raises:
        UsageError: not one core, or the bundle cannot be written.
        EvidenceError: the core cannot be read.
        ToolError: the core cannot be cut down, nor rid of its secrets.

    """
    cores = find_cores([core])
    if len(cores) != 1:
        raise UsageError(f"{core} holds {len(cores)} cores", remedy="forensics bundle CORE")
    name = cores[0].rsplit("/", 1)[-1]
    target = Path(options.output or f"{name}.bundle.tar.zst")
    with (
        naming(cores[0]),
        private_folder("forensics-bundle-") as folder,
        opened_core(cores[0]) as kept,
    ):
        triage = with_kept_modules(triage, kept)
        store = ModuleStore(triage.executable, triage.symbols, triage.sysroot)
        notes = CoreImage(map_core(kept.file), store)
        store.program = notes.process.program
        with open_image(kept.file, notes, store, triage, Depth.STACK) as image:
            crash = crash_of(kept.path, notes, store, image)
            wanted = _wanted(image, store)
        signature = signed(with_python(crash, kept.file, notes, store)).signature
        packed = _core(kept.file, folder, options)
        members, left_out = _chosen(wanted, store, options.budget_bytes - packed.member.size_bytes)
        manifest = {
            "format": "forensics.bundle/1",
            "core": {"name": name, "minified": packed.minified, "secrets": options.secrets},
            "architecture": notes.process.architecture.value,
            "signature": signature,
            "files": [_described(member) for member in (packed.member, *members)],
            "left_out": [
                {"module": file.module, "build_id": file.build_id, "why": file.why}
                for file in left_out
            ],
        }
        # Paths may hold bytes that are no text, and anything that a terminal obeys.
        text = msgspec.json.format(msgspec.json.encode(_escaped(manifest)), indent=2)
        size = write_bundle(target, text, (packed.member, *members))
    return Bundle(
        path=str(target),
        size_bytes=size,
        core=cores[0],
        core_bytes=packed.member.size_bytes,
        minified=packed.minified,
        secrets=options.secrets,
        signature=signature,
        members=members,
        left_out=left_out,
    )


def _core(file: str, folder: Path, options: BundleOptions) -> _Core:
    """The core as it will be: whole if it fits in, without secrets unless they are wanted."""
    size, share = size_of(file), options.budget_bytes // 2
    fits = size <= share
    path = file
    if not (fits and options.secrets):
        path = str(folder / "core")
        keep = CoreContents(full=fits, secrets=options.secrets)
        try:
            minify_core(file, path, budget=share, keep=keep)
        except ToolError as error:
            raise ToolError(
                error.message,
                remedy="with --include-secrets, and a --budget of twice its size, it is taken as "
                "it is: forensics bundle --include-secrets --budget "
                f"{size * 2 // 1_000_000 + 1} {shlex.quote(file)}",
            ) from error
    member = Member(kind=MemberKind.CORE, name=CORE, source=path, size_bytes=size_of(path))
    if member.size_bytes > LARGEST_BUNDLE:
        raise UsageError(
            f"the core takes {member.size_bytes / 1e9:.1f} GB, more than a bundle can hold",
            remedy="a smaller --budget cuts it down further",
        )
    return _Core(member=member, minified=not fits)


def _wanted(image: Image, store: ModuleStore) -> list[Module]:
    """The program and the interpreter, then what stands on any thread's stack, small ones first."""
    on_stacks: dict[str, Module] = {}
    for thread in image.threads[:_MAX_THREADS]:
        answer = image.unwind(thread)
        for frame in answer.value.frames if isinstance(answer, Known) else ():
            found = image.module_at(frame.pc)
            if isinstance(found, Known):
                on_stacks.setdefault(found.value.path, found.value)
    program = image.process.program
    first = [m for m in image.modules if m.path == program or INTERPRETER.fullmatch(m.name)]
    first.sort(key=lambda module: module.path != program)
    rest = [module for path, module in on_stacks.items() if module not in first]
    return [*first, *sorted(rest, key=lambda module: size_of(store.path_of(module)))]


def _chosen(
    modules: list[Module], store: ModuleStore, budget: int
) -> tuple[tuple[Member, ...], tuple[LeftOut, ...]]:
    """What fits into `budget` bytes: first all modules, then their debug information."""
    members: dict[str, Member] = {}
    left_out: list[LeftOut] = []
    taken = 0
    usable = []
    for module in modules:
        answer = store(module)
        if isinstance(answer, Gap):
            left_out.append(_left_out(module, answer.what))
        elif module.build_id is None:
            left_out.append(_left_out(module, "it has no build-id to be found by"))
        else:
            usable.append(module)
    for member in (*map(partial(_module, store), usable), *_debug(usable, store)):
        if member.name in members:
            continue
        if taken + member.size_bytes > budget:
            what = "its debug information of" if member.kind is MemberKind.DEBUG else "its"
            why = f"{what} {member.size_bytes / 1e6:.1f} MB did not fit into the budget"
            left_out.append(LeftOut(module=member.module or "", build_id=member.build_id, why=why))
            continue
        taken += member.size_bytes
        members[member.name] = member
    return tuple(members.values()), tuple(left_out)


def _left_out(module: Module, why: str) -> LeftOut:
    return LeftOut(module=module.path, build_id=module.build_id, why=why)


def _module(store: ModuleStore, module: Module) -> Member:
    path = store.path_of(module)
    build_id = module.build_id or ""
    return Member(
        kind=MemberKind.MODULE,
        name=module_name(build_id, module.path),
        source=path,
        size_bytes=size_of(path),
        module=module.path,
        build_id=build_id,
    )


def _debug(modules: list[Module], store: ModuleStore) -> Iterator[Member]:
    """Separate debug information, small files first."""
    found = []
    for module in modules:
        path = store.debug_path_of(module) or store.given_debug_file(module)
        path = path or str(debug_file(module.build_id) or "")
        if path and path != store.path_of(module):
            found.append(
                Member(
                    kind=MemberKind.DEBUG,
                    name=debug_name(module.build_id or ""),
                    source=path,
                    size_bytes=size_of(path),
                    module=module.path,
                    build_id=module.build_id,
                )
            )
    yield from sorted(found, key=lambda member: member.size_bytes)


def _described(member: Member) -> dict[str, object]:
    return {
        "name": member.name,
        "kind": member.kind.value,
        "size": member.size_bytes,
        "module": member.module,
        "build_id": member.build_id,
    }


def _escaped(value: object) -> object:
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return escape(value) if isinstance(value, str) else value
