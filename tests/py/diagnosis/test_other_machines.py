"""Rules on other architectures than x86-64, and signals of which only the number is known."""

from dataclasses import replace

import pytest
from tests.py.support.images import (
    CODE,
    HEAP,
    STACK,
    FakeImage,
    a_process,
    context_of,
    crash_image,
    segv,
)

from vllm_forensics.diagnosis.access import memory_accesses, register_value
from vllm_forensics.diagnosis.calls import is_called_on_null
from vllm_forensics.diagnosis.explain import diagnose
from vllm_forensics.diagnosis.memory import read_pointer
from vllm_forensics.diagnosis.rules import find_fault
from vllm_forensics.model.answer import Known
from vllm_forensics.model.finding import Access, FaultKind
from vllm_forensics.model.process import Address, Architecture, Signal, Symbol, Thread
from vllm_forensics.model.signals import code_name

LOAD = "08 00 40 f9"  # ldr x8, [x0]


def number_only(number: int) -> Signal:
    return Signal(number=number, code=0, is_recorded=False)


def machine_image(
    architecture: Architecture, code: str, signal: Signal, registers: dict[str, int], pc: str = "pc"
) -> FakeImage:
    image = crash_image(code, signal=signal)
    known = {pc: CODE} | registers
    thread = Thread(tid=7, crashed=True, registers=known, pc=CODE, sp=STACK + 0x100)
    process = replace(a_process(), architecture=architecture)
    return replace(image, process=process, threads=(thread,), stacks={})


def test_a_signal_without_siginfo_says_so() -> None:
    assert code_name(number_only(11)) == "si_code not recorded"
    assert code_name(Signal(number=11, code=0)) == "SI_USER"


def test_the_operand_explains_a_fault_that_is_not_recorded() -> None:
    image = machine_image(
        Architecture.AARCH64, LOAD, number_only(11), {"x0": 8, "pstate": 0, "sp": STACK}
    )

    finding = find_fault(image, context_of(image))

    assert (finding.kind, finding.address, finding.size) == (FaultKind.NULL_DEREFERENCE, 8, 8)
    assert finding.proof[0] == "the core records neither si_code nor si_addr"


def test_an_operand_that_can_be_read_explains_nothing() -> None:
    image = machine_image(
        Architecture.AARCH64, LOAD, number_only(11), {"x0": HEAP, "pstate": 0, "sp": STACK}
    )

    assert find_fault(image, context_of(image)).kind is FaultKind.UNKNOWN


@pytest.mark.parametrize(
    ("pc", "kind"), [(0, FaultKind.NULL_CALL), (0xDEAD_0000_0000, FaultKind.WILD_POINTER)]
)
def test_a_program_counter_without_code_explains_it_too(pc: Address, kind: FaultKind) -> None:
    image = crash_image(signal=number_only(11), pc=pc)

    finding = find_fault(image, context_of(image))

    assert (finding.kind, finding.access, finding.address) == (kind, Access.EXECUTE, pc)


def test_an_abort_without_siginfo_does_not_name_its_sender() -> None:
    image = crash_image("90", signal=number_only(6))

    finding = find_fault(image, context_of(image))

    assert finding.kind is FaultKind.ABORT
    assert "does not record who sent it" in finding.proof[0]


def test_a_tagged_pointer_of_aarch64_is_looked_up_without_its_tag() -> None:
    tagged = 0xB4 << 56 | HEAP
    image = machine_image(
        Architecture.AARCH64, LOAD, segv(HEAP), {"x0": tagged, "pstate": 0, "sp": STACK}
    )

    (access,) = memory_accesses(image, context_of(image))

    assert access.address == HEAP


def test_bits_above_47_are_no_fault_of_their_own_on_aarch64() -> None:
    image = machine_image(
        Architecture.AARCH64, LOAD, number_only(11), {"x0": 1 << 52, "pstate": 0, "sp": STACK}
    )

    assert find_fault(image, context_of(image)).kind is FaultKind.WILD_POINTER


def test_a_call_on_aarch64_writes_nothing_to_the_stack() -> None:
    image = machine_image(  # blr x0
        Architecture.AARCH64, "00 00 3f d6", segv(0), {"x0": 0, "pstate": 0, "sp": STACK}
    )

    assert memory_accesses(image, context_of(image)) == ()


def test_a_push_of_i386_writes_four_bytes() -> None:
    image = machine_image(  # push eax
        Architecture.I386, "50", segv(0xFFC), {"eax": 1, "esp": 0x1000}, pc="eip"
    )
    (thread,) = image.threads
    image = replace(image, threads=(replace(thread, sp=0x1000),))

    (access,) = memory_accesses(image, context_of(image))

    assert (access.address, access.size, access.operand) == (0xFFC, 4, "[esp - 0x4]")


def test_an_address_of_i386_wraps_at_32_bits() -> None:
    image = machine_image(  # mov eax, [eax + 8]
        Architecture.I386, "8b 40 08", segv(4), {"eax": 0xFFFF_FFFC, "esp": STACK}, pc="eip"
    )

    (access,) = memory_accesses(image, context_of(image))

    assert access.address == 4


def test_a_part_of_a_register_of_i386() -> None:
    assert register_value("al", {"eax": 0x1234}) == 0x34


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        (Architecture.X86_64, 0x0807_0605_0403_0201),
        (Architecture.I386, 0x0403_0201),
        (Architecture.S390X, 0x0102_0304_0506_0708),
    ],
)
def test_a_pointer_has_the_size_and_order_of_its_machine(
    architecture: Architecture, expected: int
) -> None:
    image = crash_image(signal=segv(0), memory={HEAP: bytes(range(1, 9))})
    image = replace(image, process=replace(a_process(), architecture=architecture))

    assert read_pointer(image, HEAP) == expected


def test_the_link_register_names_the_caller_of_a_null_function() -> None:
    image = machine_image(
        Architecture.AARCH64, "", segv(0), {"x30": CODE + 8, "sp": STACK, "pstate": 0}
    )
    (thread,) = image.threads
    image = replace(image, threads=(replace(thread, pc=0),))

    finding = find_fault(image, context_of(image))

    assert finding.kind is FaultKind.NULL_CALL
    assert any("the link register x30" in line for line in finding.proof)


@pytest.mark.parametrize(
    ("code", "at", "expected"),
    [
        ("48 8b 47 08", 0, True),  # mov rax, [rdi + 8]: the object itself
        ("48 8b 3f 48 8b 47 08", 3, False),  # mov rdi, [rdi]; mov rax, [rdi + 8]: what it held
    ],
)
def test_a_register_that_was_written_holds_the_object_no_more(
    code: str, at: int, expected: bool
) -> None:
    image = crash_image(code, at=at, signal=segv(8), registers={"rdi": 0})
    member = Symbol(name="_ZNK3app5Block4sizeEv", address=CODE, size=16)
    image = replace(image, functions=(member,))

    assert is_called_on_null(image, context_of(image)) is expected


def test_every_architecture_gets_some_answer() -> None:
    for architecture in Architecture:
        image = machine_image(architecture, "00 00 00 00 00 00 00 00", number_only(11), {})
        diagnosis = diagnose(image)
        assert diagnosis is not None
        assert isinstance(image.read(CODE, 4), Known)
