"""Faults of memory accesses: SIGSEGV and SIGBUS, told apart by address, operands and mappings."""

from __future__ import annotations

import shlex
from typing import Final

from vllm_forensics.diagnosis.access import (
    MemoryAccess,
    faulting_access,
    instruction_at,
    memory_accesses,
    register_value,
)
from vllm_forensics.diagnosis.context import SIGBUS, SIGSEGV, FaultContext
from vllm_forensics.diagnosis.memory import read_pointer
from vllm_forensics.diagnosis.wording import (
    NULL_PAGE,
    access_kind,
    access_proof,
    access_text,
    describe_mapping,
    is_canonical,
    rights_text,
    size_text,
)
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.finding import Access, FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address, Architecture
from vllm_forensics.model.signals import SI_KERNEL, code_name
from vllm_forensics.model.stack import OperandKind

SEGV_MAPERR: Final = 1
SEGV_ACCERR: Final = 2
BUS_ADRALN: Final = 1
BUS_ADRERR: Final = 2
_ALIGNED: Final = (
    "movap",
    "movdqa",
    "movntdq",
    "movntp",
    "vmovap",
    "vmovdqa",
    "vmovntdq",
    "vmovntp",
)


def null_dereference(image: Image, context: FaultContext) -> Finding | None:
    """An access to the first 64 KiB: a null pointer, or a member of a null object."""
    address = context.signal.address
    if context.signal.number != SIGSEGV or address is None or address >= NULL_PAGE:
        return None
    if not context.signal.from_kernel or context.signal.code == SI_KERNEL:
        return None
    access = faulting_access(image, context)
    where = f"address {address:#x}"
    offset = f", a member or element {address} bytes into a null object" if address else ""
    return Finding(
        kind=FaultKind.NULL_DEREFERENCE,
        summary=f"{access_text(access, context)} {where}{offset}.",
        proof=(
            f"{code_name(context.signal)}, si_addr {address:#x}",
            *access_proof(access, context),
        ),
        access=access_kind(access, context),
        address=address,
        size=access.size if access else None,
    )


def misaligned_access(image: Image, context: FaultContext) -> Finding | None:
    """An address that is not a multiple of what the instruction demands."""
    if context.signal.number == SIGBUS and context.signal.code == BUS_ADRALN:
        access = faulting_access(image, context) or _only(memory_accesses(image, context))
        address = access.address if access else context.signal.address
        return _misaligned(
            access, address, ("SIGBUS with BUS_ADRALN: the processor demanded alignment",)
        )
    instruction = instruction_at(image, context.pc)
    if not _is_general_protection(context) or instruction is None:
        return None
    access = _only(memory_accesses(image, context))
    if (
        access is None
        or access.size < 16
        or not access.address % 16
        or not is_canonical(access.address)
    ):
        return None
    legacy_sse = not instruction.mnemonic.startswith("v") and any(
        operand.kind is OperandKind.REGISTER and (operand.register or "").startswith("xmm")
        for operand in instruction.operands
    )
    unaligned_forms = ("movu", "lddqu", "vmovu")
    if instruction.mnemonic.startswith(unaligned_forms):
        return None
    if not legacy_sse and not instruction.mnemonic.startswith(_ALIGNED):
        return None
    proof = (
        "general protection (SI_KERNEL, no address), with a canonical operand",
        f"{instruction.mnemonic} needs a multiple of {access.size}; "
        f"{access.operand} = {access.address:#x}",
    )
    return _misaligned(access, access.address, proof)


def non_canonical_address(image: Image, context: FaultContext) -> Finding | None:
    """An address whose upper bits are not a copy of bit 47: the processor refuses it unseen.

    The kernel reports such a fault as SI_KERNEL with address 0, which looks like a null pointer.
    """
    if not _is_general_protection(context):
        return None
    for access in memory_accesses(image, context):
        if not is_canonical(access.address):
            return _non_canonical(access.address, access)
    target = _jump_target(image, context)
    if target is not None and not is_canonical(target):
        return _non_canonical(target, None)
    return None


