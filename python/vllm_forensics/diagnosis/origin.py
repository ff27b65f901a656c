"""Where a bad pointer came from: the faulting register followed backwards through the machine code.

The walk goes from the faulting instruction towards the start of its function, through moves and
stack slots, and at the start into the caller. It ends at a call that returned the value, a load
from memory, or a constant. At the head of a loop around the fault it goes on at the loop's end,
where an earlier round changed the value. A step is `proved` only where no jump leads into or out of
the stretch between the two instructions; otherwise another path could have set the value, and it is
`likely`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vllm_forensics.diagnosis.access import (
    PARTS,
    MemoryAccess,
    effective_address,
    faulting_access,
    memory_accesses,
    operand_text,
)
from vllm_forensics.diagnosis.calls import fault_frames
from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.diagnosis.memory import read_pointer
from vllm_forensics.diagnosis.wording import is_canonical
from vllm_forensics.model.answer import Known
from vllm_forensics.model.finding import Access, Certainty, FaultKind, Finding, Origin
from vllm_forensics.model.image import Image
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.stack import Frame, FrameKind, Instruction, Operand, OperandKind

_ARGUMENTS: Final = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
"""Integer arguments in order (System V ABI for x86-64, 3.2.3)."""
_CALLER_SAVED: Final = {*_ARGUMENTS, "rax", "r10", "r11"}
_ARITHMETIC: Final = (
    "lea",
    "add",
    "sub",
    "imul",
    "and",
    "or",
    "xor",
    "shl",
    "sal",
    "sar",
    "shr",
    "not",
    "neg",
)
_MAX_LEVELS: Final = 4
_MAX_STEPS: Final = 2000
_COPIES: Final = re.compile(r"_*(wmem|mem)(p?cpy|move)(_|$)|_*(st[pr]n?cpy|strcat)(_|$)")
_READS_FIRST: Final = re.compile(
    r"_*(wcs|str|mem|rawmem)(n?len|chr|rchr|n?cmp|set|str|spn|cspn)(_|$)"
)
_ALLOCATORS: Final = re.compile(r"_*(malloc|calloc|realloc)$|operator new")
_KINDS: Final = {
    FaultKind.NULL_DEREFERENCE,
    FaultKind.WILD_POINTER,
    FaultKind.NON_CANONICAL_ADDRESS,
    FaultKind.WRITE_TO_READ_ONLY,
    FaultKind.PROTECTED_PAGE,
    FaultKind.MISALIGNED_ACCESS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the value lives while it is followed: a register, or a slot of the frame."""

    register: str | None = None
    slot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    """Where the walk through one function ended."""

    origin: Origin | None
    argument: str | None = None
    """The register in which the caller passed the value."""
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """A function's instructions around the one whose value is followed."""

    before: tuple[Instruction, ...]
    loop_head: int | None = None
    """Where the innermost loop around it begins."""
    loop_rest: tuple[Instruction, ...] = ()
    """From it to the jump back: what an earlier round went through last."""


def origin_of(image: Image, context: FaultContext, finding: Finding) -> tuple[Origin, ...]:
    """The steps back from the bad address, the nearest first; empty where none can be shown."""
    is_x86 = "rip" in context.registers or "rax" in context.registers
    if finding.kind not in _KINDS or not is_x86:
        return ()
    calls = [frame for frame in fault_frames(image, context) if frame.kind is FrameKind.NATIVE]
    if not calls:
        return ()
    return tuple(_walk_out(image, context, calls))


def _walk_out(image: Image, context: FaultContext, calls: list[Frame]) -> Iterator[Origin]:
    """Function by function, from the fault outwards, as long as the value is an argument."""
    access = faulting_access(image, context) or next(iter(memory_accesses(image, context)), None)
    if access is None or access.base is None:
        return
    value: int | None = context.registers.get(_whole(access.base))
    place = _Place(register=_whole(access.base))
    certain = True
    start = 0
    library = _argument_of_library_call(calls[0], access)
    if library is not None and len(calls) > 1:
        place, value, start = _Place(register=library), None, 1
        if access.address == 0:
            value = 0
    for level, frame in enumerate(calls[start : start + _MAX_LEVELS]):
        at_fault = level + start == 0
        code = _code_around(image, frame, is_return_address=not at_fault)
        stop = _walk_back(image, context if at_fault else None, code, place)
        certain = certain and stop.certain
        if stop.origin is not None:
            if _cannot_be(stop.origin, value):
                return
            yield _placed(image, stop.origin, value, certain=certain)
            return
        following = calls[start + level + 1 : start + level + 2]
        if stop.argument is None or not following:
            return
        number = _ARGUMENTS.index(stop.argument) + 1
        yield Origin(
            what=f"passed as argument {number}",
            certainty=Certainty.PROVED if certain else Certainty.LIKELY,
            function=following[0].function,
            file=following[0].file,
            line=following[0].line,
            value=value,
        )
        place = _Place(register=stop.argument)


