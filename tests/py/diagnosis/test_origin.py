"""Where a bad pointer came from, followed backwards through real machine code."""

import pytest
from tests.py.support.images import (
    CODE,
    HEAP,
    SP,
    FakeImage,
    a_frame,
    context_of,
    crash_image,
    general_protection,
    libc_frame,
    segv,
    words,
)

from vllm_forensics.diagnosis.origin import origin_of
from vllm_forensics.model.finding import Certainty, FaultKind, Finding, Origin
from vllm_forensics.model.process import Signal, Symbol
from vllm_forensics.model.stack import SourceLine

FIND = Symbol(name="_ZN4vllm4findEi", address=CODE + 0x800, size=0x10)
NEVER = Signal(number=11, code=1, address=None)


def call_to(target: int, at: int) -> str:
    """`call target`, five bytes, as it stands `at` bytes into the code."""
    return "e8" + (target - (CODE + at + 5)).to_bytes(4, "little", signed=True).hex()


def origins(image: FakeImage, kind: FaultKind = FaultKind.NULL_DEREFERENCE) -> tuple[Origin, ...]:
    return origin_of(image, context_of(image), Finding(kind=kind, summary="s", proof=("p",)))


def test_a_null_that_a_call_returned_is_proved() -> None:
    code = call_to(FIND.address, 0) + "48 89 c7" + "48 8b 47 48"  # mov rdi, rax; load
    place = SourceLine(file="/src/cache.cpp", line=84)
    image = crash_image(code, at=8, signal=segv(0x48), functions=(FIND,), places={CODE: place})

    (step,) = origins(image)

    assert (step.what, step.certainty, step.value) == ("returned null", Certainty.PROVED, 0)
    assert (step.function, step.file, step.line) == ("vllm::find", "/src/cache.cpp", 84)
    assert step.instruction is not None
    assert step.instruction.startswith("call")


def test_a_pointer_that_is_not_null_was_returned_as_this_pointer() -> None:
    code = call_to(FIND.address, 0) + "48 8b 40 48"  # mov rax, [rax + 0x48]
    image = crash_image(
        code, at=5, registers={"rax": HEAP}, signal=segv(HEAP + 0x48), functions=(FIND,)
    )

    (step,) = origins(image, FaultKind.WILD_POINTER)

    assert (step.what, step.value) == ("returned this pointer", HEAP)


def test_an_indirect_call_has_no_name() -> None:
    image = crash_image("ff d2 48 8b 00", at=2, signal=segv(0))  # call rdx; mov rax, [rax]

    (step,) = origins(image)

    assert (step.what, step.function) == ("returned null", None)


def test_a_jump_that_leads_in_between_makes_it_likely() -> None:
    # je over the call: the load may have another rax.
    code = "74 05" + call_to(FIND.address, 2) + "48 8b 40 48"
    image = crash_image(code, at=7, signal=segv(0x48), functions=(FIND,))

    (step,) = origins(image)

    assert (step.what, step.certainty) == ("returned null", Certainty.LIKELY)


def test_a_jump_that_leaves_in_between_makes_it_likely() -> None:
    code = call_to(FIND.address, 0) + "48 85 c0 74 40" + "48 8b 40 48"  # test rax, rax; je away
    image = crash_image(code, at=10, signal=segv(0x48), functions=(FIND,))

    (step,) = origins(image)

    assert step.certainty is Certainty.LIKELY


def test_a_jump_before_the_call_does_not_matter() -> None:
    code = "74 40" + call_to(FIND.address, 2) + "48 8b 40 48"
    image = crash_image(code, at=7, signal=segv(0x48), functions=(FIND,))

    (step,) = origins(image)

    assert step.certainty is Certainty.PROVED


def test_a_value_that_a_call_destroyed_is_lost() -> None:
    # xor edi, edi; call; mov rax, [rdi]: rdi is whatever the callee left.
    code = "31 ff" + call_to(FIND.address, 2) + "48 8b 07"
    image = crash_image(code, at=7, signal=segv(0), functions=(FIND,))

    assert origins(image) == ()


def test_a_saved_register_survives_a_call() -> None:
    # call; mov rbx, rax; call; mov rax, [rbx]
    code = call_to(FIND.address, 0) + "48 89 c3" + call_to(CODE, 8) + "48 8b 03"
    image = crash_image(code, at=13, signal=segv(0), functions=(FIND,))

    (step,) = origins(image)

    assert step.function == "vllm::find"