def truncated_mapping(image: Image, context: FaultContext) -> Finding | None:
    """SIGBUS inside a file's mapping: the file ends before the page, or /dev/shm is full."""
    if context.signal.number != SIGBUS or context.signal.code != BUS_ADRERR:
        return None
    address = context.signal.address
    mapping = image.mapping_at(address or 0)
    if address is None or isinstance(mapping, Gap):
        return None
    access = faulting_access(image, context)
    shared = (mapping.value.path or "").startswith(("/dev/shm/", "/memfd:", "/SYSV"))  # noqa: S108
    offset = address - mapping.value.start + mapping.value.file_offset
    what = mapping.value.path or "an unnamed mapping"
    why = (
        "shared memory could not supply the page: /dev/shm is full, or the object is smaller "
        "than its mapping"
        if shared
        else "the file is shorter than its mapping: it was truncated or replaced "
        "after it was mapped"
    )
    return Finding(
        kind=FaultKind.TRUNCATED_MAPPING,
        summary=f"{access_text(access, context)} {address:#x}, "
        f"{size_text(offset)} into {what}: {why}.",
        proof=(
            f"SIGBUS with BUS_ADRERR, si_addr {address:#x}",
            f"mapped from {what} ({mapping.value.start:#x}-{mapping.value.end:#x})",
        ),
        access=access_kind(access, context),
        address=address,
        size=access.size if access else None,
        message=mapping.value.path,
        advice=(
            "df -h /dev/shm    # in a container: docker run --shm-size=8g, "
            "or an emptyDir with medium: Memory"
            if shared
            else f"stat {shlex.quote(what)}    # who shortens it while it is mapped?",
        ),
    )


def protected_access(image: Image, context: FaultContext) -> Finding | None:
    """SEGV_ACCERR and its kin: the page is there, but not for this kind of access."""
    address = context.signal.address
    if context.signal.number != SIGSEGV or not context.signal.from_kernel or address is None:
        return None
    mapping = image.mapping_at(address)
    if context.signal.code == SEGV_MAPERR or isinstance(mapping, Gap):
        return None
    access = faulting_access(image, context)
    kind = access_kind(access, context)
    facts = mapping.value
    writes_data = kind is Access.WRITE and facts.readable and not facts.writable
    return Finding(
        kind=FaultKind.WRITE_TO_READ_ONLY if writes_data else FaultKind.PROTECTED_PAGE,
        summary=f"{access_text(access, context)} {address:#x}, which is {describe_mapping(facts)}.",
        proof=(
            f"{code_name(context.signal)}, si_addr {address:#x}",
            rights_text(facts),
            *access_proof(access, context),
        ),
        access=kind,
        address=address,
        size=access.size if access else None,
    )


def wild_pointer(image: Image, context: FaultContext) -> Finding | None:
    """Whatever else faulted at an address: nothing is mapped there, or the core does not say."""
    address = context.signal.address
    if context.signal.number != SIGSEGV or not context.signal.from_kernel or address is None:
        return None
    if context.signal.code == SI_KERNEL:
        return None
    access = faulting_access(image, context)
    mapping = image.mapping_at(address)
    if isinstance(mapping, Known):
        where = f"which is {describe_mapping(mapping.value)}"
    elif context.signal.code == SEGV_ACCERR:
        where = "which the kernel found mapped, but not for that; as what, the core does not say"
    else:
        where = f"where nothing is mapped{_nearest(image, address)}"
    return Finding(
        kind=FaultKind.WILD_POINTER,
        summary=f"{access_text(access, context)} {address:#x}, {where}.",
        proof=(
            f"{code_name(context.signal)}, si_addr {address:#x}",
            *access_proof(access, context),
        ),
        access=access_kind(access, context),
        address=address,
        size=access.size if access else None,
    )


def resent_without_trace(image: Image, context: FaultContext) -> Finding | None:
    """A fault signal that the program sent to itself, at an instruction that would fault by itself.

    A handler without SA_NODEFER that raises and returns leaves no signal frame in reach (it ran on
    an alternate stack); the operand at the program counter still shows the address that cannot be
    used.
    """
    sent_by_self = context.signal.sender_pid in {image.process.pid, context.thread.tid}
    if (
        context.signal.number not in {SIGSEGV, SIGBUS}
        or context.signal.from_kernel
        or not sent_by_self
    ):
        return None
    return _unusable(
        image,
        context,
        "; a handler then sent the signal again",
        f"the program sent the signal to itself (si_code {context.signal.code})",
    )