def _walk_back(image: Image, at_fault: FaultContext | None, code: _Code, place: _Place) -> _Stop:
    """Follow one value backwards through one function's instructions, the last one first.

    The registers `at_fault` are those of this function, if it is the innermost.
    """
    changed: set[str] = set()
    certain = True
    in_loop = False
    targets = _jump_targets(code.before)
    steps = list(reversed(code.before[-_MAX_STEPS:]))
    head = code.loop_head
    at = 0
    while at < len(steps) or head is not None:
        if head is not None and (at == len(steps) or steps[at].address < head):
            if any(_step(step, place) != place for step in code.loop_rest):
                in_loop, certain = True, False
                round_before = [step for step in code.before if step.address >= head]
                steps[at:at] = reversed((*round_before, *code.loop_rest))
            head = None
            continue
        step = steps[at]
        at += 1
        if step.end in targets or (step.is_jump and not step.is_call):
            certain = False
        follow = _step(step, place)
        if isinstance(follow, str):
            here = None if in_loop else at_fault
            loaded = _loaded_from(image, here, step, changed) if here is not None else None
            what, function = _describe(image, step, follow, loaded)
            origin = Origin(
                what=f"{what} in an earlier round of the loop" if in_loop else what,
                certainty=Certainty.PROVED if certain else Certainty.LIKELY,
                function=function,
                instruction=f"{step.address:#x} {step.text}",
            )
            return _Stop(origin=origin, certain=certain)
        if follow is None:
            return _Stop(origin=None, certain=certain)
        place = follow
        changed.update(_whole(name) for name in step.written)
        if step.is_call:
            changed.update(_CALLER_SAVED)
    argument = place.register if place.register in _ARGUMENTS else None
    return _Stop(origin=None, argument=argument, certain=certain)


def _step(step: Instruction, place: _Place) -> _Place | str | None:
    """One instruction back: where the value was, a word for where it began, or None: lost."""
    if place.slot is not None:
        return _step_slot(step, place)
    if step.is_call:
        return _step_call(place)
    if place.register not in {_whole(name) for name in step.written}:
        return place
    if step.mnemonic.startswith("mov") and len(step.operands) == 2:
        return _moved_from(step.operands[1])
    return _step_arithmetic(step, place)


def _step_call(place: _Place) -> _Place | str | None:
    """A call returns its value in rax and destroys the other registers that the callee may use."""
    if place.register == "rax":
        return "call"
    return None if place.register in _CALLER_SAVED else place


def _moved_from(source: Operand) -> _Place | str:
    """Where a move into a register took the value from."""
    if source.kind is OperandKind.REGISTER and source.register:
        return _Place(register=_whole(source.register))
    if source.kind is OperandKind.IMMEDIATE:
        return "constant"
    if source.base in {"rbp", "rsp"} and source.index is None:
        return _Place(slot=operand_text(source))
    return "load"


def _step_arithmetic(step: Instruction, place: _Place) -> _Place | str | None:
    """An instruction that wrote the register otherwise than by a move."""
    operands = step.operands
    clears = len(operands) == 2 and operands[0].register == operands[1].register
    if step.mnemonic == "xor" and clears:
        return "constant"
    # rep movs and friends move their pointers on: the same pointer, some steps before.
    if step.mnemonic.startswith(("rep", "add", "sub", "inc", "dec")) and not _mixes(operands):
        return place
    return "computed" if step.mnemonic.startswith(_ARITHMETIC) else None


def _step_slot(step: Instruction, place: _Place) -> _Place | str | None:
    moves_stack = "rsp" in step.written and not step.is_call
    if moves_stack and place.slot is not None and "rsp" in place.slot:
        return None
    if not step.operands or step.operands[0].kind is not OperandKind.MEMORY:
        return place
    if not step.operands[0].writes or operand_text(step.operands[0]) != place.slot:
        return place
    if step.mnemonic.startswith("mov") and len(step.operands) == 2:
        source = step.operands[1]
        if source.kind is OperandKind.REGISTER and source.register:
            return _Place(register=_whole(source.register))
        if source.kind is OperandKind.IMMEDIATE:
            return "constant"
    return "computed"


