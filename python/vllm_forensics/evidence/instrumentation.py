"""What a built ELF file's own bytes prove about how it was compiled.

Three independent traces are read: the dynamic symbols (what it calls), the dynamic section (which
runtimes it loads), and the debug information (with which flags each translation unit was compiled).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vllm_forensics.evidence.dwarf_units import CompileUnit, compile_units
from vllm_forensics.evidence.elf import Section, text_at
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.model.build import (
    FileKind,
    Flavour,
    FramePointers,
    PlainUnit,
    Proof,
    Sanitizer,
    Verdict,
)

_DT_NEEDED: Final = 1
_ET_EXEC: Final = 2
_PT_INTERP: Final = 3
_STB_WEAK: Final = 2
_MAX_SYMBOLS: Final = 5_000_000
_MAX_PLAIN: Final = 20
_ENTRY_POINTS: Final = {
    Sanitizer.ADDRESS: ("__asan_init",),
    Sanitizer.UNDEFINED: ("__ubsan_handle_",),
    Sanitizer.THREAD: ("__tsan_init",),
}
_NAMES: Final = {
    Sanitizer.ADDRESS: "AddressSanitizer",
    Sanitizer.UNDEFINED: "UndefinedBehaviorSanitizer",
    Sanitizer.THREAD: "ThreadSanitizer",
}
# gcc: libasan.so.8. clang: libclang_rt.asan-x86_64.so, or in its newer layout libclang_rt.asan.so
_RUNTIME: Final = re.compile(
    r"lib(?:clang_rt\.)?(?P<kind>asan|tsan|lsan|msan|hwasan|ubsan)(?:_standalone)?[-.].*so"
)
_C_FAMILY: Final = re.compile(r"GNU (?:C|C\+\+|Objective)|clang")
# What the compiler links into programs by itself: asan_preinit.o with Debian's gcc.
_COMPILERS_OWN: Final = re.compile(r"(?:^|/)(?:libsanitizer|compiler-rt|libgcc|sysdeps)/")
_SANITIZE: Final = re.compile(r"(?:^|\s)-f(no-)?sanitize=(\S+)")
_FORTIFIED: Final = re.compile(r"__\w+_chk$")
_BROUGHT: Final = (
    "it takes ThreadSanitizer's runtime from the program that loads it: python-tsan",
)
_STACK_PROTECTOR: Final = "stack-protector"
_CONTROL_FLOW: Final = "control-flow"
_FORTIFY: Final = "fortify"
_LIBRARY_ASSERTIONS: Final = "library-assertions"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Symbols:
    imported: frozenset[str]
    defined: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Units:
    """The C and C++ units, and which of them say with which flags they were compiled."""

    all: tuple[CompileUnit, ...]
    telling: tuple[CompileUnit, ...]
    link_time: bool
    """Was code made at link time, from several units?"""

    @property
    def flags_known(self) -> bool:
        return bool(self.all) and len(self.telling) == len(self.all)


def prove(module: ModuleFile, flavour: Flavour) -> Proof:
    """Judge one file against what was asked for. A program may carry its runtime inside itself."""
    program = kind_of(module) is FileKind.PROGRAM
    symbols, units = _symbols(module), _units(module)
    runtimes = tuple(name for name in _needed(module) if _RUNTIME.match(name))
    present = tuple(one for one in Sanitizer if _is_in(one, symbols, units))
    problems = [*_missing(flavour, present, units)]
    if not module.has_debug_info:
        problems.append("it has no debug information: a report could name no line")
    if not program:
        problems += _runtime_problems(flavour, symbols, runtimes, units)
    hardening = _hardening(symbols, units)
    if flavour.hardened and not _hardened(units, hardening):
        problems.append("nothing in it shows the hardening: no -fstack-protector-strong")
    plain, pointers = _plain_units(flavour, units), _frame_pointers(units)
    short_of = plain or (flavour.sanitizers and pointers is FramePointers.OMITTED)
    return Proof(
        verdict=Verdict.PLAIN if problems else Verdict.PARTLY if short_of else Verdict.PROVED,
        sanitizers=present,
        runtimes=runtimes,
        debug_info=module.has_debug_info,
        frame_pointers=pointers,
        hardening=hardening,
        units=len(units.all),
        plain_units=plain[:_MAX_PLAIN],
        problems=tuple(problems),
        notes=(
            *_notes(flavour, present, units),
            *(_BROUGHT if not program and not runtimes and _is_brought(flavour, units) else ()),
        ),
    )


def kind_of(module: ModuleFile) -> FileKind:
    """A program has an interpreter or a fixed place; a Python module has an init function."""
    if module.header.type == _ET_EXEC or any(one.type == _PT_INTERP for one in module.segments):
        return FileKind.PROGRAM
    is_module = any(name.startswith("PyInit_") for name in _symbols(module).defined)
    return FileKind.MODULE if is_module else FileKind.LIBRARY


def _is_in(sanitizer: Sanitizer, symbols: _Symbols, units: _Units) -> bool:
    """Does the code call it?

    A runtime that is linked in defines its entry points itself: then only the units can tell.
    """
    prefixes = _ENTRY_POINTS[sanitizer]
    if any(name.startswith(prefixes) for name in symbols.imported):
        return True
    inside = any(name.startswith(prefixes) for name in symbols.defined)
    return inside and len(_lacking(sanitizer, units)) < max(len(units.telling), 1)


def _missing(flavour: Flavour, present: tuple[Sanitizer, ...], units: _Units) -> Iterator[str]:
    for wanted in flavour.sanitizers:
        if wanted in present:
            continue
        # Code that holds nothing to check calls no handler; its flags say that it was looked at.
        if wanted is Sanitizer.UNDEFINED and units.flags_known and not _lacking(wanted, units):
            continue
        yield f"it does not call {_NAMES[wanted]}: no {_ENTRY_POINTS[wanted][0]} among its symbols"


def _runtime_problems(
    flavour: Flavour, symbols: _Symbols, runtimes: tuple[str, ...], units: _Units
) -> Iterator[str]:
    if not flavour.sanitizers:
        if runtimes:
            yield f"it loads {', '.join(runtimes)}, which was not asked for"
        return
    inside = [
        _NAMES[one]
        for one in flavour.sanitizers
        if any(name.startswith(_ENTRY_POINTS[one]) for name in symbols.defined)
    ]
    if inside:
        yield (
            f"it carries the runtime of {inside[0]} inside itself (-static-lib…): the process "
            "would have two"
        )
    # gcc keeps UndefinedBehaviorSanitizer in a library of its own, also beside libasan.
    main = [name for name in runtimes if _kind(name) != "ubsan"]
    companions = [name for name in runtimes if _kind(name) == "ubsan"]
    if len(main) > 1 or len(companions) > 1 or (companions and _vendors(runtimes) > 1):
        yield f"it loads more than one sanitizer runtime: {', '.join(runtimes)}"
    needs_one = any(_is_in(one, symbols, units) for one in flavour.sanitizers)
    if needs_one and not runtimes and not inside and not _is_brought(flavour, units):
        yield "it names no sanitizer runtime in DT_NEEDED: it could be loaded into no plain program"


def _is_brought(flavour: Flavour, units: _Units) -> bool:
    """Clang's ThreadSanitizer: the shared runtime of LLVM 14 crashes, the program's own serves."""
    of_clang = any("clang" in unit.producer for unit in units.all)
    return Sanitizer.THREAD in flavour.sanitizers and of_clang


def _kind(runtime: str) -> str:
    match = _RUNTIME.match(runtime)
    return match["kind"] if match else ""


def _vendors(runtimes: tuple[str, ...]) -> int:
    return len({"clang" if "clang_rt" in name else "gcc" for name in runtimes})


def _plain_units(flavour: Flavour, units: _Units) -> tuple[PlainUnit, ...]:
    lacking: list[CompileUnit] = []
    for wanted in flavour.sanitizers:
        lacking += [unit for unit in _lacking(wanted, units) if unit not in lacking]
    if flavour.hardened:
        lacking += [unit for unit in units.telling if not _protects_the_stack(unit)]
    return tuple(PlainUnit(name=unit.name, producer=unit.producer) for unit in lacking)


def _lacking(wanted: Sanitizer, units: _Units) -> list[CompileUnit]:
    return [unit for unit in units.telling if wanted.value not in _sanitized_for(unit)]


def _sanitized_for(unit: CompileUnit) -> set[str]:
    found: set[str] = set()
    for match in _SANITIZE.finditer(unit.producer):
        names = set(match[2].split(","))
        found = found - names if match[1] else found | names
        if match[1] and "all" in names:
            found = set()
    return found


def _frame_pointers(units: _Units) -> FramePointers:
    if not units.flags_known:
        return FramePointers.UNKNOWN
    kept = all("-fno-omit-frame-pointer" in unit.producer.split() for unit in units.all)
    return FramePointers.KEPT if kept else FramePointers.OMITTED


def _hardening(symbols: _Symbols, units: _Units) -> tuple[str, ...]:
    found = []
    every = bool(units.telling) and all(_protects_the_stack(unit) for unit in units.telling)
    if every or "__stack_chk_fail" in symbols.imported:
        found.append(_STACK_PROTECTOR)
    if any(_FORTIFIED.match(name) for name in symbols.imported):
        found.append(_FORTIFY)
    if units.telling and all("-fcf-protection" in unit.producer for unit in units.telling):
        found.append(_CONTROL_FLOW)
    if any("glibcxx_assert_fail" in name for name in symbols.imported):
        found.append(_LIBRARY_ASSERTIONS)
    return tuple(found)


def _hardened(units: _Units, hardening: tuple[str, ...]) -> bool:
    if units.telling:
        return any(_protects_the_stack(unit) for unit in units.telling)
    return _STACK_PROTECTOR in hardening


def _protects_the_stack(unit: CompileUnit) -> bool:
    words = unit.producer.split()
    return "-fstack-protector-strong" in words or "-fstack-protector-all" in words


def _notes(flavour: Flavour, present: tuple[Sanitizer, ...], units: _Units) -> Iterator[str]:
    undefined = Sanitizer.UNDEFINED
    if undefined in flavour.sanitizers and undefined not in present and units.all:
        yield "there was nothing for UndefinedBehaviorSanitizer to check in it"
    if units.link_time:
        yield "it was optimised at link time: functions of several files may be merged"
    if units.all and not units.flags_known:
        yield "its compiler does not record its flags: file by file nothing can be said"


def _units(module: ModuleFile) -> _Units:
    every = tuple(compile_units(module))
    found = tuple(
        unit
        for unit in every
        if _C_FAMILY.search(unit.producer) and not _COMPILERS_OWN.search(unit.name)
    )
    return _Units(
        all=found,
        telling=tuple(unit for unit in found if " -" in unit.producer),
        link_time=any("GNU GIMPLE" in unit.producer or " -flto" in unit.producer for unit in every),
    )


def _needed(module: ModuleFile) -> Iterator[str]:
    dynamic = _section(module, ".dynamic")
    if dynamic is None or dynamic.link >= len(module.sections):
        return
    names = module.sections[dynamic.link]
    strings = module.data[names.offset : names.offset + names.size]
    raw = module.data[dynamic.offset : dynamic.offset + dynamic.size]
    row = module.header.layout.dynamic
    for tag, value in row.iter_unpack(raw[: len(raw) // row.size * row.size]):
        if tag == _DT_NEEDED:
            yield text_at(strings, value)


def _symbols(module: ModuleFile) -> _Symbols:
    imported: set[str] = set()
    defined: set[str] = set()
    table = _section(module, ".dynsym")
    if table is not None and table.link < len(module.sections):
        names = module.sections[table.link]
        strings = module.data[names.offset : names.offset + names.size]
        raw = module.data[table.offset : table.offset + table.size]
        layout = module.header.layout
        count = min(len(raw) // layout.symbol.size, _MAX_SYMBOLS)
        for name, info, _, section, _, _ in layout.symbols(raw[: count * layout.symbol.size]):
            if section:
                defined.add(text_at(strings, name))
            elif info >> 4 != _STB_WEAK:
                # clang's runtimes ask weakly for each other's entry points.
                imported.add(text_at(strings, name))
    return _Symbols(imported=frozenset(imported), defined=frozenset(defined))


def _section(module: ModuleFile, name: str) -> Section | None:
    return next((section for section in module.sections if section.name == name), None)
