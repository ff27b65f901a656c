"""Faults of memory accesses, each beside the nearest case that is not one."""

from dataclasses import replace

import pytest
from tests.py.support.images import (
    CODE,
    DATA,
    HEAP,
    MAPPINGS,
    RODATA,
    SEGV_ACCERR,
    SP,
    FakeImage,
    a_signal_frame,
    context_of,
    crash_image,
    general_protection,
    segv,
    sent_by_self,
    words,
)

from vllm_forensics.diagnosis.bad_address import (
    misaligned_access,
    non_canonical_address,
    null_dereference,
    protected_access,
    resent_without_trace,
    truncated_mapping,
    wild_pointer,
)
from vllm_forensics.diagnosis.rules import Rule
from vllm_forensics.model.finding import Access, FaultKind, Finding
from vllm_forensics.model.process import Mapping, Signal

LOAD = "48 8b 47 48"  # mov rax, [rdi + 0x48]
STORE = "89 07"  # mov [rdi], eax
BAD = 0xDEAD_BEEF_DEAD_BEEF
UNMAPPED = 0x6666_0000_0000


def ask(rule: Rule, image: FakeImage) -> Finding | None:
    return rule(image, context_of(image))


def found(rule: Rule, image: FakeImage) -> Finding:
    finding = ask(rule, image)
    assert finding is not None
    return finding


# null_dereference


def test_a_member_of_a_null_object_is_read_with_its_offset() -> None:
    finding = found(null_dereference, crash_image(LOAD, signal=segv(0x48)))

    assert (finding.kind, finding.access, finding.address, finding.size) == (
        FaultKind.NULL_DEREFERENCE, Access.READ, 0x48, 8,
    )  # fmt: skip
    assert finding.summary == (
        "The program read 8 bytes from address 0x48, "
        "a member or element 72 bytes into a null object."
    )
    assert "SEGV_MAPERR, si_addr 0x48" in finding.proof
    assert "operand [rdi + 0x48] = 0x48, 8 bytes" in finding.proof


def test_a_write_through_null_says_wrote() -> None:
    finding = found(null_dereference, crash_image(STORE, signal=segv(0)))

    assert finding.access is Access.WRITE
    assert finding.summary == "The program wrote 4 bytes to address 0x0."


@pytest.mark.parametrize(("address", "is_null"), [(0xFFFF, True), (0x1_0000, False)])
def test_null_ends_at_64_kib(address: int, is_null: bool) -> None:
    image = crash_image(STORE, registers={"rdi": address}, signal=segv(address))

    assert (ask(null_dereference, image) is not None) is is_null


def test_without_code_the_access_is_not_invented() -> None:
    finding = found(null_dereference, crash_image(pc=CODE, signal=segv(8)))

    assert (finding.access, finding.size) == (None, None)
    assert finding.summary.startswith("The program accessed address 0x8")


@pytest.mark.parametrize(
    "signal",
    [
        Signal(number=11, code=0, address=None, sender_pid=42),
        Signal(number=11, code=0, address=0, sender_pid=42),
        general_protection(),
        Signal(number=7, code=2, address=0x10),
    ],
)
def test_a_sent_signal_and_a_general_protection_are_no_null(signal: Signal) -> None:
    assert ask(null_dereference, crash_image(LOAD, signal=signal)) is None


# misaligned_access

MISALIGNED = {"rdi": HEAP + 4}


@pytest.mark.parametrize(
    ("code", "size"),
    [
        ("0f 28 07", 16),  # movaps xmm0, [rdi]
        ("c5 fc 28 07", 32),  # vmovaps ymm0, [rdi]
        ("66 0f fe 07", 16),  # paddd xmm0, [rdi]: every legacy SSE operand
    ],
)
def test_an_aligned_form_with_an_odd_address(code: str, size: int) -> None:
    image = crash_image(code, registers=MISALIGNED, signal=general_protection())

    finding = found(misaligned_access, image)

    assert (finding.kind, finding.address, finding.size) == (
        FaultKind.MISALIGNED_ACCESS,
        HEAP + 4,
        size,
    )


@pytest.mark.parametrize(
    ("code", "address"),
    [
        ("0f 28 07", HEAP),  # aligned
        ("0f 28 07", BAD),  # not canonical: that is the reason
        ("0f 10 07", HEAP + 4),  # movups
        ("c5 fc 10 07", HEAP + 4),  # vmovups
        ("48 8b 07", HEAP + 4),  # mov rax, [rdi]: eight bytes may lie anywhere
    ],
)
def test_what_may_be_unaligned_is_no_misaligned_access(code: str, address: int) -> None:
    image = crash_image(code, registers={"rdi": address}, signal=general_protection())

    assert ask(misaligned_access, image) is None


