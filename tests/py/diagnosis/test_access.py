"""What an instruction does to memory, from its bytes and the registers."""

import pytest
from tests.py.support.images import (
    CODE,
    HEAP,
    SP,
    FakeImage,
    a_signal_frame,
    context_of,
    crash_image,
    segv,
    sent_by_self,
)

from vllm_forensics.diagnosis.access import (
    MemoryAccess,
    faulting_access,
    instruction_at,
    is_fetch,
    memory_accesses,
    register_value,
)
from vllm_forensics.model.finding import Access

READ, WRITE = Access.READ, Access.WRITE


def accesses(image: FakeImage) -> tuple[MemoryAccess, ...]:
    return memory_accesses(image, context_of(image))


@pytest.mark.parametrize(
    ("code", "registers", "expected"),
    [
        pytest.param(
            "48 8b 47 48", {"rdi": HEAP}, (READ, HEAP + 0x48, 8, "[rdi + 0x48]"), id="load"
        ),
        pytest.param(
            "c6 47 04 01", {"rdi": HEAP}, (WRITE, HEAP + 4, 1, "[rdi + 0x4]"), id="store"
        ),
        pytest.param("48 89 7d f8", {"rbp": SP}, (WRITE, SP - 8, 8, "[rbp - 0x8]"), id="below"),
        pytest.param(
            "48 8b 44 f7 10", {"rdi": HEAP, "rsi": 3},
            (READ, HEAP + 0x28, 8, "[rdi + rsi*8 + 0x10]"), id="scaled index",
        ),
        pytest.param(
            "8b 05 10 00 00 00", {}, (READ, CODE + 6 + 0x10, 4, f"[{CODE + 0x16:#x}]"),
            id="relative to the next instruction",
        ),
        pytest.param(
            "64 48 8b 04 25 28 00 00 00", {"fs_base": HEAP}, (READ, HEAP + 0x28, 8, "fs:[0x28]"),
            id="segment base",
        ),
        pytest.param(
            "48 8b 47 48", {"rdi": (1 << 64) - 0x40}, (READ, 8, 8, "[rdi + 0x48]"),
            id="the sum wraps at 64 bits",
        ),
        pytest.param(
            "62 e1 7f 49 7f 00", {"rax": HEAP}, (WRITE, HEAP, 64, "[rax]"),
            id="a masked store is a write",
        ),
        pytest.param("53", {}, (WRITE, SP - 8, 8, "[rsp - 0x8]"), id="push"),
        pytest.param("5b", {}, (READ, SP, 8, "[rsp]"), id="pop"),
        pytest.param("c3", {}, (READ, SP, 8, "[rsp]"), id="ret"),
        pytest.param("e8 00 01 00 00", {}, (WRITE, SP - 8, 8, "[rsp - 0x8]"), id="call"),
        pytest.param("c9", {"rbp": HEAP}, (READ, HEAP, 8, "[rbp]"), id="leave"),
    ],
)  # fmt: skip
def test_the_access_of_an_instruction(
    code: str, registers: dict[str, int], expected: tuple[Access, int, int, str]
) -> None:
    (access,) = accesses(crash_image(code, registers=registers, signal=segv(0)))

    assert (access.access, access.address, access.size, access.operand) == expected


def test_a_call_through_memory_reads_the_target_and_pushes() -> None:
    image = crash_image("ff 50 10", registers={"rax": HEAP}, signal=segv(0))

    read, push = accesses(image)

    assert (read.access, read.address) == (READ, HEAP + 0x10)
    assert (push.access, push.address) == (WRITE, SP - 8)


def test_rep_movs_writes_through_rdi_and_reads_through_rsi() -> None:
    image = crash_image("f3 a4", registers={"rdi": HEAP, "rsi": 0x99}, signal=segv(0))

    assert {(a.access, a.address) for a in accesses(image)} == {(WRITE, HEAP), (READ, 0x99)}


@pytest.mark.parametrize(("address", "access"), [(HEAP, WRITE), (0x99, READ)])
def test_of_two_accesses_the_one_that_covers_the_fault_is_blamed(
    address: int, access: Access
) -> None:
    image = crash_image("f3 a4", registers={"rdi": HEAP, "rsi": 0x99}, signal=segv(address))

    found = faulting_access(image, context_of(image))

    assert found is not None
    assert found.access is access


def test_a_fault_in_the_middle_of_an_operand_is_covered() -> None:
    image = crash_image("48 8b 07", registers={"rdi": HEAP - 4}, signal=segv(HEAP))

    found = faulting_access(image, context_of(image))

    assert found is not None
    assert found.address == HEAP - 4


@pytest.mark.parametrize("address", [HEAP - 5, HEAP + 4])
def test_an_address_beside_the_operand_is_not_covered(address: int) -> None:
    image = crash_image("48 8b 07", registers={"rdi": HEAP - 4}, signal=segv(address))

    assert faulting_access(image, context_of(image)) is None


@pytest.mark.parametrize("code", ["48 8d 47 48", "0f 1f 40 00", "01 d8", "cc"])
def test_lea_nop_and_registers_touch_no_memory(code: str) -> None:
    assert accesses(crash_image(code, signal=segv(0))) == ()


@pytest.mark.parametrize(("error", "access"), [(4, READ), (6, WRITE)])
def test_the_error_code_decides_between_read_and_write(error: int, access: Access) -> None:
    frame = a_signal_frame(segv(HEAP), registers={"rdi": HEAP}, error=error)
    # xadd [rdi], rax does both: the processor says which one failed.
    image = crash_image("48 0f c1 07", signal=sent_by_self(6), handler_frames=(frame,))

    found = faulting_access(image, context_of(image))

    assert found is not None
    assert found.access is access


def test_only_a_pc_that_is_the_fault_address_is_a_fetch() -> None:
    assert is_fetch(context_of(crash_image(pc=HEAP, signal=segv(HEAP))))
    assert not is_fetch(context_of(crash_image("48 8b 07", signal=segv(0))))


def test_no_instruction_where_no_code_is_known() -> None:
    image = crash_image("48 8b 07", signal=segv(0))

    assert instruction_at(image, HEAP) is None
    assert instruction_at(image, -1) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rax", 0x1122_3344_5566_7788), ("eax", 0x5566_7788), ("ax", 0x7788), ("al", 0x88),
        ("r8d", 0xFFFF_FFFF), ("r8b", 0xFF), ("riz", 0), ("w3", 2), ("xzr", 0),
        ("eip", None), ("xmm0", None), ("rbx", None),
    ],
)  # fmt: skip
def test_a_register_is_known_by_any_of_its_names(name: str, value: int | None) -> None:
    registers = {"rax": 0x1122_3344_5566_7788, "r8": (1 << 64) - 1, "x3": (1 << 32) + 2}

    assert register_value(name, registers) == value
