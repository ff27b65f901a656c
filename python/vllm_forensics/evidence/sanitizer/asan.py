"""AddressSanitizer: https://clang.llvm.org/docs/AddressSanitizer.html and asan_errors.cpp."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import (
    HEX,
    OWNER_RULES,
    SHADOW_RULES,
    SIGNAL_RULES,
)
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section, first_of

KINDS: Final = (
    # Headers that name their kind only in SUMMARY, which may be cut off.
    (r"attempting double-free", "double-free"),
    (r"attempting free on address", "bad-free"),
    (r"attempting to call malloc_usable_size", "bad-malloc_usable_size"),
    (
        r"attempting to call __sanitizer_get_allocated_size",
        "bad-__sanitizer_get_allocated_size",
    ),
    (r"calloc parameters overflow", "calloc-overflow"),
    (r"reallocarray parameters overflow", "reallocarray-overflow"),
    (r"pvalloc parameters overflow", "pvalloc-overflow"),
    (r"invalid allocation alignment", "invalid-allocation-alignment"),
    (r"invalid alignment requested in aligned_alloc", "invalid-aligned-alloc-alignment"),
    (r"invalid alignment requested in posix_memalign", "invalid-posix-memalign-alignment"),
    (r"requested allocation size", "allocation-size-too-big"),
    (r"specified RSS limit exceeded", "rss-limit-exceeded"),
    (r"allocator exceeded the RSS limit", "rss-limit-exceeded"),
    (r"hard rss limit exhausted", "rss-limit-exceeded"),
    (r"soft rss limit exhausted", "rss-limit-exceeded"),
    (r"allocator is out of memory|out of memory: allocator|failed to allocate", "out-of-memory"),
    (r"CHECK failed", "check-failed"),
    (
        r"bad parameters to (?P<name>__sanitizer_\w+)",
        "bad-{name}",
    ),
    # Windows names
    (r"access-violation|crashed on ", "segv"),
    (r"illegal-instruction|illegal instruction", "ill"),
    (r"breakpoint", "trap"),
    (r"int-divide-by-zero|flt-divide-by-zero|integer divide by zero", "fpe"),
    (r"in-page-error", "bus"),
    (r"UNKNOWN SIGNAL", "unknown-signal"),
    (r"(?P<name>[\w-]+-param-overlap)", "{name}"),
    (r"(?P<name>[A-Za-z][\w-]*)(?: \([^)]*\))?(?:[ :;]|$)", "{name}"),
)
_KIND: Final = first_of(pattern for pattern, _ in KINDS)
_ADDRESS: Final = re.compile(
    rf"(?:on (?:unknown )?address|malloc\(\)-ed:|not owned:|\bon) ({HEX})(?![0-9a-fA-F])"
)
_ACCESS: Final = re.compile(r" (READ|WRITE) of size (\d{1,18}) at 0x")
"""On the header's line where a newline was lost."""
_PC: Final = re.compile(rf"\bpc ({HEX})")
_THREAD: Final = re.compile(rf"\bthread (T\d+)|\bsp {HEX} (T\d+)\)|\((T\d+)\)")


def kind_of(message: str) -> str | None:
    """The SUMMARY name, in lower case, that a header's words stand for."""
    match = _KIND.match(message)
    if match is None:
        return None
    pattern, name = KINDS[int((match.lastgroup or "r0")[1:])]
    if "{" in name:
        detail = re.match(pattern, message)
        name = name.format(**(detail.groupdict() if detail is not None else {})).lower()
    return name


def read_header(report: ReportBuilder, message: str) -> None:
    """Kind, address, pc and thread out of a header's words."""
    report.message = message
    report.kind = kind_of(message)
    match = _ADDRESS.search(message)
    if match is not None:
        report.address = match[1]
    match = _PC.search(message)
    if match is not None:
        report.pc = match[1]
    match = _THREAD.search(message)
    if match is not None:
        report.thread = match[1] or match[2] or match[3]
    match = _ACCESS.search(message)
    if match is not None:
        report.access_type, report.access_size = match[1], int(match[2])


def _on_device(report: ReportBuilder, match: re.Match[str]) -> None:
    report.access_type, report.access_size = match["type"], int(match["size"])
    report.thread = f"workgroup {match['group']}"
    report.set_stack_thread(report.thread)


def _memory_map_end(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    report.done = True


RUNTIME: Final = Runtime(
    name="AddressSanitizer",
    dumps_shadow=True,
    rules=(
        Fact(  # a GPU of AMD's
            r"(?P<type>READ|WRITE) of size (?P<size>\d+) in workgroup id "
            r"(?P<group>\([\d,]{5,40}\))",
            _on_device,
        ),
        *SHADOW_RULES,
        *OWNER_RULES,
        *SIGNAL_RULES,
        Section(r"registered at:|\[[12]\]:$|These globals were registered", None),
        Fact(r"\[[12]\] size=\d+ '"),
        Fact(r"object passed to delete has wrong type|size of the (?:de)?allocated type"),
        Fact(r"alignment of the (?:de)?allocated type|(?:beg|end|old_mid|new_mid) +: 0x"),
        Fact(r"(?:==\d+==)?Process memory map follows"),
        Fact(r"0x[0-9a-f]{8,16}-0x[0-9a-f]{8,16}"),
        Fact(r"(?:==\d+==)?End of process memory map", _memory_map_end),
    ),
)