def test_an_aligned_form_at_a_page_fault_is_no_misaligned_access() -> None:
    image = crash_image("0f 28 07", registers=MISALIGNED, signal=segv(HEAP + 4))

    assert ask(misaligned_access, image) is None


def test_the_alignment_check_names_the_operand() -> None:
    image = crash_image(
        STORE, registers={"rdi": HEAP + 1}, signal=Signal(number=7, code=1, address=0)
    )

    finding = found(misaligned_access, image)

    assert (finding.access, finding.address) == (Access.WRITE, HEAP + 1)


# non_canonical_address


def test_the_operand_gives_the_address_that_the_kernel_does_not() -> None:
    image = crash_image(LOAD, registers={"rdi": BAD}, signal=general_protection())

    finding = found(non_canonical_address, image)

    assert (finding.kind, finding.access, finding.address) == (
        FaultKind.NON_CANONICAL_ADDRESS, Access.READ, BAD + 0x48,
    )  # fmt: skip
    assert f"{BAD + 0x48:#x}" in finding.summary


@pytest.mark.parametrize(
    ("code", "registers", "memory"),
    [
        ("ff d0", {"rax": BAD}, {}),  # call rax
        ("ff e0", {"rax": BAD}, {}),  # jmp rax
        ("ff 50 10", {"rax": HEAP}, {HEAP: words(0, 0, BAD)}),  # call [rax + 0x10]
        ("ff 20", {"rax": HEAP}, {HEAP: words(BAD)}),  # jmp [rax]
        ("c3", {}, {SP: words(BAD)}),  # ret
    ],
)
def test_the_target_of_a_branch_is_found(
    code: str, registers: dict[str, int], memory: dict[int, bytes]
) -> None:
    image = crash_image(code, registers=registers, memory=memory, signal=general_protection())

    finding = found(non_canonical_address, image)

    assert (finding.access, finding.address) == (Access.EXECUTE, BAD)


def test_a_canonical_operand_is_not_blamed() -> None:
    image = crash_image(LOAD, registers={"rdi": HEAP}, signal=general_protection())

    assert ask(non_canonical_address, image) is None


def test_the_upper_half_is_canonical() -> None:
    image = crash_image(LOAD, registers={"rdi": (1 << 64) - 0x1000}, signal=general_protection())

    assert ask(non_canonical_address, image) is None


def test_a_page_fault_is_no_general_protection() -> None:
    image = crash_image(LOAD, registers={"rdi": BAD}, signal=segv(BAD + 0x48))

    assert ask(non_canonical_address, image) is None


def test_the_stack_segment_fault_of_a_bus_error_counts() -> None:
    image = crash_image(
        "53", registers={"rsp": BAD & -8}, signal=Signal(number=7, code=128, address=0)
    )  # push rbx

    finding = found(non_canonical_address, image)

    assert (finding.access, finding.address) == (Access.WRITE, (BAD & -8) - 8)


def test_the_vector_in_a_signal_frame_proves_a_general_protection() -> None:
    frame = a_signal_frame(general_protection(), registers={"rdi": BAD}, trap=13, error=0)
    image = crash_image(LOAD, signal=sent_by_self(11), handler_frames=(frame,))

    assert found(non_canonical_address, image).address == BAD + 0x48


# truncated_mapping


def _mapped(path: str) -> tuple[Mapping, ...]:
    return (
        Mapping(
            start=HEAP, end=HEAP + 0x4000, readable=True, writable=True, executable=False,
            path=path, file_offset=0x1000,
        ),
    )  # fmt: skip


def _bus(code: int = 2) -> Signal:
    return Signal(number=7, code=code, address=HEAP + 0x2000)


def test_a_page_beyond_the_files_end() -> None:
    image = crash_image(
        STORE, registers={"rdi": HEAP + 0x2000}, mappings=_mapped("/data/w.bin"), signal=_bus()
    )

    finding = found(truncated_mapping, image)

    assert (finding.kind, finding.message) == (FaultKind.TRUNCATED_MAPPING, "/data/w.bin")
    assert "12.0 KiB into /data/w.bin" in finding.summary
    assert "truncated or replaced" in finding.summary


def test_shared_memory_that_is_full_is_told_from_a_file() -> None:
    image = crash_image(
        STORE,
        registers={"rdi": HEAP + 0x2000},
        mappings=_mapped("/dev/shm/ring"),  # noqa: S108
        signal=_bus(),
    )

    finding = found(truncated_mapping, image)

    assert "/dev/shm is full" in finding.summary  # noqa: S108
    assert any("shm-size" in step for step in finding.advice)


@pytest.mark.parametrize(
    ("mappings", "signal"),
    [
        (_mapped("/data/w.bin"), _bus(1)),
        (_mapped("/data/w.bin"), segv(HEAP + 0x2000)),
        ((), _bus()),
    ],
)
def test_another_code_or_no_mapping_is_no_truncated_mapping(
    mappings: tuple[Mapping, ...], signal: Signal
) -> None:
    image = crash_image(STORE, registers={"rdi": HEAP + 0x2000}, mappings=mappings, signal=signal)

    assert ask(truncated_mapping, image) is None


