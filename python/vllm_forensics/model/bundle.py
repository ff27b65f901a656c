"""A core packed with the files that it is read by, to be explained on another machine."""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.record import dataclass


class MemberKind(StrEnum):
    """What a file in a bundle is."""

    CORE = "core"
    MODULE = "module"
    DEBUG = "debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file that goes into a bundle."""

    kind: MemberKind
    name: str
    """Within the bundle."""
    source: str
    """Its path on this machine."""
    size_bytes: int
    module: str | None = None
    """The module's path where it crashed."""
    build_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file that would have been of use."""

    module: str
    build_id: str | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What was packed."""

    path: str
    size_bytes: int
    core: str
    core_bytes: int
    minified: bool
    """Only a part of the core's memory is in it."""
    secrets: bool
    """Environment and arguments are in it."""
    signature: str
    members: tuple[Member, ...]
    left_out: tuple[LeftOut, ...]
