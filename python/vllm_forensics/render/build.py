"""What a build made and what is proved of it, for a person; and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from vllm_forensics.model.build import (
    BuildManifest,
    BuiltFile,
    FileKind,
    FramePointers,
    Sanitizer,
    Verdict,
)

_NAMES: Final = {
    Sanitizer.ADDRESS: "AddressSanitizer",
    Sanitizer.UNDEFINED: "UndefinedBehaviorSanitizer",
    Sanitizer.THREAD: "ThreadSanitizer",
}
_FLAGS: Final = {
    Sanitizer.ADDRESS: "--asan",
    Sanitizer.UNDEFINED: "--ubsan",
    Sanitizer.THREAD: "--tsan",
}
_MAX_UNITS: Final = 3
_LONGEST: Final = 240


def render_build(manifest: BuildManifest, *, quiet: bool) -> str:
    """Lines, paths uncut. Every string must have been cleaned. `quiet`: the paths alone."""
    if quiet:
        return "".join(f"{file.path}\n" for file in manifest.files)
    return "\n".join(_lines(manifest)) + "\n"


def next_steps(manifest: BuildManifest) -> tuple[str, ...]:
    """Commands that run what was built; for the first module or program."""
    if not manifest.proved:
        return ()
    flags = "".join(f" {_FLAGS[one]}" for one in manifest.sanitizers)
    run = f"forensics run{flags}"
    if manifest.python is None:
        programs = [file.path for file in manifest.files if file.kind is FileKind.PROGRAM]
        return tuple(f"{run} -- {shlex.quote(program)}" for program in programs[:1])
    if manifest.example is not None:
        what = shlex.quote(manifest.example)
    else:
        what = "-c " + shlex.quote(f"import {manifest.modules[0]}" if manifest.modules else "…")
    program = shlex.quote(manifest.python.launcher or manifest.python.executable)
    by_name = f"{run} --build {shlex.quote(manifest.folder)} -- python {what}"
    return (*((by_name,) if manifest.sanitizers else ()), f"{run} -- {program} {what}")


def _lines(manifest: BuildManifest) -> Iterator[str]:
    of = [manifest.system, f"{manifest.compiler.family} {manifest.compiler.version}"]
    if manifest.python is not None:
        of.append(f"Python {manifest.python.version}")
    yield f"{manifest.flavour}: built in {manifest.seconds:.1f} s ({', '.join(of)})"
    for file in manifest.files:
        yield from _file(file, manifest)
    yield ""
    yield _verdict(manifest)
    if manifest.python is not None and manifest.proved:
        yield f"python  {manifest.python.executable}"
        if manifest.python.launcher is None and manifest.sanitizers:
            yield f"        no launcher for it (see {manifest.log}): the runtime is preloaded"
    for number, step in enumerate(manifest.next_steps):
        yield f"{'next' if number == 0 else '':6}  {step}"


def _verdict(manifest: BuildManifest) -> str:
    counts = {
        verdict: sum(file.proof.verdict is verdict for file in manifest.files)
        for verdict in Verdict
    }
    total = len(manifest.files)
    what = " and ".join(_NAMES[one] for one in manifest.sanitizers)
    what = what or ("the hardening" if manifest.hardened else "their debug lines")
    if counts[Verdict.PLAIN]:
        return f"failed  {counts[Verdict.PLAIN]} of {_files(total)} came out without {what}"
    if counts[Verdict.PARTLY]:
        return f"partly  {counts[Verdict.PARTLY]} of {_files(total)} hold {what} only in part"
    return f"proved  {_files(total)} with {what}"


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def _file(file: BuiltFile, manifest: BuildManifest) -> Iterator[str]:
    yield file.path
    proof = file.proof
    if proof.verdict is not Verdict.PLAIN:
        facts = [_NAMES[one] for one in proof.sanitizers] + list(proof.runtimes)
        facts += list(proof.hardening) if manifest.hardened else []
        facts += ["debug lines"] if proof.debug_info else []
        facts += ["frame pointers"] if proof.frame_pointers is FramePointers.KEPT else []
        facts.append(f"{proof.units} unit" + ("" if proof.units == 1 else "s"))
        yield f"  {' · '.join(facts)}"
    for problem in proof.problems:
        yield f"  ✖ {problem}"
    for unit in proof.plain_units[:_MAX_UNITS] if proof.verdict is Verdict.PARTLY else ():
        yield f"  ! {unit.name} is plain: {unit.producer[:_LONGEST]}"
    if proof.verdict is Verdict.PARTLY and proof.frame_pointers is FramePointers.OMITTED:
        yield "  ! its frame pointers are left out: stacks of a report may be short"
    for reason in file.reasons:
        yield f"    because {reason}"
    for note in proof.notes:
        yield f"  · {note}"