def _describe(
    image: Image, step: Instruction, word: str, loaded: tuple[int, int | None] | None
) -> tuple[str, str | None]:
    """What the last step means, and the function that it names."""
    if word == "call":
        return "returned", _callee(image, step)
    if word == "load" and loaded is not None:
        address, held = loaded
        holds = f", which holds {held:#x}" if held is not None else ""
        return f"loaded from memory at {address:#x}{holds}", None
    return {
        "load": "loaded from memory",
        "constant": "set to a constant here",
        "computed": "computed here",
    }[word], None


def _placed(image: Image, origin: Origin, value: int | None, *, certain: bool) -> Origin:
    """Add source line and value; say "returned null" where it is one."""
    address = int((origin.instruction or "0").split()[0], 16)
    lines = image.lines(address)
    line = lines.value[0] if isinstance(lines, Known) and lines.value else None
    what = origin.what
    if what == "returned":
        what = "returned null" if value == 0 else "returned this pointer"
    return Origin(
        what=what,
        certainty=origin.certainty if certain else Certainty.LIKELY,
        function=origin.function,
        file=line.file if line else None,
        line=line.line if line else None,
        instruction=(origin.instruction or "").split(" ", 1)[-1],
        value=value,
    )


def _loaded_from(
    image: Image, context: FaultContext, step: Instruction, changed: set[str]
) -> tuple[int, int | None] | None:
    """The address of a load, if its registers still hold at the fault what they held then."""
    operand = step.operands[1] if len(step.operands) == 2 else None
    if operand is None or operand.kind is not OperandKind.MEMORY:
        return None
    used = {_whole(name) for name in (operand.base, operand.index) if name}
    own = {_whole(name) for name in step.written}
    if used & (changed | own):
        return None
    address = effective_address(operand, dict(context.registers))
    return None if address is None else (address, read_pointer(image, address))


def _code_around(image: Image, frame: Frame, *, is_return_address: bool) -> _Code:
    """The function's instructions around the frame's own one (for a caller: around its call)."""
    answer = image.instructions(frame.pc)
    if not isinstance(answer, Known):
        return _Code(before=())
    at = frame.pc - 1 if is_return_address else frame.pc
    before = tuple(step for step in answer.value if step.end <= at)
    rest = answer.value[len(before) :]
    for index, step in enumerate(rest):
        if step.is_jump and not step.is_call:
            head = next(iter(_jump_targets((step,))), None)
            if head is not None and head <= at:
                return _Code(before=before, loop_head=head, loop_rest=rest[: index + 1])
    return _Code(before=before)


def _cannot_be(origin: Origin, value: int | None) -> bool:
    """Would an allocator have returned what is no address? Then the value came another way."""
    allocated = origin.what == "returned" and _ALLOCATORS.match(origin.function or "") is not None
    return allocated and not is_canonical(value or 0)


def _argument_of_library_call(frame: Frame, access: MemoryAccess) -> str | None:
    """The argument that `memcpy` and its kin used.

    They are assembly full of jumps: their arguments are known without reading it.
    """
    name = frame.function or ""
    if _COPIES.match(name):
        return "rdi" if access.access is Access.WRITE else "rsi"
    return "rdi" if _READS_FIRST.match(name) else None


def _callee(image: Image, step: Instruction) -> str | None:
    """The function that a direct call names."""
    target = step.operands[0] if step.operands else None
    if target is None or target.kind is not OperandKind.IMMEDIATE:
        return None
    symbol = image.symbol_at(target.displacement)
    if not isinstance(symbol, Known) or not symbol.value.name:
        return None
    plain = symbol.value.name.removesuffix("@plt")  # as some tools call the linker's stub
    name = image.demangle(plain)
    return name.value if isinstance(name, Known) else plain


def _jump_targets(code: tuple[Instruction, ...]) -> set[int]:
    return {
        step.operands[0].displacement
        for step in code
        if step.is_jump and step.operands and step.operands[0].kind is OperandKind.IMMEDIATE
    }


def _mixes(operands: tuple[Operand, ...]) -> bool:
    """Does the instruction add two unknown values? Then neither is "the" pointer."""
    return len(operands) == 2 and operands[1].kind is not OperandKind.IMMEDIATE


def _whole(register: str) -> str:
    return PARTS[register][0] if register in PARTS else register
