"""Uncaught exceptions, found by their header in memory, laid out as the C++ ABI says."""

from dataclasses import replace

import pytest
from tests.py.support.images import (
    CODE,
    DATA,
    HEAP,
    RODATA,
    SP,
    FakeImage,
    a_frame,
    context_of,
    crash_image,
    libc_frame,
    segv,
    sent_by_self,
    words,
)

from vllm_forensics.diagnosis.exceptions import uncaught_exception
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.process import Architecture, Signal, Symbol

ABORT = sent_by_self(6)
HEADER = HEAP + 0x50
"""_Unwind_Exception: its class is the first word."""
OBJECT = HEADER + 0x20
TYPE_INFO = DATA
TYPE_NAME = RODATA
VTABLE = DATA + 0x100
TEXT = HEAP + 0x800
GNU = int.from_bytes(b"GNUCC++\0", "big")
WHAT = Symbol(name="_ZNKSt13runtime_error4whatEv", address=CODE + 0x800, size=16)


def thrown(
    mangled: bytes = b"St13runtime_error",
    *,
    what: Symbol = WHAT,
    exception_class: int = GNU,
    bases: tuple[bytes, ...] = (),
    frames: tuple[str, ...] = ("abort", "std::terminate", "__cxa_throw"),
    signal: Signal = ABORT,
) -> FakeImage:
    """An object of type `mangled` was thrown; a pointer to its header is on the stack."""
    block = bytearray(0x200)
    block[0x00:0x08] = words(TYPE_INFO)  # __cxa_exception::exceptionType, 0x70 before the object
    block[0x50:0x58] = words(exception_class)
    block[0x70:0x80] = words(VTABLE, TEXT)
    types = bytearray(0x100)
    names = bytearray(0x400)
    for level, name in enumerate((mangled, *bases)):
        follows = TYPE_INFO + 0x20 * (level + 1) if level < len(bases) else 0
        types[0x20 * level : 0x20 * level + 24] = words(0, TYPE_NAME + 0x40 * level, follows)
        names[0x40 * level : 0x40 * level + len(name)] = name
    return crash_image(
        signal=signal,
        frames=(*(libc_frame(at, name) for at, name in enumerate(frames)), a_frame(9, "work")),
        memory={
            HEAP: bytes(block),
            TEXT: b"no such block: 7\0" + bytes(4096),
            TYPE_INFO: bytes(types),
            VTABLE: words(0, 0, what.address),
            TYPE_NAME: bytes(names) + bytes(4096),
            SP: words(3, HEAP + 8, HEADER, 0),
        },
        functions=(what,),
    )


def found(image: FakeImage) -> Finding:
    finding = uncaught_exception(image, context_of(image))
    assert finding is not None
    return finding


@pytest.mark.parametrize("exception_class", [GNU, int.from_bytes(b"CLNGC++\0", "big")])
def test_type_and_text_are_read_from_the_object(exception_class: int) -> None:
    finding = found(thrown(exception_class=exception_class))

    assert finding.kind is FaultKind.UNCAUGHT_EXCEPTION
    assert finding.message == "std::runtime_error: no such block: 7"
    assert "the exception object's type_info names std::runtime_error" in finding.proof


def test_a_derived_type_that_inherits_what_has_the_text_too() -> None:
    finding = found(thrown(b"N4vllm10BlockErrorE", bases=(b"St13runtime_error",)))

    assert finding.message == "vllm::BlockError: no such block: 7"


def test_a_type_with_its_own_what_keeps_its_text_to_itself() -> None:
    own = Symbol(name="_ZNK4vllm10BlockError4whatEv", address=CODE + 0x900, size=16)

    finding = found(thrown(b"N4vllm10BlockErrorE", bases=(b"St13runtime_error",), what=own))

    assert finding.message == "vllm::BlockError"


def test_a_type_that_is_no_runtime_error_is_not_read_as_one() -> None:
    assert found(thrown(b"i")).message == "int"


def test_a_name_of_internal_linkage_loses_its_star() -> None:
    assert found(thrown(b"*N12_GLOBAL__N_15ErrorE")).message == "(anonymous namespace)::Error"


def test_terminate_without_an_exception_is_an_abort_that_says_so() -> None:
    finding = found(thrown(exception_class=0))

    assert finding.kind is FaultKind.ABORT
    assert "without an exception in flight" in finding.summary


def test_an_exception_on_the_heap_that_nobody_ended_on_is_not_reported() -> None:
    image = thrown(frames=("raise", "abort"))

    assert uncaught_exception(image, context_of(image)) is None


def test_a_segfault_under_terminate_is_no_uncaught_exception() -> None:
    image = thrown(signal=segv(0))

    assert uncaught_exception(image, context_of(image)) is None


def test_bases_in_a_circle_end() -> None:
    image = thrown(b"N4vllm1AE")
    circle = bytearray(image.memory[TYPE_INFO])
    circle[16:24] = words(TYPE_INFO)
    memory = dict(image.memory) | {TYPE_INFO: bytes(circle)}

    finding = found(FakeImage(**(vars(image) | {"memory": memory})))

    assert finding.message == "vllm::A"


@pytest.mark.parametrize("lost", [SP, HEAP, TYPE_INFO, TYPE_NAME])
def test_an_exception_in_memory_that_is_lost_is_not_denied(lost: int) -> None:
    image = thrown()
    memory = {at: held for at, held in image.memory.items() if at != lost}

    finding = found(FakeImage(**(vars(image) | {"memory": memory})))

    assert finding.kind is FaultKind.ABORT
    assert "without an exception" not in finding.summary
    assert "whether an exception was in flight, and which, cannot be known: no" in finding.summary
    assert finding.proof == ("__cxa_throw is on the stack",)


def test_a_text_that_is_lost_is_not_said_to_be_elsewhere() -> None:
    image = thrown()
    memory = {at: held for at, held in image.memory.items() if at != TEXT}

    finding = found(FakeImage(**(vars(image) | {"memory": memory})))

    assert finding.message == "std::runtime_error"
    assert f"its text cannot be read: no bytes at {TEXT:#x}" in finding.summary


def test_an_exception_of_a_32_bit_program_is_not_denied() -> None:
    image = thrown(exception_class=0)
    process = replace(image.process, architecture=Architecture.I386)

    finding = found(FakeImage(**(vars(image) | {"process": process})))

    assert "cannot be known: exception objects of i386 are not read" in finding.summary
