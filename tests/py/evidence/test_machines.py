"""The table of architectures."""

import pytest

from vllm_forensics.evidence.dwarf_registers import dwarf_registers
from vllm_forensics.evidence.machines import MACHINES, machine_of
from vllm_forensics.evidence.signal_frame import parse_siginfo
from vllm_forensics.model.process import Architecture, Signal


def test_every_architecture_has_its_row() -> None:
    assert set(MACHINES) == set(Architecture)


@pytest.mark.parametrize("architecture", Architecture)
def test_what_a_row_names_is_among_its_registers(architecture: Architecture) -> None:
    machine = MACHINES[architecture]
    link = architecture.link_register

    names = {machine.pc, machine.sp, *machine.dwarf.values(), *([link] if link else [])}

    assert names <= set(machine.registers)
    assert machine.words.size == len(machine.registers) * architecture.word_size


@pytest.mark.parametrize(
    ("number", "word_size", "order"),
    [(62, 4, "little"), (21, 8, "big"), (3, 8, "little"), (22, 8, "little"), (40, 4, "little")],
)
def test_another_class_or_order_is_another_machine(number: int, word_size: int, order: str) -> None:
    assert machine_of(number, word_size, order) is None


def test_only_known_registers_are_handed_to_the_unwinder() -> None:
    registers = dwarf_registers(Architecture.PPC64LE, {"r1": 7, "lr": 9, "msr": 1})

    assert registers == ((1, 7), (65, 9))


def test_a_siginfo_of_32_bits_has_its_union_earlier() -> None:
    raw = bytes.fromhex("0b000000 00000000 01000000 04000000")

    signal = parse_siginfo(raw, MACHINES[Architecture.I386])

    assert signal == Signal(number=11, code=1, address=4)


def test_a_siginfo_of_the_other_byte_order() -> None:
    raw = bytes.fromhex("0000000b 00000000 00000001 00000000 0000000000000008")

    signal = parse_siginfo(raw, MACHINES[Architecture.S390X])

    assert signal == Signal(number=11, code=1, address=8)