def test_a_slot_of_the_frame_is_followed() -> None:
    # call; mov [rbp - 8], rax; mov rcx, [rbp - 8]; mov rax, [rcx]
    code = call_to(FIND.address, 0) + "48 89 45 f8" + "48 8b 4d f8" + "48 8b 01"
    image = crash_image(code, at=13, registers={"rbp": SP}, signal=segv(0), functions=(FIND,))

    (step,) = origins(image)

    assert (step.what, step.certainty) == ("returned null", Certainty.PROVED)


def test_another_slot_is_not_taken_for_it() -> None:
    # mov [rbp - 8], rax; mov rcx, [rbp - 16]; mov rax, [rcx]
    code = call_to(FIND.address, 0) + "48 89 45 f8" + "48 8b 4d f0" + "48 8b 01"
    image = crash_image(code, at=13, registers={"rbp": SP}, signal=segv(0), functions=(FIND,))

    assert origins(image) == ()


def test_a_load_from_memory_shows_where_and_what_it_holds() -> None:
    code = "48 8b 53 08" + "48 8b 02"  # mov rdx, [rbx + 8]; mov rax, [rdx]
    image = crash_image(
        code, at=4, registers={"rbx": HEAP}, memory={HEAP: words(7, 0)}, signal=segv(0)
    )

    (step,) = origins(image)

    assert step.what == f"loaded from memory at {HEAP + 8:#x}, which holds 0x0"


def test_a_load_whose_base_has_changed_since_is_not_located() -> None:
    # mov rdx, [rbx + 8]; mov rbx, rcx; mov rax, [rdx]
    code = "48 8b 53 08" + "48 89 cb" + "48 8b 02"
    image = crash_image(code, at=7, registers={"rbx": HEAP}, signal=segv(0))

    (step,) = origins(image)

    assert step.what == "loaded from memory"


@pytest.mark.parametrize(
    ("code", "at"),
    [
        ("31 ff 48 8b 07", 2),  # xor edi, edi
        ("bf 00 00 00 00 48 8b 07", 5),  # mov edi, 0
    ],
)
def test_a_constant_is_named_as_one(code: str, at: int) -> None:
    (step,) = origins(crash_image(code, at=at, signal=segv(0)))

    assert (step.what, step.certainty) == ("set to a constant here", Certainty.PROVED)


def test_a_sum_of_two_unknowns_is_computed() -> None:
    # add rdi, rbx; mov rax, [rdi]
    (step,) = origins(crash_image("48 01 df 48 8b 07", at=3, signal=segv(0)))

    assert step.what == "computed here"


def test_a_pointer_moved_on_by_a_constant_is_the_same_pointer() -> None:
    # call; add rax, 8; mov rax, [rax]
    code = call_to(FIND.address, 0) + "48 83 c0 08" + "48 8b 00"
    image = crash_image(code, at=9, registers={"rax": 8}, signal=segv(8), functions=(FIND,))

    (step,) = origins(image)

    assert step.function == "vllm::find"


# In loops.


def test_a_value_that_the_loop_changes_came_from_an_earlier_round() -> None:
    # again: add eax, [rdi + 8]; mov rdi, [rdi]; test rdi, rdi; jne again
    code = "48 83 c3 01" + "03 47 08" + "48 8b 3f" + "48 85 ff" + "75 f5"
    wild = 0x4141414141414141
    image = crash_image(code, at=4, registers={"rdi": wild}, signal=segv(0))

    (step,) = origins(image, FaultKind.NON_CANONICAL_ADDRESS)

    assert (step.what, step.certainty, step.value) == (
        "loaded from memory in an earlier round of the loop",
        Certainty.LIKELY,
        wild,
    )


def test_a_value_that_the_loop_keeps_came_from_before_it() -> None:
    # xor edi, edi; again: mov rax, [rdi]; add rbx, 1; jne again
    code = "31 ff" + "48 8b 07" + "48 83 c3 01" + "75 f7"

    (step,) = origins(crash_image(code, at=2, signal=segv(0)))

    assert step.what == "set to a constant here"


