"""The JSON of a build: forensics.build/1. Fields are added freely, renamed never."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.build import BuildManifest, BuildPython, BuiltFile, Compiler, Step
from vllm_forensics.render.json_text import json_text


class BuildWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics build --format json`, and the file build.json."""

    schema: Literal["forensics.build/1"]
    source: str
    folder: str
    flavour: str
    sanitizers: list[str]
    hardened: bool
    proved: bool
    system: str
    compiler: Compiler
    python: BuildPython | None
    files: tuple[BuiltFile, ...]
    modules: list[str]
    steps: tuple[Step, ...]
    started: str
    seconds: float
    log: str | None
    next_steps: list[str]
    example: str | None


def render_build_json(manifest: BuildManifest) -> str:
    """The manifest as JSON, ending in a newline."""
    wire = BuildWire(
        schema="forensics.build/1",
        source=manifest.source,
        folder=manifest.folder,
        flavour=manifest.flavour,
        sanitizers=[str(one) for one in manifest.sanitizers],
        hardened=manifest.hardened,
        proved=manifest.proved,
        system=manifest.system,
        compiler=manifest.compiler,
        python=manifest.python,
        files=manifest.files,
        modules=list(manifest.modules),
        steps=manifest.steps,
        started=manifest.started,
        seconds=manifest.seconds,
        log=manifest.log,
        next_steps=list(manifest.next_steps),
        example=manifest.example,
    )
    return json_text(wire)


def schema() -> dict[str, Any]:
    """The JSON schema that docs/schemas/forensics.build.1.json holds."""
    return msgspec.json.schema(BuildWire)
