"""What was packed into a bundle, for a person and as JSON (forensics.bundle/1)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from rich.console import RenderableType

from vllm_forensics.model.bundle import Bundle, MemberKind
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.rows import command, labelled, steps
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_LABEL_WIDTH: Final = 10
_MAX_LEFT_OUT: Final = 12


class BundledFileWire(msgspec.Struct, frozen=True, kw_only=True):
    """A module or its debug information."""

    name: str
    kind: Literal["core", "module", "debug"]
    module: str | None
    build_id: str | None
    size: int


class LeftOutWire(msgspec.Struct, frozen=True, kw_only=True):
    """A file that would have been of use."""

    module: str
    build_id: str | None
    why: str


class BundleWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics bundle --format json`. Sizes are bytes."""

    schema: Literal["forensics.bundle/1"]
    path: str
    size: int
    core: str
    core_size: int
    minified: bool
    secrets: bool
    signature: str
    files: list[BundledFileWire]
    left_out: list[LeftOutWire]


def schema() -> dict[str, Any]:
    """The JSON schema that docs/schemas/forensics.bundle.1.json holds."""
    return msgspec.json.schema(BundleWire)


def render_bundle_json(bundle: Bundle) -> str:
    """The answer as JSON, ending in a newline. Strings must have been cleaned."""
    return json_text(
        BundleWire(
            schema="forensics.bundle/1",
            path=bundle.path,
            size=bundle.size_bytes,
            core=bundle.core,
            core_size=bundle.core_bytes,
            minified=bundle.minified,
            secrets=bundle.secrets,
            signature=bundle.signature,
            files=[
                BundledFileWire(
                    name=member.name,
                    kind=member.kind.value,
                    module=member.module,
                    build_id=member.build_id,
                    size=member.size_bytes,
                )
                for member in bundle.members
            ],
            left_out=[
                LeftOutWire(module=file.module, build_id=file.build_id, why=file.why)
                for file in bundle.left_out
            ],
        )
    )


def render_bundle(bundle: Bundle, style: TerminalStyle) -> str:
    """The answer as text. Strings must have been cleaned."""
    return render_parts(_parts(bundle), style)


def _parts(bundle: Bundle) -> Iterator[RenderableType]:
    yield command(f"{bundle.path}: {_size(bundle.size_bytes)}", style="head")
    counts = Counter(member.kind for member in bundle.members)
    sizes = Counter[MemberKind]()
    for member in bundle.members:
        sizes[member.kind] += member.size_bytes
    cut = ", cut down to what its explanation needs" if bundle.minified else ""
    secrets = "in it" if bundle.secrets else "taken out of the core; other memory may hold some"
    left = [f"{file.module}: {file.why}" for file in bundle.left_out]
    more = [f"and {len(left) - _MAX_LEFT_OUT} more"] if len(left) > _MAX_LEFT_OUT else []
    rows: list[tuple[str, list[str]]] = [
        ("Core", [f"{_size(bundle.core_bytes)}{cut}"]),
        ("Modules", [f"{counts[MemberKind.MODULE]}, {_size(sizes[MemberKind.MODULE])}"]),
        ("Debug", [f"{counts[MemberKind.DEBUG]}, {_size(sizes[MemberKind.DEBUG])}"]),
        ("Secrets", [f"environment and arguments are {secrets}"]),
        ("Left out", [*left[:_MAX_LEFT_OUT], *more]),
    ]
    for label, texts in rows:
        yield labelled(label, texts, _LABEL_WIDTH)
    yield steps([f"forensics core {shlex.quote(bundle.path)}    # anywhere"], _LABEL_WIDTH)


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
