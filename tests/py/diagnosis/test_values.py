"""What a number in a register means."""

from dataclasses import replace

import pytest
from tests.py.support.images import (
    CODE,
    GUARD,
    HEAP,
    MAPPINGS,
    SP,
    FakeImage,
    context_of,
    crash_image,
    segv,
)

from vllm_forensics.diagnosis.access import instruction_at
from vllm_forensics.diagnosis.values import describe_value, notable_registers

IMAGE = crash_image("48 8b 44 f7 10", registers={"rdi": HEAP, "rsi": 3}, signal=segv(0))


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (0, "null"),
        (72, "72"),
        (0xFFFF, "65535"),
        (CODE + 4, "engine+0x1004"),
        (SP, "stack"),
        (HEAP, "heap or mmap"),
        (GUARD, "protected memory"),
        (0x6666_0000_0000, "not mapped"),
        (1 << 60, "no address"),
        (int.from_bytes(b"/usr/bin", "little"), "no address, reads as the text '/usr/bin'"),
        (int.from_bytes(b"block\0\0\0", "little"), "not mapped, reads as the text 'block'"),
        (int.from_bytes(b"abc\0\0\0\0\0", "little"), "not mapped"),
    ],
)
def test_a_value_in_a_few_words(value: int, meaning: str) -> None:
    assert describe_value(IMAGE, value) == meaning


def test_a_mapped_file_is_named() -> None:
    mapped = replace(MAPPINGS[3], path="/data/weights.bin")
    image = FakeImage(**(vars(IMAGE) | {"mappings": (mapped,)}))

    assert describe_value(image, HEAP) == "/data/weights.bin"


def test_the_registers_of_the_instruction_are_shown_once_each() -> None:
    context = context_of(IMAGE)

    shown = notable_registers(IMAGE, instruction_at(IMAGE, CODE), dict(context.registers))

    assert shown == ("rax 0x0 null", f"rdi {HEAP:#x} heap or mmap", "rsi 0x3 3")


def test_an_instruction_on_the_stack_shows_its_pointer() -> None:
    image = crash_image("53", signal=segv(0))  # push rbx

    shown = notable_registers(image, instruction_at(image, CODE), {"rbx": 0, "rsp": SP})

    assert shown == ("rbx 0x0 null", f"rsp {SP:#x} stack")


def test_no_instruction_has_no_registers() -> None:
    assert notable_registers(IMAGE, None, {"rax": 0}) == ()
