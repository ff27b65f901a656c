"""The order of the rules, and that each is asked."""

import pytest
from tests.py.support.images import (
    CODE,
    GUARD,
    HEAP,
    RODATA,
    SEGV_ACCERR,
    SP,
    STACK,
    FakeImage,
    a_frame,
    context_of,
    crash_image,
    general_protection,
    libc_frame,
    segv,
    sent_by_self,
    words,
)

from vllm_forensics.diagnosis import (
    aborts,
    bad_address,
    control_flow,
    exceptions,
    outside,
    processor,
)
from vllm_forensics.diagnosis.rules import RULES, find_fault
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.finding import Finding
from vllm_forensics.model.process import Signal

LOAD = "48 8b 47 48"  # mov rax, [rdi + 0x48]


def judge(image: FakeImage) -> Finding:
    return find_fault(image, context_of(image))


def test_every_rule_is_asked_once() -> None:
    modules = (aborts, bad_address, control_flow, exceptions, outside, processor)

    written = {
        function
        for module in modules
        for name, function in vars(module).items()
        if callable(function)
        and getattr(function, "__module__", "") == module.__name__
        and not name.startswith("_")
        and function.__annotations__.get("return") == "Finding | None"
    }

    assert len(RULES) == len(set(RULES))
    assert written == set(RULES)


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        pytest.param(
            crash_image(LOAD, signal=Signal(number=11, code=0, sender_pid=7)),
            "external-signal",
            id="a fault signal that another process sent is that process's doing",
        ),
        pytest.param(
            crash_image(pc=0, signal=segv(0)),
            "null-call",
            id="a jump to zero is a null call, not a null dereference",
        ),
        pytest.param(
            crash_image(pc=HEAP, signal=segv(HEAP, SEGV_ACCERR)),
            "execute-non-executable",
            id="running data is not a protected page",
        ),
        pytest.param(
            crash_image(
                "53", registers={"rsp": STACK}, signal=segv(STACK - 8, SEGV_ACCERR)
            ),  # push rbx
            "stack-overflow",
            id="the guard page under a stack is not a protected page",
        ),
        pytest.param(
            crash_image("0f 28 07", registers={"rdi": HEAP + 4}, signal=general_protection()),
            "misaligned-access",  # movaps xmm0, [rdi]
            id="a misaligned operand comes before a non-canonical one",
        ),
        pytest.param(
            crash_image(LOAD, registers={"rdi": 1 << 60}, signal=general_protection()),
            "non-canonical-address",
            id="si_addr 0 of a general protection is no null",
        ),
        pytest.param(
            crash_image(
                "89 07", registers={"rdi": RODATA}, signal=segv(RODATA, SEGV_ACCERR)
            ),  # mov [rdi], eax
            "write-to-read-only",
            id="a write to constants",
        ),
        pytest.param(
            crash_image("0f 0b", signal=Signal(number=4, code=2, address=CODE)),  # ud2
            "trap-instruction",
            id="ud2 is a trap, not an illegal instruction",
        ),
        pytest.param(
            crash_image(signal=Signal(number=10, code=0)),
            "unknown",
            id="a signal that no rule knows",
        ),
    ],
)
def test_the_special_rule_comes_before_the_general(image: FakeImage, kind: str) -> None:
    assert judge(image).kind.value == kind


def test_a_sanitizers_abort_hides_what_else_stands_on_the_stack() -> None:
    frames = (
        libc_frame(0, "abort"),
        a_frame(1, "__asan::Die", module="/usr/lib/libasan.so.8"),
        libc_frame(2, "__stack_chk_fail"),
    )

    finding = judge(crash_image(signal=sent_by_self(6), frames=frames))

    assert finding.kind.value == "sanitizer-abort"


def test_stack_smashing_comes_before_a_plain_abort() -> None:
    frames = (libc_frame(0, "abort"), libc_frame(1, "__stack_chk_fail"))

    finding = judge(crash_image(signal=sent_by_self(6), frames=frames))

    assert finding.kind.value == "stack-smashing"


def test_a_pure_virtual_call_comes_before_the_terminate_that_it_calls() -> None:
    frames = (
        libc_frame(0, "abort"),
        libc_frame(1, "std::terminate"),
        libc_frame(2, "__cxa_pure_virtual"),
    )

    finding = judge(crash_image(signal=sent_by_self(6), frames=frames))

    assert finding.kind.value == "pure-virtual-call"


def test_a_signal_without_a_number_says_so() -> None:
    image = crash_image(signal=Signal(number=0, code=0))

    finding = judge(image)

    assert finding.kind.value == "unknown"
    assert "does not say which signal" in finding.summary


def test_an_image_that_knows_nothing_is_unknown_and_raises_nothing() -> None:
    known = crash_image(signal=segv(0x1234_5678))
    image = FakeImage(
        process=known.process,
        signal=Gap(what="the core holds no signal information"),
        threads=known.threads,
        modules=(),
        mappings=(),
    )

    assert judge(image).kind.value == "unknown"


def test_memory_without_a_stack_pointer_that_fits_is_no_stack_overflow() -> None:
    image = crash_image(
        LOAD,
        registers={"rdi": GUARD},
        memory={SP: words(0)},
        signal=segv(GUARD + 0x48, SEGV_ACCERR),
    )

    assert judge(image).kind.value == "stack-overflow"
