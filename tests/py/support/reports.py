"""A report made of values: two equal crashes, another one, and an input that gave nothing."""

from __future__ import annotations

from dataclasses import replace

from tests.py.support.images import (
    CODE,
    HEAP,
    PID,
    a_frame,
    libc_frame,
    segv,
    sent_by_self,
)

from vllm_forensics.evidence.instructions import decode
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.finding import Access, Certainty, FaultKind, Origin
from vllm_forensics.model.process import Architecture
from vllm_forensics.model.report import (
    Crash,
    Failure,
    Fault,
    Group,
    ModuleReport,
    Report,
    SourceExcerpt,
    ThreadReport,
)
from vllm_forensics.model.stack import FrameKind, Recursion, Stack, Variable

_THIS = Variable(name="this", value="0x0", type="Block * const", is_argument=True)
_CODE = decode(bytes.fromhex("55 48 89 e5 48 8b 47 48 c3"), CODE, Architecture.X86_64)


def null_crash(core: str = "/tmp/core.42") -> Crash:  # noqa: S108
    frames = (
        a_frame(0, "Block::id", pc=CODE + 4, file="/src/block.h", line=12, variables=(_THIS,)),
        a_frame(1, "vllm::copy_blocks", pc=CODE + 0x40, file="/src/csrc/cache.cpp", line=88),
        a_frame(2, "vllm::step", pc=CODE + 0x80, kind=FrameKind.INLINED),
        libc_frame(3, "__libc_start_call_main"),
        libc_frame(4, "__libc_start_main"),
        a_frame(5, "_start", file=None),
    )
    worker = ThreadReport(
        tid=43, name=None, crashed=False, registers={},
        stack=Stack(tid=43, frames=(libc_frame(0, "__poll"),)),
    )  # fmt: skip
    return Crash(
        core=core,
        program="/opt/app/engine",
        command="engine --serve",
        pid=PID,
        architecture=Architecture.X86_64,
        signal=segv(0x48),
        delivered=sent_by_self(6),
        fault=Fault(
            kind=FaultKind.NULL_DEREFERENCE, access=Access.READ, address=0x48, size=8,
            instruction="mov rax, qword ptr [rdi + 0x48]", message=None,
        ),
        culprit=frames[1],
        threads=(
            ThreadReport(
                tid=PID, name="engine", crashed=True, stack=Stack(tid=PID, frames=frames),
                registers={"rdi": 0, "rip": CODE + 4}, disassembly=tuple(_CODE),
                fault_pc=CODE + 4,
            ),
            worker,
            replace(worker, tid=44),
        ),
        modules=(
            ModuleReport(
                path="/opt/app/engine", build_id="aa", start=CODE, end=CODE + 0x2000,
                debug_info=True, matches_core=True,
            ),
            ModuleReport(
                path="/usr/lib/libc.so.6", build_id=None, start=HEAP, end=HEAP + 1,
                debug_info=None, matches_core=None,
            ),
        ),
        explanation="The program read 8 bytes from address 0x48, a member or element 72 bytes into "
        "a null object. It happened in Block::id, called on a null object by vllm::copy_blocks "
        "(cache.cpp:88).",
        proof=("SEGV_MAPERR, si_addr 0x48", "operand [rdi + 0x48] = 0x48, 8 bytes"),
        next_steps=("forensics core --gdb /tmp/core.42    # look around by hand",),
        signature="v1:memory-access:Block::id:0123456789ab",
        reraised_by="on_crash",
        origin=(
            Origin(
                what="passed as argument 1", certainty=Certainty.PROVED, function="copy_blocks",
                file="/src/csrc/cache.cpp", line=88, value=0,
            ),
            Origin(
                what="returned null", certainty=Certainty.LIKELY, function="vllm::find",
                file="/src/csrc/cache.cpp", line=84, instruction="call 0x401800", value=0,
            ),
        ),
        objects=(
            Variable(name="count", value="3"),
            Variable(name="gone", value="<optimized out>"),
            Variable(name="names", value="[bold]std::vector of length 2[/bold]"),
        ),
        notable_registers=("rdi 0x0 null",),
        excerpt=SourceExcerpt(
            file="/src/csrc/cache.cpp", first_line=87, marked_line=88,
            lines=("  auto* block = find(id);", "\treturn block->id();", "}"),
        ),
        gaps=(Gap(what="libc.so.6 has no debug information", remedy="apt-get install libc6-dbg"),),
    )  # fmt: skip


def recursion_crash() -> Crash:
    frames = tuple(a_frame(at, "visit", pc=CODE, line=5) for at in range(4))
    stack = Stack(
        tid=PID, frames=frames, truncated=True,
        recursion=Recursion(first_index=0, period=1, count=104_745),
    )  # fmt: skip
    thread = ThreadReport(tid=PID, name="engine", crashed=True, stack=stack, registers={})
    return Crash(
        core="/tmp/core.77",  # noqa: S108
        program=None,
        command="",
        pid=PID,
        architecture=Architecture.X86_64,
        signal=segv(HEAP),
        delivered=segv(HEAP),
        fault=Fault(
            kind=FaultKind.STACK_OVERFLOW, access=None, address=None, size=None, instruction=None,
            message=None,
        ),
        culprit=frames[0],
        threads=(thread,),
        modules=(),
        explanation="visit called itself: 104,745 times on this stack.",
        proof=("stack pointer",),
        next_steps=(),
        signature="v1:stack-overflow:visit:ba9876543210",
    )  # fmt: skip


def a_report() -> Report:
    crashes = (null_crash(), null_crash("/tmp/core.43"), recursion_crash())  # noqa: S108
    return Report(
        crashes=crashes,
        groups=(
            Group(
                signature=crashes[0].signature,
                cores=(crashes[0].core, crashes[1].core),
                representative=crashes[0].core,
            ),
            Group(
                signature=crashes[2].signature,
                cores=(crashes[2].core,),
                representative=crashes[2].core,
            ),
        ),
        failures=(
            Failure(path="/tmp/notes.txt", error="is a text file", remedy="give the core"),  # noqa: S108
        ),
    )


def single_report() -> Report:
    crash = null_crash()
    group = Group(signature=crash.signature, cores=(crash.core,), representative=crash.core)
    return Report(crashes=(crash,), groups=(group,), failures=())
