"""Bad jumps and used-up stacks, each beside the nearest case that is not one."""

import pytest
from tests.py.support.images import (
    CODE,
    GUARD,
    HEAP,
    MAPPINGS,
    PROGRAM,
    SEGV_ACCERR,
    SP,
    STACK,
    STACK_END,
    FakeImage,
    a_process,
    a_signal_frame,
    context_of,
    crash_image,
    segv,
    sent_by_self,
    words,
)

from vllm_forensics.diagnosis.control_flow import AT_RANDOM, bad_fetch, null_call, stack_overflow
from vllm_forensics.diagnosis.rules import Rule
from vllm_forensics.model.finding import Access, FaultKind, Finding
from vllm_forensics.model.process import Mapping

UNMAPPED = 0x6666_0000_0000
PUSH = "53"


def ask(rule: Rule, image: FakeImage) -> Finding | None:
    return rule(image, context_of(image))


def found(rule: Rule, image: FakeImage) -> Finding:
    finding = ask(rule, image)
    assert finding is not None
    return finding


def test_a_null_call_proves_its_caller_by_the_return_address() -> None:
    finding = found(null_call, crash_image(pc=0, signal=segv(0), memory={SP: words(CODE + 5)}))

    assert (finding.kind, finding.access, finding.address) == (
        FaultKind.NULL_CALL, Access.EXECUTE, 0,
    )  # fmt: skip
    assert any(f"{CODE + 5:#x}" in fact for fact in finding.proof)


def test_a_word_that_is_no_code_is_not_called_a_return_address() -> None:
    finding = found(null_call, crash_image(pc=0x10, signal=segv(0x10), memory={SP: words(HEAP)}))

    assert finding.summary == "A function pointer that held 0x10 was called."
    assert finding.proof == ("program counter 0x10 = si_addr",)


def test_a_read_of_null_is_no_call() -> None:
    assert ask(null_call, crash_image("48 8b 07", signal=segv(0))) is None


def test_a_jump_beyond_64_kib_is_no_null_call() -> None:
    assert ask(null_call, crash_image(pc=0x1_0000, signal=segv(0x1_0000))) is None


def test_the_fetch_bit_in_a_signal_frame_proves_a_fetch() -> None:
    frame = a_signal_frame(segv(0), pc=0, error=0x14)
    image = crash_image(signal=sent_by_self(11), handler_frames=(frame,))

    assert found(null_call, image).address == 0


def test_running_data_names_the_mapping() -> None:
    finding = found(bad_fetch, crash_image(pc=HEAP, signal=segv(HEAP, SEGV_ACCERR)))

    assert finding.kind is FaultKind.EXECUTE_NON_EXECUTABLE
    assert any("rw-" in fact for fact in finding.proof)


def test_a_jump_to_nowhere_is_a_wild_pointer() -> None:
    finding = found(bad_fetch, crash_image(pc=UNMAPPED, signal=segv(UNMAPPED)))

    assert (finding.kind, finding.access) == (FaultKind.WILD_POINTER, Access.EXECUTE)


def test_an_access_elsewhere_is_no_bad_fetch() -> None:
    assert ask(bad_fetch, crash_image("48 8b 07", signal=segv(UNMAPPED))) is None


# stack_overflow


def test_a_push_into_the_guard_page() -> None:
    image = crash_image(PUSH, registers={"rsp": STACK}, signal=segv(STACK - 8, SEGV_ACCERR))

    finding = found(stack_overflow, image)

    assert (finding.kind, finding.access, finding.address) == (
        FaultKind.STACK_OVERFLOW, Access.WRITE, STACK - 8,
    )  # fmt: skip
    assert "132.0 KiB was used up" in finding.summary
    assert any("inside its guard page" in fact for fact in finding.proof)


def test_below_the_main_stack_nothing_need_be_mapped() -> None:
    mappings = tuple(mapping for mapping in MAPPINGS if mapping.start != GUARD)
    image = crash_image(
        PUSH,
        registers={"rsp": STACK},
        mappings=mappings,
        signal=segv(STACK - 8),
    )

    assert found(stack_overflow, image).kind is FaultKind.STACK_OVERFLOW


def test_one_huge_local_on_the_main_stack_is_found_by_at_random() -> None:
    far = STACK - (8 << 20)
    store = "c6 04 24 01"  # mov byte ptr [rsp], 1
    mappings = tuple(mapping for mapping in MAPPINGS if mapping.start != GUARD)
    image = crash_image(
        store,
        registers={"rsp": far},
        mappings=mappings,
        process=a_process({AT_RANDOM: STACK_END - 64}),
        signal=segv(far),
    )

    finding = found(stack_overflow, image)

    assert "more locals than the stack has left" in finding.summary


def test_a_huge_distance_from_a_stack_that_is_not_the_main_one_proves_nothing() -> None:
    far = STACK - (8 << 20)
    mappings = tuple(mapping for mapping in MAPPINGS if mapping.start != GUARD)
    image = crash_image("c6 04 24 01", registers={"rsp": far}, mappings=mappings, signal=segv(far))

    assert ask(stack_overflow, image) is None


def test_a_bad_pointer_while_the_stack_is_fine_is_no_overflow() -> None:
    image = crash_image("48 8b 07", registers={"rdi": UNMAPPED}, signal=segv(UNMAPPED))

    assert ask(stack_overflow, image) is None


def test_memory_below_that_may_be_used_is_no_guard() -> None:
    below = Mapping(
        start=GUARD, end=STACK, readable=True, writable=False, executable=False,
        path=PROGRAM.path,
    )  # fmt: skip
    mappings = tuple(below if m.start == GUARD else m for m in MAPPINGS)
    image = crash_image(
        PUSH,
        registers={"rsp": STACK},
        mappings=mappings,
        signal=segv(STACK - 8, SEGV_ACCERR),
    )

    assert ask(stack_overflow, image) is None


@pytest.mark.parametrize("address", [STACK, STACK + 0x100])
def test_an_address_inside_the_stack_is_no_overflow(address: int) -> None:
    image = crash_image(PUSH, registers={"rsp": address + 8}, signal=segv(address))

    assert ask(stack_overflow, image) is None


def test_an_abort_on_a_full_stack_is_no_overflow() -> None:
    image = crash_image(PUSH, registers={"rsp": STACK}, signal=sent_by_self(6))

    assert ask(stack_overflow, image) is None
