"""Builds a project under sanitizers and proves, file by file, that it was."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vllm_forensics.capture import files
from vllm_forensics.capture.foreign_build.environments import python_facts
from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.recipes import detect
from vllm_forensics.capture.foreign_build.source_archive import unpack_sources
from vllm_forensics.capture.foreign_build.steps import Steps, Watcher
from vllm_forensics.capture.foreign_build.toolchain import find_compiler
from vllm_forensics.capture.foreign_build.traces import (
    CHOOSES_COMPILER,
    STRIPS,
    build_lines,
    call_records,
    digest,
)
from vllm_forensics.capture.foreign_build.tree import read_tree
from vllm_forensics.capture.foreign_build.workspace import BuildRequest, Workspace, prepare
from vllm_forensics.capture.launcher import FLAVOURS, LauncherPlan, build_launcher
from vllm_forensics.diagnosis.plain_library import why_plain
from vllm_forensics.errors import EvidenceError, ToolError, UsageError
from vllm_forensics.evidence.build_manifest import MANIFEST_NAME, parse_build_manifest
from vllm_forensics.evidence.compiler_calls import parse_compiler_calls
from vllm_forensics.evidence.instrumentation import kind_of, prove
from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.model.build import (
    BuildManifest,
    BuildPython,
    BuiltFile,
    CompilerCall,
    FileKind,
    FileTrace,
    Flavour,
    Proof,
    Verdict,
)
from vllm_forensics.render.build import next_steps
from vllm_forensics.render.build_wire import render_build_json

_FOLDER: Final = ".forensics"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRequest:
    """What to build, and how."""

    source: Path
    flavour: Flavour
    python: Path
    """The Python that the build is for; ignored where none takes part."""
    compiler: str | None = None
    """gcc or clang; None: the first that is installed."""
    folder: Path | None = None
    """Default: .forensics/FLAVOUR in the source; for an archive, where the command is given."""
    requirements: tuple[str, ...] = ()
    """What else to install, for the build and beside its result; as pip takes it."""
    head_dims: tuple[int, ...] = ()
    """Of attention kernels: those to compile. Empty: the commonest."""
    wants_example: bool = False


def build_project(request: ProjectRequest, watcher: Watcher) -> BuildManifest:
    """Build, prove, and write the manifest into the folder.

    Raises:
        UsageError: nothing here that is known how to build.
        ToolError: the build failed, or no native code came out of it.

    """
    source = beside = Path(os.path.realpath(request.source))  # which stands links in a circle
    if source.is_file():
        beside = Path.cwd()
        source = unpack_sources(source, beside / _FOLDER / "sources")
    tree = read_tree(source)
    recipe = detect(tree)
    if request.head_dims and not recipe.takes_head_dims:
        raise UsageError(
            f"head dimensions cannot be chosen for {source}",
            remedy="leave out --head-dim: it is for vLLM's attention kernels, from 0.11.1 on",
        )
    if request.requirements and not recipe.takes_requirements:
        raise UsageError(
            f"a build by {recipe.name} has no environment to install into",
            remedy="leave out --with",
        )
    if request.wants_example and not recipe.brings_example:
        raise UsageError(
            f"nothing to try: a project of {recipe.name} brings no example",
            remedy="leave out --try; the command that is printed runs what was built",
        )
    compiler = find_compiler(request.compiler, request.flavour)
    folder = request.folder or beside / _FOLDER / request.flavour.name
    workspace = prepare(
        BuildRequest(
            source=source,
            folder=folder.resolve(),
            flavour=request.flavour,
            compiler=compiler,
            python=request.python,
            requirements=request.requirements,
            head_dims=request.head_dims,
        ),
        tree,
    )
    with workspace.lock:
        return _build(workspace, recipe, watcher)


def _build(workspace: Workspace, recipe: Recipe, watcher: Watcher) -> BuildManifest:
    started, clock = datetime.now(UTC), time.monotonic()
    request = workspace.request
    steps = Steps(workspace, watcher)
    outcome = recipe.build(workspace, steps)
    python = _python(workspace, recipe, steps)
    watcher.begin("proof")
    proving = time.monotonic()
    built = _prove_all(workspace, outcome, steps)
    steps.note("proof", time.monotonic() - proving)
    manifest = BuildManifest(
        source=str(request.source),
        folder=str(request.folder),
        flavour=request.flavour.name,
        sanitizers=request.flavour.sanitizers,
        hardened=request.flavour.hardened,
        system=recipe.name,
        compiler=request.compiler,
        python=python,
        files=built,
        modules=_import_names(built, outcome.site),
        steps=tuple(steps.done),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - clock, 2),
        log=str(workspace.log),
        example=str(outcome.example) if outcome.example is not None else None,
    )
    return write_manifest(manifest)


def write_manifest(manifest: BuildManifest) -> BuildManifest:
    """Put the manifest, with what to type next where that is not said, into the build's folder.

    Raises:
        ToolError: it cannot be written.

    """
    steps = manifest.next_steps or next_steps(manifest)
    whole = replace(manifest, next_steps=steps)
    path = Path(manifest.folder) / MANIFEST_NAME
    try:
        path.write_text(render_build_json(whole), encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"{path} cannot be written: {error.strerror}", remedy="give another --folder"
        ) from error
    return whole


def read_build(folder: Path) -> BuildManifest:
    """What an earlier `forensics build` says of its folder.

    Raises:
        EvidenceError: there is no manifest, or it is damaged.

    """
    return parse_build_manifest(bytes(files.map_file(folder / MANIFEST_NAME)))


def prove_file(path: Path, flavour: Flavour) -> BuiltFile:
    """One ELF file's identity and what its bytes prove; a file that cannot be read is plain."""
    try:
        module = parse_module(files.map_file(path))
    except EvidenceError as error:
        proof = Proof(verdict=Verdict.PLAIN, problems=(f"it cannot be read: {error.message}",))
        return BuiltFile(path=str(path), kind=FileKind.LIBRARY, build_id=None, proof=proof)
    return BuiltFile(
        path=str(path),
        kind=kind_of(module),
        build_id=module.build_id,
        proof=prove(module, flavour),
    )


