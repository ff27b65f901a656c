"""Judges whether sanitizers can work on a machine: what stops them, and what to type about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vllm_forensics.diagnosis.sanitizer.traps import (
    ADDRESS_SPACE,
    ALLOCATORS,
    LINK_ORDER,
    LINK_ORDER_REFUSED,
    find_traps,
)
from vllm_forensics.diagnosis.wording import size_text
from vllm_forensics.model.machine import Check, MachineFacts, SanitizerFacts, Verdict

_FALSE: Final = {"0", "false", "no"}
_WIDE_BITS: Final = 28
_NARROW_SHADOW: Final = {"g++": 13, "clang++": 17}
"""The last version of each compiler whose runtimes fail where addresses are randomised widely."""


def judge_sanitizers(facts: MachineFacts) -> list[Check]:
    """Every check on sanitizers, as far as something of them was read."""
    found = facts.sanitizers
    checks = [] if found is None else [check for rule in _RULES for check in rule(found)]
    return [*checks, *_address_bits(facts.mmap_rnd_bits, found)]


def _runtimes(facts: SanitizerFacts) -> list[Check]:
    checks = []
    for compiler in facts.compilers:
        name = f"{compiler.name} runtimes"
        if compiler.missing:
            found = f"{', '.join(compiler.missing)} cannot be preloaded, nor linked as a library"
            checks.append(_warn(name, found, compiler.remedy or ""))
        else:
            checks.append(_good(name, "asan, ubsan, tsan"))
        spaced = [path for path in compiler.runtimes if " " in path or ":" in path]
        if spaced:
            found = f"{spaced[0]}: LD_PRELOAD cannot hold this path"
            checks.append(
                _warn(name, found, "forensics run --asan    # it makes a link; by hand: ln -s")
            )
    return checks


def _start(facts: SanitizerFacts) -> list[Check]:
    name = "sanitizer start"
    if facts.start is None:
        return []
    if not facts.start:
        return [_good(name, "Python started with AddressSanitizer's runtime preloaded")]
    for trap in find_traps(facts.start):
        return [_bad(name, trap.what, trap.remedy)]
    return [_bad(name, facts.start.splitlines()[0], "forensics build --asan    # a launcher")]


def _preload(facts: SanitizerFacts) -> list[Check]:
    taken = [path for path in facts.preloaded if any(name in path for name in ALLOCATORS)]
    if taken:
        found = f"LD_PRELOAD holds {taken[0]}: with it, {LINK_ORDER.what}"
        return [_warn("LD_PRELOAD", found, "forensics run --asan    # it takes it out")]
    if facts.preloaded:
        found = f"{', '.join(facts.preloaded)}: a sanitizer's runtime must come before"
        return [_warn("LD_PRELOAD", found, "forensics run --asan    # it puts the runtime first")]
    return []


def _address_space(facts: SanitizerFacts) -> list[Check]:
    name = "address limit"
    if facts.address_space_limit != -1:
        found = f"limited to {size_text(facts.address_space_limit)}: {ADDRESS_SPACE.what}"
        return [_bad(name, found, "ulimit -v unlimited")]
    if facts.overcommit == 2:
        found = f"overcommit_memory is 2: {ADDRESS_SPACE.what}"
        return [_bad(name, found, "as root: sysctl vm.overcommit_memory=0")]
    return [_good(name, "unlimited, as the runtimes' shadow memory needs it")]


def _options(facts: SanitizerFacts) -> list[Check]:
    checks = []
    for variable, option, value in facts.options:
        name = variable
        if option == "verify_asan_link_order" and value in _FALSE:
            checks.append(_bad(name, LINK_ORDER_REFUSED.what, f"unset {variable}"))
        elif option == "detect_leaks" and value not in _FALSE:
            found = "detect_leaks=1: leaks are looked for with ptrace; under gdb, strace or a "
            found += "supervisor it fails at exit"
            remedy = "ASAN_OPTIONS=detect_leaks=0    # forensics run does not trace where it is 1"
            checks.append(_warn(name, found, remedy))
        elif option == "exitcode" and value == "1":
            found = "exitcode=1: a report cannot be told from a Python exception"
            checks.append(_warn(name, found, f"{variable}=exitcode=86"))
        elif option == "log_path" and value in facts.unwritable:
            found = f"log_path={value} cannot be written: its report would be lost"
            checks.append(_bad(name, found, f"ls -ld {value.rpartition('/')[0] or '.'}"))
    return checks


def _others(facts: SanitizerFacts) -> list[Check]:
    checks = []
    words = facts.valgrind or "not installed; forensics run --valgrind needs it"
    checks.append(_good("valgrind", words))
    sampled = facts.scudo or "Scudo is not here; forensics run --sample needs libclang-rt-N-dev"
    checks.append(_good("sampling", sampled))
    return checks


def _address_bits(bits: int | None, found: SanitizerFacts | None) -> list[Check]:
    if bits is None or bits <= _WIDE_BITS:
        return []
    old = ["older compilers"]
    if found is not None:
        old = [
            f"{compiler.name} {compiler.major}"
            for compiler in found.compilers
            if compiler.major is not None and compiler.major <= _NARROW_SHADOW.get(compiler.name, 0)
        ]
    if not old:
        return []
    words = f"mmap_rnd_bits {bits}: the runtimes of {', '.join(old)} fail at start, now and then"
    return [_warn("address space", words, "as root: sysctl vm.mmap_rnd_bits=28")]


def _good(name: str, found: str) -> Check:
    return Check(name=name, verdict=Verdict.GOOD, found=found)


def _warn(name: str, found: str, remedy: str) -> Check:
    return Check(name=name, verdict=Verdict.WARNING, found=found, remedy=remedy)


def _bad(name: str, found: str, remedy: str) -> Check:
    return Check(name=name, verdict=Verdict.BAD, found=found, remedy=remedy)


_RULES: Final[tuple[Callable[[SanitizerFacts], list[Check]], ...]] = (
    _runtimes, _start, _preload, _address_space, _options, _others,
)  # fmt: skip