@pytest.mark.parametrize(
    ("value", "known"), [(0x4141414141414141, False), (HEAP, True)], ids=["no address", "a block"]
)
def test_an_allocator_does_not_return_what_is_no_address(value: int, *, known: bool) -> None:
    new = Symbol(name="operator new(unsigned long)@plt", address=FIND.address, size=0x10)
    code = call_to(new.address, 0) + "48 8b 00"  # mov rax, [rax]
    image = crash_image(code, at=5, registers={"rax": value}, signal=segv(0), functions=(new,))

    found = origins(image, FaultKind.NON_CANONICAL_ADDRESS)

    assert [step.function for step in found] == (["operator new(unsigned long)"] if known else [])


# Across calls.


def test_an_argument_leads_into_the_caller() -> None:
    callee = Symbol(name="_Z4workv", address=CODE, size=0x100)
    caller = Symbol(name="_Z6callerv", address=CODE + 0x400, size=0x40)
    # caller: xor edi, edi; call work
    call = "31 ff" + "e8" + (CODE - (caller.address + 7)).to_bytes(4, "little", signed=True).hex()
    frames = (
        a_frame(0, "work", pc=CODE),
        a_frame(1, "caller", pc=caller.address + 7, line=12),
    )
    image = crash_image(
        "48 8b 47 48",
        signal=segv(0x48),
        frames=frames,
        functions=(caller,),
        memory={caller.address: bytes.fromhex(call) + b"\x90" * 80},
    )

    passed, constant = origins(image)

    assert callee.address == CODE
    assert (passed.what, passed.function, passed.line) == ("passed as argument 1", "caller", 12)
    assert (constant.what, constant.certainty) == ("set to a constant here", Certainty.PROVED)


def test_the_outermost_argument_has_no_caller_to_name() -> None:
    assert origins(crash_image("48 8b 47 48", signal=segv(0x48))) == ()


@pytest.mark.parametrize(
    ("name", "fault", "argument"),
    [
        ("__memcpy_avx_unaligned_erms", "48 8b 06", "rsi"),  # reads the source
        ("__memmove_avx512_unaligned", "48 89 07", "rdi"),  # writes the destination
        ("__strlen_avx2", "48 8b 07", "rdi"),
        ("__memset_avx2_unaligned_erms", "48 89 07", "rdi"),
    ],
)
def test_a_copy_of_the_c_library_is_understood_by_its_name(
    name: str, fault: str, argument: str
) -> None:
    caller = Symbol(name="_Z6callerv", address=CODE + 0x400, size=0x40)
    clear = {"rdi": "31 ff", "rsi": "31 f6"}[argument]  # xor edi, edi / xor esi, esi
    call = bytes.fromhex(clear) + b"\xe8\0\0\0\0" + b"\x90" * 80
    frames = (libc_frame(0, name, pc=CODE), a_frame(1, "caller", pc=caller.address + 7))
    image = crash_image(
        # The jump would make a walk through its code only likely.
        "74 00" + fault, at=2, signal=segv(0), frames=frames, functions=(caller,),
        memory={caller.address: call},
    )  # fmt: skip

    (step,) = origins(image)

    assert (step.what, step.certainty, step.value) == (
        "set to a constant here",
        Certainty.PROVED,
        0,
    )


@pytest.mark.parametrize(
    "kind", [FaultKind.ABORT, FaultKind.NULL_CALL, FaultKind.STACK_OVERFLOW, FaultKind.UNKNOWN]
)
def test_a_fault_without_a_bad_pointer_has_no_origin(kind: FaultKind) -> None:
    assert origins(crash_image("31 ff 48 8b 07", at=2, signal=segv(0)), kind) == ()


def test_without_an_address_the_only_access_is_followed() -> None:
    image = crash_image(
        "48 bf 00 00 00 00 00 00 ad de 48 8b 07",  # movabs rdi, ...; mov rax, [rdi]
        at=10,
        registers={"rdi": 0xDEAD_0000_0000_0000},
        signal=general_protection(),
    )

    (step,) = origins(image, FaultKind.NON_CANONICAL_ADDRESS)

    assert (step.what, step.value) == ("set to a constant here", 0xDEAD_0000_0000_0000)


def test_without_frames_nothing_is_claimed() -> None:
    assert origins(crash_image("31 ff 48 8b 07", at=2, signal=segv(0), frames=())) == ()