def unrecorded_fault(image: Image, context: FaultContext) -> Finding | None:
    """A fault signal of which the core holds the number alone, at an operand that explains it."""
    if context.signal.number not in {SIGSEGV, SIGBUS} or context.signal.is_recorded:
        return None
    nothing_known = "the core records neither si_code nor si_addr"
    mapping = image.mapping_at(context.pc)
    if isinstance(mapping, Gap):
        return Finding(
            kind=FaultKind.NULL_CALL if context.pc < NULL_PAGE else FaultKind.WILD_POINTER,
            summary=f"Control went to {context.pc:#x}, where nothing is mapped.",
            proof=(nothing_known, f"the program counter is {context.pc:#x}: {mapping.what}"),
            access=Access.EXECUTE,
            address=context.pc,
        )
    return _unusable(image, context, "", nothing_known)


def _unusable(image: Image, context: FaultContext, after: str, known: str) -> Finding | None:
    """The operand at the program counter that cannot be accessed."""
    for access in memory_accesses(image, context):
        is_x86_64 = image.process.architecture is Architecture.X86_64
        if is_x86_64 and not is_canonical(access.address):
            return _non_canonical(access.address, access)
        mapping = image.mapping_at(access.address)
        if isinstance(mapping, Known) and mapping.value.readable:
            continue
        kind = FaultKind.NULL_DEREFERENCE if access.address < NULL_PAGE else FaultKind.WILD_POINTER
        if isinstance(mapping, Known):
            kind = FaultKind.PROTECTED_PAGE
        return Finding(
            kind=kind,
            summary=f"{access_text(access, context)} address {access.address:#x}{after}.",
            proof=(
                known,
                f"the instruction it was at uses {access.operand} = {access.address:#x}, "
                "which cannot be accessed",
            ),
            access=access.access,
            address=access.address,
            size=access.size,
        )
    return None


def _non_canonical(address: Address, access: MemoryAccess | None) -> Finding:
    operand = f"operand {access.operand}" if access else "the branch's target"
    return Finding(
        kind=FaultKind.NON_CANONICAL_ADDRESS,
        summary=f"{_words(access)} {address:#x}, which is no address at all on this processor: "
        "the pointer was overwritten, never set, or computed from a wild index.",
        proof=(
            "general protection (SI_KERNEL, si_addr 0)",
            f"{operand} = {address:#x}: bits 63 to 47 differ",
        ),
        access=access.access if access else Access.EXECUTE,
        address=address,
        size=access.size if access else None,
    )


def _misaligned(
    access: MemoryAccess | None, address: Address | None, proof: tuple[str, ...]
) -> Finding:
    shown = f"{address:#x}" if address is not None else "an address"
    return Finding(
        kind=FaultKind.MISALIGNED_ACCESS,
        summary=f"{_words(access)} {shown}, which is not aligned as the instruction demands.",
        proof=proof,
        access=access.access if access else None,
        address=address,
        size=access.size if access else None,
        advice=(
            "rebuild with -fsanitize=alignment -g, run again    # it names the cast that is wrong",
        ),
    )


def _is_general_protection(context: FaultContext) -> bool:
    """#GP (SIGSEGV), or #SS (SIGBUS) where rsp or rbp is the base: both without an address."""
    if context.frame is not None and context.frame.trap_number in {12, 13}:
        return True
    return context.signal.number in {SIGSEGV, SIGBUS} and context.signal.code == SI_KERNEL


def _jump_target(image: Image, context: FaultContext) -> Address | None:
    """Where an indirect jump, call or return wanted to go."""
    instruction = instruction_at(image, context.pc)
    if instruction is None:
        return None
    if instruction.is_return:
        return read_pointer(image, context.sp)
    if not (instruction.is_call or instruction.is_jump):
        return None
    for operand in instruction.operands:
        if operand.kind is OperandKind.REGISTER and operand.register:
            return register_value(operand.register, dict(context.registers))
    accesses = [a for a in memory_accesses(image, context) if a.access is Access.READ]
    return read_pointer(image, accesses[0].address) if accesses else None


def _nearest(image: Image, address: Address) -> str:
    """How far the next mapping is: an address just past one is an index that went too far."""
    before = [m for m in image.mappings if m.end <= address]
    if not before:
        return ""
    gap = address - before[-1].end
    if gap >= 16 << 20:
        return ""
    return f" ({size_text(gap)} past the end of {describe_mapping(before[-1])})"


def _only(accesses: tuple[MemoryAccess, ...]) -> MemoryAccess | None:
    return accesses[0] if accesses else None


def _words(access: MemoryAccess | None) -> str:
    if access is None:
        return "Control went to"
    verb = "read from" if access.access is Access.READ else "wrote to"
    return f"The program {verb}"
