"""A build under sanitizers: what was asked for, what came out, and whether that is proved.

The manifest is written beside the build as build.json and printed by `forensics build --format
json`; `forensics run --build` reads it back. Both have the schema forensics.build/1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Sanitizer(StrEnum):
    """As -fsanitize= takes them."""

    ADDRESS = "address"
    UNDEFINED = "undefined"
    THREAD = "thread"


class Verdict(StrEnum):
    """What a library's own bytes say about how it was built."""

    PROVED = "proved"
    PARTLY = "partly"
    """Some of its translation units were compiled without what was asked for."""
    PLAIN = "plain"
    """What was asked for is not in it."""


class FramePointers(StrEnum):
    """Whether each function keeps a frame pointer, which fast unwinding follows."""

    KEPT = "kept"
    OMITTED = "omitted"
    UNKNOWN = "unknown"


class FileKind(StrEnum):
    """What a built ELF file is."""

    MODULE = "module"
    """A Python extension module."""
    LIBRARY = "library"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """What to build with. Without sanitizers and hardening: a plain build with its debug lines."""

    sanitizers: tuple[Sanitizer, ...] = ()
    hardened: bool = False

    @property
    def name(self) -> str:
        """The name of its folder: asan, asan-ubsan, ubsan, tsan, hardened or debug."""
        short = {
            Sanitizer.ADDRESS: "asan",
            Sanitizer.UNDEFINED: "ubsan",
            Sanitizer.THREAD: "tsan",
        }
        return "-".join(short[one] for one in self.sanitizers) or (
            "hardened" if self.hardened else "debug"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """The compilers that were used."""

    family: str
    """gcc or clang."""
    c: str
    cxx: str
    version: str
    runtimes: tuple[str, ...] = ()
    """The sanitizer runtimes' resolved paths, in the order in which a preload needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPython:
    """The virtual environment that holds the result. Paths on this machine."""

    executable: str
    """The environment's own python."""
    base: str
    """The Python that it was made from."""
    version: str
    launcher: str | None = None
    """python-asan: starts that Python with the runtime linked in. None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainUnit:
    """A translation unit that was compiled without what was asked for."""

    name: str
    """Its source, as its debug information names it."""
    producer: str
    """The compiler and its flags, as the debug information records them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What one file's bytes show. Nothing of it is taken from how the build was called."""

    verdict: Verdict
    sanitizers: tuple[Sanitizer, ...] = ()
    """Those whose entry points are among the dynamic symbols."""
    runtimes: tuple[str, ...] = ()
    """Sanitizer runtimes in DT_NEEDED."""
    debug_info: bool = False
    frame_pointers: FramePointers = FramePointers.UNKNOWN
    hardening: tuple[str, ...] = ()
    """Checks that were found: stack-protector, fortify, control-flow, library-assertions."""
    units: int = 0
    """C and C++ translation units in the debug information."""
    plain_units: tuple[PlainUnit, ...] = ()
    problems: tuple[str, ...] = ()
    """What is missing or wrong, a sentence each."""
    notes: tuple[str, ...] = ()
    """What is worth knowing and does not spoil the proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFile:
    """An ELF file that came out."""

    path: str
    kind: FileKind
    build_id: str | None
    proof: Proof
    reasons: tuple[str, ...] = ()
    """Why it came out plain, as far as the build's own traces show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerCall:
    """One call of the compiler, as its stand-in recorded it."""

    folder: str
    arguments: tuple[str, ...]
    """With the compiler's name first, and without the flags that were appended."""

    @property
    def output(self) -> str | None:
        """What `-o` names."""
        for name, value in zip(self.arguments, self.arguments[1:], strict=False):
            if name == "-o":
                return value
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a project's build files."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTrace:
    """What a build left to tell how one of its files came to be."""

    twin: str | None
    """A file of the source tree with the same contents or build-id."""
    linked_by: CompilerCall | None
    """The call of the given compiler that wrote a file of this name."""
    compiler_lines: tuple[SourceLine, ...] = ()
    """Lines of the build files that choose a compiler."""
    strip_lines: tuple[SourceLine, ...] = ()
    """Lines of the build files that take names and lines away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the build."""

    name: str
    seconds: float
    command: str | None = None
    """What was started, as a shell takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildManifest:
    """One build. Every path is absolute and on this machine."""

    source: str
    folder: str
    flavour: str
    sanitizers: tuple[Sanitizer, ...]
    hardened: bool
    system: str
    """How it was built: scikit-build-core, setuptools, meson-python, cmake, specimen …"""
    compiler: Compiler
    python: BuildPython | None
    """None where no Python takes part: bare CMake."""
    files: tuple[BuiltFile, ...]
    modules: tuple[str, ...]
    """Names to import, for what the build installed."""
    steps: tuple[Step, ...]
    started: str
    """ISO 8601, UTC."""
    seconds: float
    log: str | None
    next_steps: tuple[str, ...] = ()
    example: str | None = None
    """A Python program that calls what was built, rightly and then wrongly; None: none known."""

    @property
    def proved(self) -> bool:
        """Did something come out, and none of it plain?"""
        return bool(self.files) and all(
            file.proof.verdict is not Verdict.PLAIN for file in self.files
        )