def _python(workspace: Workspace, recipe: Recipe, steps: Steps) -> BuildPython | None:
    if not recipe.needs_python:
        return None
    program = workspace.venv / "bin" / "python"
    facts = python_facts(program)
    launcher = None
    flavour = workspace.request.flavour.name
    if flavour in FLAVOURS:
        started = time.monotonic()
        plan = LauncherPlan(
            python=program, flavour=flavour, compiler=workspace.request.compiler.cxx
        )
        try:
            launcher = build_launcher(plan)
        except ToolError as error:
            steps.say(f"no launcher: {error.message}\n{error.remedy}")
        steps.note("launcher", time.monotonic() - started)
    return BuildPython(
        executable=str(program),
        base=facts["base"],
        version=facts["version"],
        launcher=str(launcher) if launcher else None,
    )


def _prove_all(workspace: Workspace, outcome: Outcome, steps: Steps) -> tuple[BuiltFile, ...]:
    if not outcome.files:
        raise ToolError(
            "the build went through, and no native code came out of it" + steps.failures(),
            remedy=f"an optional extension that failed is left out silently: {workspace.log}",
        )
    built = [prove_file(path, workspace.request.flavour) for path in outcome.files]
    if all(file.proof.verdict is Verdict.PROVED for file in built):
        return tuple(built)
    calls = parse_compiler_calls(call_records(workspace))
    traces = _Traces(workspace, calls)
    return tuple(replace(file, reasons=why_plain(file, traces.of(file))) for file in built)


class _Traces:
    """What the build left, gathered once for all files that came out plain."""

    def __init__(self, workspace: Workspace, calls: Sequence[CompilerCall]) -> None:
        root = workspace.source
        self._linked = {Path(call.output).name: call for call in calls if call.output}
        self._digests = {digest(path): str(path.relative_to(root)) for path in workspace.shipped}
        self._build_ids = {
            file.build_id: str(path.relative_to(root))
            for path in workspace.shipped
            if (file := prove_file(path, workspace.request.flavour)).build_id
        }
        self._compilers = build_lines(root, CHOOSES_COMPILER)
        self._strips = build_lines(root, STRIPS)

    def of(self, file: BuiltFile) -> FileTrace:
        path = Path(file.path)
        return FileTrace(
            twin=self._digests.get(digest(path)) or self._build_ids.get(file.build_id or ""),
            linked_by=self._linked.get(path.name),
            compiler_lines=self._compilers,
            strip_lines=self._strips,
        )


def _import_names(built: Sequence[BuiltFile], site: Path | None) -> tuple[str, ...]:
    if site is None:
        return ()
    names = []
    for file in built:
        path = Path(file.path)
        if file.kind is FileKind.MODULE and path.is_relative_to(site):
            folders = path.relative_to(site).parent.parts
            names.append(".".join((*folders, path.name.partition(".")[0])))
    return tuple(names)