# protected_access


def test_a_write_to_constants_shows_the_mappings_rights() -> None:
    image = crash_image(STORE, registers={"rdi": RODATA}, signal=segv(RODATA, SEGV_ACCERR))

    finding = found(protected_access, image)

    assert finding.kind is FaultKind.WRITE_TO_READ_ONLY
    assert any("r--" in fact for fact in finding.proof)


def test_a_read_of_a_page_without_rights_is_a_protected_page() -> None:
    hidden = replace(MAPPINGS[3], readable=False, writable=False)
    image = crash_image(
        LOAD, registers={"rdi": HEAP}, mappings=(hidden,), signal=segv(HEAP + 0x48, SEGV_ACCERR)
    )

    finding = found(protected_access, image)

    assert (finding.kind, finding.access) == (FaultKind.PROTECTED_PAGE, Access.READ)
    assert "neither readable nor writable" in finding.summary


def test_a_write_to_a_page_without_rights_is_no_write_to_read_only() -> None:
    hidden = replace(MAPPINGS[3], readable=False, writable=False)
    image = crash_image(
        STORE, registers={"rdi": HEAP}, mappings=(hidden,), signal=segv(HEAP, SEGV_ACCERR)
    )

    assert found(protected_access, image).kind is FaultKind.PROTECTED_PAGE


@pytest.mark.parametrize(
    "signal",
    [segv(RODATA), segv(UNMAPPED, SEGV_ACCERR), Signal(number=11, code=0, address=RODATA)],
)
def test_an_unmapped_address_is_not_protected(signal: Signal) -> None:
    image = crash_image(STORE, registers={"rdi": RODATA}, signal=signal)

    assert ask(protected_access, image) is None


# wild_pointer


def test_an_address_where_nothing_is_mapped() -> None:
    image = crash_image(LOAD, registers={"rdi": UNMAPPED}, signal=segv(UNMAPPED + 0x48))

    finding = found(wild_pointer, image)

    assert (finding.kind, finding.size) == (FaultKind.WILD_POINTER, 8)
    assert finding.summary.endswith("where nothing is mapped.")


def test_what_the_kernel_found_mapped_is_not_said_to_be_unmapped() -> None:
    """gdb's gcore leaves out pages that it could not read."""
    image = crash_image(LOAD, registers={"rdi": UNMAPPED}, signal=segv(UNMAPPED, SEGV_ACCERR))

    summary = found(wild_pointer, image).summary

    assert "which the kernel found mapped, but not for that" in summary
    assert "nothing is mapped" not in summary


def test_an_address_just_past_a_mapping_names_it() -> None:
    address = HEAP + 0x2_1000 + 100
    image = crash_image(STORE, registers={"rdi": address}, signal=segv(address))

    finding = found(wild_pointer, image)

    assert "100 bytes past the end of writable memory" in finding.summary


def test_an_operand_that_does_not_lead_to_the_address_is_not_named() -> None:
    image = crash_image(LOAD, registers={"rdi": HEAP}, signal=segv(UNMAPPED))

    finding = found(wild_pointer, image)

    assert (finding.access, finding.size) == (None, None)
    assert finding.proof == (f"SEGV_MAPERR, si_addr {UNMAPPED:#x}",)


def test_a_signal_from_a_process_proves_no_wild_pointer() -> None:
    image = crash_image(LOAD, signal=Signal(number=11, code=0, address=UNMAPPED))

    assert ask(wild_pointer, image) is None


# resent_without_trace


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        (0, FaultKind.NULL_DEREFERENCE),
        (UNMAPPED, FaultKind.WILD_POINTER),
        (BAD, FaultKind.NON_CANONICAL_ADDRESS),
    ],
)
def test_the_operand_still_shows_a_fault_that_a_handler_sent_again(
    address: int, kind: FaultKind
) -> None:
    image = crash_image(STORE, registers={"rdi": address}, signal=sent_by_self(11))

    finding = found(resent_without_trace, image)

    assert (finding.kind, finding.address) == (kind, address)


def test_memory_that_can_be_read_proves_no_earlier_fault() -> None:
    image = crash_image(STORE, registers={"rdi": DATA}, signal=sent_by_self(11))

    assert ask(resent_without_trace, image) is None


@pytest.mark.parametrize(
    "signal", [segv(0), sent_by_self(6), Signal(number=11, code=0, sender_pid=7)]
)
def test_a_fault_or_anothers_signal_was_not_sent_again(signal: Signal) -> None:
    assert ask(resent_without_trace, crash_image(STORE, signal=signal)) is None
