"""Planted native crashes with their ground truth: what `forensics core` has to find out.

`CASES` says what each victim does; `build_victims` compiles them in one flavour; `make_core` runs
one until it dies. The truth is known from the source, from what the victim printed before its
fault, and from the unstripped twin of a stripped binary, never from the tool under test. Source
lines are looked up by their `// CRASH:marker` comments.
"""

import fcntl
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "victims"
EXECUTABLE = "victim"
PLUGIN = "libvictim_plugin.so"
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
STACK_BYTES = 8 << 20


class Flavour(StrEnum):
    """How much a binary says about itself."""

    DEBUG_O0 = "debug-O0"
    DEBUG_O2 = "debug-O2"
    SYMBOLS = "symbols"
    STRIPPED = "stripped"


COMMON_FLAGS = (
    *("-std=c++17", "-fPIC", "-pthread", "-fstack-protector-strong"),
    *("-Wall", "-Wextra", "-Werror"),
)
COMPILE_FLAGS = {
    Flavour.DEBUG_O0: ("-g", "-O0"),
    Flavour.DEBUG_O2: ("-g", "-O2"),
    Flavour.SYMBOLS: ("-g0", "-O2"),
    Flavour.STRIPPED: ("-g0", "-O2"),
}
WITHOUT_LINES = (Flavour.SYMBOLS, Flavour.STRIPPED)


class Printed(Enum):
    """An address that the victim itself prints before it faults."""

    EXACT = "address=0x…"
    RANGE = "address_low=0x… and address_high=0x…, both inclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A place that is to blame: the function by its plain name, the line by its marker."""

    function: str
    marker: str
    module: str = EXECUTABLE

    @property
    def file(self) -> str:
        """The name of the source file, without folders."""
        return marked_lines(self.marker)[0]

    @property
    def lines(self) -> frozenset[int]:
        """The line, or each line that the marker stands on."""
        return marked_lines(self.marker)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimCase:
    """One crash and all that is true about it.

    `address` is a hex string, a pair of them (both inclusive), `Printed`, or None where the
    contract leaves it open. `access` None means that the report must say null. `size_bytes` None
    and empty tuples are not compared. `message` holds what must occur in the reported message.
    Tuples of accepted values stand where the contract leaves a choice. `reraised` says whether the
    report must name a handler that sent the final signal; None leaves it open.
    """

    name: str
    argv: tuple[str, ...]
    kinds: tuple[str, ...]
    signals: tuple[str, ...]
    culprits: tuple[Culprit, ...]
    codes: tuple[str, ...] = ()
    access: str | None = None
    address: str | tuple[str, str] | Printed | None = None
    size_bytes: int | None = None
    message: tuple[str, ...] = ()
    overrides: tuple[tuple[Flavour, tuple[Culprit, ...]], ...] = ()
    send: signal.Signals | None = None
    reraised: bool | None = False

    @property
    def final_signal(self) -> str:
        """The signal that the kernel ended the process with."""
        return self.signals[0]

    def culprits_in(self, flavour: Flavour) -> tuple[Culprit, ...]:
        """The accepted culprits; the first is the best answer."""
        return dict(self.overrides).get(flavour, self.culprits)


@cache
def marked_lines(marker: str) -> tuple[str, frozenset[int]]:
    """Return the file and the lines that carry `// CRASH:marker`; ValueError unless in one file."""
    found: dict[str, set[int]] = {}
    for source in sorted(SOURCES.glob("*.cpp")):
        for number, text in enumerate(source.read_text(encoding="utf-8").splitlines(), start=1):
            if text.rstrip().endswith(f"// CRASH:{marker}"):
                found.setdefault(source.name, set()).add(number)
    if len(found) != 1:
        raise ValueError(f"marker {marker} is in {sorted(found)}, expected in one file")
    [(file, lines)] = found.items()
    return file, frozenset(lines)


def _blame(function: str, marker: str | None = None, *, module: str = EXECUTABLE) -> Culprit:
    namespace = "victim_plugin" if module == PLUGIN else "victims"
    return Culprit(function=f"{namespace}::{function}", marker=marker or function, module=module)


def _segv(
    name: str,
    kind: str,
    access: str | None,
    address: str | tuple[str, str] | Printed | None,
    size_bytes: int | None = None,
    *,
    code: str = "SEGV_MAPERR",
    signal_name: str = "SIGSEGV",
    culprit: Culprit | None = None,
    overrides: tuple[tuple[Flavour, tuple[Culprit, ...]], ...] = (),
) -> VictimCase:
    """A bad access, which the victim's own function makes unless said otherwise."""
    return VictimCase(
        name=name,
        argv=(name,),
        kinds=(kind,),
        signals=(signal_name,),
        codes=(code,),
        access=access,
        address=address,
        size_bytes=size_bytes,
        culprits=(culprit or _blame(name),),
        overrides=overrides,
    )


def _trap(name: str, kinds: tuple[str, ...], signal_name: str, code: str) -> VictimCase:
    """An instruction that faults by itself."""
    return VictimCase(
        name=name,
        argv=(name,),
        kinds=kinds,
        signals=(signal_name,),
        codes=(code,),
        culprits=(_blame(name),),
    )


def _abort(
    name: str,
    kind: str | tuple[str, ...],
    *message: str,
    culprit: Culprit | None = None,
) -> VictimCase:
    """A death by abort()."""
    return VictimCase(
        name=name,
        argv=(name,),
        kinds=(kind,) if isinstance(kind, str) else kind,
        signals=("SIGABRT",),
        codes=("SI_TKILL",),
        message=message,
        culprits=(culprit or _blame(name),),
    )


def _sent(number: signal.Signals) -> VictimCase:
    """A healthy victim that another process kills."""
    return VictimCase(
        name=f"external_{number.name.lower()}",
        argv=("wait_for_signal",),
        kinds=("external-signal",),
        signals=(number.name,),
        codes=("SI_USER",),
        culprits=(_blame("wait_for_signal"),),
        send=number,
    )


def _handled(
    name: str,
    *,
    kind: str = "null-dereference",
    signals: tuple[str, ...] = ("SIGSEGV",),
    codes: tuple[str, ...] = (),
    access: str | None = "read",
    address: str | Printed | None = "0x58",
    size_bytes: int | None = 8,
    message: tuple[str, ...] = (),
    culprit: str = "read_field_of_null",
    reraised: bool | None = True,
) -> VictimCase:
    """A fault that a handler saw before the process died; kind and address are the fault's own."""
    return VictimCase(
        name=name,
        argv=(name,),
        kinds=(kind,),
        signals=signals,
        codes=codes,
        access=access,
        address=address,
        size_bytes=size_bytes,
        message=message,
        culprits=(_blame(culprit),),
        reraised=reraised,
    )


_BAD = "0x123456789000"
_KERNEL = "SI_KERNEL"
_DENIED = "SEGV_ACCERR"
_NULL = "null-dereference"
_WILD = "wild-pointer"
_ODD = "non-canonical-address"
_HEAP = "heap-corruption"
_ODD_ADDRESS = "0xdeadbeefcafef00d"


def _without_lines(*culprits: Culprit) -> tuple[tuple[Flavour, tuple[Culprit, ...]], ...]:
    return tuple((flavour, culprits) for flavour in WITHOUT_LINES)


CASES: tuple[VictimCase, ...] = (
    # Null.
    _segv("null_read", _NULL, "read", "0x0", 4),
    _segv("null_write", _NULL, "write", "0x0"),
    _segv("null_member_read", _NULL, "read", "0x48", 8),
    _segv("null_member_write", _NULL, "write", "0x54", 2),
    _segv("null_array_element", _NULL, "read", "0x4d2", 1),
    # The `const` in the accessor's symbol proves a member function even without debug info; nothing
    # proves it for a mutator, so there its own frame is accepted too. Stripped, nothing is proved.
    _segv(
        "null_this_accessor",
        _NULL,
        "read",
        "0x48",
        8,
        overrides=(
            (
                Flavour.STRIPPED,
                (
                    _blame("null_this_accessor"),
                    _blame("(anonymous namespace)::Block::reference_count", "null_this_accessor"),
                ),
            ),
        ),
    ),
    _segv(
        "null_this_mutator",
        _NULL,
        "write",
        "0x50",
        4,
        overrides=_without_lines(
            _blame("null_this_mutator"),
            _blame("(anonymous namespace)::Block::mark", "null_this_mutator"),
        ),
    ),
    _segv("null_unique_ptr", _NULL, "read", "0x56", 1),
    _segv("null_memcpy_source", _NULL, "read", ("0x0", "0x3f")),
    _segv("null_memset_target", _NULL, "write", ("0x10", "0x3f")),
    _segv("null_strlen", _NULL, "read", "0x0"),
    _segv("null_string_size", _NULL, "read", "0x8", 8),
    _segv("null_vector_index", _NULL, "read", "0x0", 8),
    _segv("null_virtual_call", _NULL, "read", "0x0", 8),
    _segv("null_function_call", "null-call", "execute", "0x0"),
    # Wild.
    _segv("wild_read", _WILD, "read", _BAD, 8),
    _segv("wild_write", _WILD, "write", "0x123456789020", 4),
    _segv("wild_read_modify_write", _WILD, "write", "0x123456789031", 1),
    _segv("wild_call", _WILD, "execute", _BAD),
    _segv("wild_kernel_half", _WILD, "read", "0xffff800000001000", 2),
    _segv("wild_map_failed", _WILD, "read", "0xffffffffffffffff", 1),
    _segv("use_after_free_of_large_block", _WILD, "read", Printed.EXACT, 1),
    # Non-canonical: the kernel says SI_KERNEL and address 0; only the instruction knows.
    _segv("noncanonical_read", _ODD, "read", _ODD_ADDRESS, 8, code=_KERNEL),
    _segv("noncanonical_write", _ODD, "write", "0x4141414141414191", 4, code=_KERNEL),
    _segv("noncanonical_indexed_read", _ODD, "read", "0x8000000000004000", 4, code=_KERNEL),
    _segv(
        "noncanonical_memcpy_source",
        _ODD,
        "read",
        (_ODD_ADDRESS, "0xdeadbeefcafef04c"),
        code=_KERNEL,
    ),
    _segv("noncanonical_copy_by_string_instruction", _ODD, "read", _ODD_ADDRESS, code=_KERNEL),
    _segv("noncanonical_call", _ODD, "execute", _ODD_ADDRESS, code=_KERNEL),
    _segv("noncanonical_return", _ODD, "execute", _ODD_ADDRESS, code=_KERNEL),
    _segv(
        "noncanonical_through_frame_pointer",
        _ODD,
        "read",
        "0xdeadbeefcafef01d",
        8,
        code=_KERNEL,
        signal_name="SIGBUS",
    ),
    # Pages.
    _segv("write_to_string_literal", "write-to-read-only", "write", Printed.EXACT, 1, code=_DENIED),
    _segv("write_to_constant", "write-to-read-only", "write", Printed.EXACT, 4, code=_DENIED),
    _segv("write_to_code", "write-to-read-only", "write", Printed.EXACT, 1, code=_DENIED),
    _segv("write_after_mprotect", "write-to-read-only", "write", Printed.EXACT, 8, code=_DENIED),
    _segv("protected_page_read", "protected-page", "read", Printed.EXACT, 4, code=_DENIED),
    _segv(
        "protected_page_write_past_buffer",
        "protected-page",
        "write",
        Printed.EXACT,
        2,
        code=_DENIED,
    ),
    _segv("execute_heap", "execute-non-executable", "execute", Printed.EXACT, code=_DENIED),
    _segv("execute_data", "execute-non-executable", "execute", Printed.EXACT, code=_DENIED),
    _segv("execute_stack", "execute-non-executable", "execute", Printed.EXACT, code=_DENIED),
    _segv(
        "truncated_file_read",
        "truncated-mapping",
        "read",
        Printed.EXACT,
        8,
        code="BUS_ADRERR",
        signal_name="SIGBUS",
    ),
    _segv(
        "truncated_deleted_file_write",
        "truncated-mapping",
        "write",
        Printed.EXACT,
        1,
        code="BUS_ADRERR",
        signal_name="SIGBUS",
    ),
    _segv(
        "truncated_shared_memory_read",
        "truncated-mapping",
        "read",
        Printed.EXACT,
        4,
        code="BUS_ADRERR",
        signal_name="SIGBUS",
    ),
    _segv(
        "stack_overflow_main_thread",
        "stack-overflow",
        "write",
        Printed.RANGE,
        culprit=_blame("recurse_forever"),
    ),
    _segv(
        "stack_overflow_in_thread",
        "stack-overflow",
        "write",
        Printed.RANGE,
        code=_DENIED,
        culprit=_blame("recurse_forever"),
    ),
    _segv("stack_overflow_by_alloca", "stack-overflow", "write", Printed.RANGE),
    # Instructions.
    _segv("misaligned_vector_read", "misaligned-access", "read", Printed.EXACT, 16, code=_KERNEL),
    _segv("misaligned_vector_write", "misaligned-access", "write", Printed.EXACT, 16, code=_KERNEL),
    _segv(
        "misaligned_with_alignment_check",
        "misaligned-access",
        "read",
        Printed.EXACT,
        8,
        code="BUS_ADRALN",
        signal_name="SIGBUS",
    ),
    _trap("illegal_opcode", ("illegal-instruction",), "SIGILL", "ILL_ILLOPN"),
    _trap("illegal_xop_instruction", ("illegal-instruction",), "SIGILL", "ILL_ILLOPN"),
    # The contract has no kind for a privileged instruction; it is no bad pointer in any case.
    _trap(
        "privileged_instruction",
        ("illegal-instruction", "trap-instruction", "unknown"),
        "SIGSEGV",
        _KERNEL,
    ),
    _trap("builtin_trap", ("trap-instruction",), "SIGILL", "ILL_ILLOPN"),
    _trap("breakpoint", ("trap-instruction",), "SIGTRAP", _KERNEL),
    _trap("divide_by_zero", ("integer-divide-by-zero",), "SIGFPE", "FPE_INTDIV"),
    _trap("divide_by_zero_64", ("integer-divide-by-zero",), "SIGFPE", "FPE_INTDIV"),
    _trap("modulo_by_zero", ("integer-divide-by-zero",), "SIGFPE", "FPE_INTDIV"),
    # The heap.
    _abort("heap_overflow_by_one_element", _HEAP, "free(): invalid size"),
    # malloc calls the pointer invalid; that it is a good one shows only in the chunk before it.
    _abort("heap_overflow_zeroes_next_size", (_HEAP, "invalid-free"), "free(): invalid pointer"),
    _abort("heap_overflow_text_over_next_size", _HEAP, "double free or corruption (out)"),
    _abort("heap_overflow_over_top", _HEAP, "malloc(): corrupted top size"),
    _abort("heap_write_after_free", _HEAP, "malloc(): unaligned tcache chunk detected"),
    _abort("double_free_small", "double-free", "free(): double free detected in tcache 2"),
    _abort("double_free_large", "double-free", "double free or corruption (!prev)"),
    _abort("double_free_fastbin", "double-free", "double free or corruption (fasttop)"),
    _abort(
        "double_delete_by_copied_owner",
        "double-free",
        "free(): double free detected in tcache 2",
        culprit=_blame("(anonymous namespace)::Owner::~Owner", "double_delete_by_copied_owner"),
    ),
    _abort("invalid_free_interior", "invalid-free", "free(): invalid pointer"),
    _abort("invalid_free_stack", "invalid-free", "free(): invalid pointer"),
    _abort("invalid_free_static", "invalid-free", "free(): invalid pointer"),
    _abort("stack_smashing", "stack-smashing", "stack smashing detected"),
    # The C++ runtime.
    _abort(
        "uncaught_runtime_error",
        "uncaught-exception",
        "std::runtime_error",
        "Invalid block id: 42",
        culprit=_blame("throw_invalid_block"),
    ),
    _abort(
        "uncaught_out_of_range",
        "uncaught-exception",
        "std::out_of_range",
        "vector::_M_range_check: __n (which is 7) >= this->size() (which is 3)",
    ),
    _abort("uncaught_int", "uncaught-exception", "int"),
    _abort("uncaught_custom_exception", "uncaught-exception", "victims::OutOfBlocks"),
    _abort("uncaught_plain_struct", "uncaught-exception", "victims::PlainError"),
    _abort("uncaught_bad_alloc", "uncaught-exception", "std::bad_alloc"),
    _abort("uncaught_bad_function_call", "uncaught-exception", "std::bad_function_call"),
    # g++ keeps the throwing frame; clang++ unwinds to a landing pad in must_not_throw and loses it.
    _abort(
        "exception_in_noexcept",
        "uncaught-exception",
        "std::invalid_argument",
        "negative stride",
        culprit=_blame("throw_bad_argument"),
    ),
    _abort(
        "exception_in_thread",
        "uncaught-exception",
        "std::invalid_argument",
        "negative stride",
        culprit=_blame("throw_bad_argument"),
    ),
    _abort("joinable_thread_destroyed", "abort"),
    _abort("assertion", "assertion-failure", "count <= limit"),
    _abort("library_assertion", "assertion-failure"),
    _abort(
        "pure_virtual_call",
        "pure-virtual-call",
        culprit=_blame("(anonymous namespace)::call_size", "pure_virtual_call"),
    ),
    _abort("plain_abort", "abort"),
    # Killed from outside: whatever the signal's name says, nothing is wrong with the code.
    _sent(signal.SIGSEGV),
    _sent(signal.SIGABRT),
    _sent(signal.SIGBUS),
    _sent(signal.SIGQUIT),
    # Seen by a handler first.
    _handled("handler_raises_again", codes=("SEGV_MAPERR", "SI_TKILL")),
    _handled("handler_kills_self", codes=("SEGV_MAPERR", "SI_USER")),
    # No signal frame is left: the core shows the fault's registers and the raised signal's siginfo.
    _handled("handler_raises_blocked_signal", codes=("SEGV_MAPERR", "SI_TKILL"), reraised=None),
    _handled("handler_aborts", signals=("SIGABRT", "SIGSEGV"), codes=("SEGV_MAPERR", "SI_TKILL")),
    _handled("handler_returns", codes=("SEGV_MAPERR",), reraised=False),
    _handled(
        "handler_raises_noncanonical",
        kind=_ODD,
        codes=(_KERNEL, "SI_TKILL"),
        access="write",
        address="0xdead000000000158",
        culprit="write_noncanonical",
    ),
    _handled(
        "handler_raises_divide_by_zero",
        kind="integer-divide-by-zero",
        signals=("SIGFPE",),
        codes=("FPE_INTDIV", "SI_TKILL"),
        access=None,
        address=None,
        size_bytes=None,
        culprit="divide_in_vain",
    ),
    _handled(
        "handler_raises_null_call",
        kind="null-call",
        codes=("SEGV_MAPERR", "SI_TKILL"),
        access="execute",
        address="0x0",
        size_bytes=None,
        culprit="call_null",
    ),
    _handled(
        "handler_raises_stack_overflow",
        kind="stack-overflow",
        codes=("SEGV_MAPERR", "SI_TKILL"),
        access="write",
        address=Printed.RANGE,
        size_bytes=None,
        culprit="recurse_again",
    ),
    _handled(
        "handler_raises_assertion",
        kind="assertion-failure",
        signals=("SIGABRT",),
        codes=("SI_TKILL",),
        access=None,
        address=None,
        size_bytes=None,
        message=("free_blocks >= 0",),
        culprit="handler_raises_assertion",
    ),
    _handled("handler_raises_in_thread", codes=("SEGV_MAPERR", "SI_TKILL")),
    # Where a fault can hide.
    _segv("crash_in_second_thread", _NULL, "write", "0x28", 8, culprit=_blame("write_in_thread")),
    _segv(
        "crash_among_many_threads",
        _WILD,
        "write",
        "0x123456789a00",
        8,
        culprit=_blame("write_in_thread"),
    ),
    _segv("crash_in_sort", _NULL, "read", "0x8", 8, culprit=_blame("compare_items")),
    _segv(
        "crash_in_std_function",
        _WILD,
        "read",
        "0x123456789b00",
        8,
        culprit=_blame("Reader::operator()", "crash_in_std_function"),
    ),
    _segv(
        "crash_in_inlined_function",
        _NULL,
        "read",
        "0x30",
        8,
        culprit=_blame("add_payloads"),
        overrides=_without_lines(_blame("crash_in_inlined_function")),
    ),
    _segv("crash_in_inlined_member", _NULL, "read", "0x30", 8),
    _segv(
        "plugin_exported",
        _NULL,
        "read",
        "0x100",
        8,
        culprit=_blame("read_entry", "plugin_exported", module=PLUGIN),
    ),
    _segv(
        "plugin_hidden",
        _WILD,
        "write",
        "0x123456780100",
        8,
        culprit=_blame("write_entry", "plugin_hidden", module=PLUGIN),
    ),
    _abort(
        "plugin_double_free",
        "double-free",
        "free(): double free detected in tcache 2",
        culprit=_blame("release", "plugin_double_free", module=PLUGIN),
    ),
    _abort(
        "plugin_exception",
        "uncaught-exception",
        "std::out_of_range",
        "entry 9 of 4",
        culprit=_blame("reject", "plugin_exception", module=PLUGIN),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """One build. `twins` holds the same modules before `strip`, with their symbols."""

    flavour: Flavour
    folder: Path
    twins: Path

    @property
    def executable(self) -> Path:
        """The program; argv[1] names the victim."""
        return self.folder / EXECUTABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCore:
    """A core file and what its process said before it died. Addresses are inclusive bounds."""

    core: Path
    pid: int
    sender_pid: int | None
    stdout: str
    address_low: int | None
    address_high: int | None
    crashed_tid: int | None


def build_victims(target_folder: Path, flavour: Flavour, *, compiler: str = "g++") -> Binaries:
    """Compile the victims, or return the build of the same sources, flags and compiler.

    Raises subprocess.CalledProcessError with the compiler's words in `stderr`.
    """
    flags = (*COMMON_FLAGS, *COMPILE_FLAGS[flavour])
    digest = hashlib.sha256(repr((flags, flavour, run_tool((compiler, "--version")))).encode())
    sources = sorted(SOURCES.glob("*.cpp"))
    for source in (*sources, *sorted(SOURCES.glob("*.h"))):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = target_folder.resolve() / f"victims-{flavour}-{digest.hexdigest()[:16]}"
    binaries = Binaries(flavour=flavour, folder=folder, twins=folder / "twins")
    if folder.is_dir():
        return binaries
    target_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target_folder, prefix="building-") as name:
        fresh = Path(name) / "victims"
        (fresh / "twins").mkdir(parents=True)
        _compile(sources, fresh, compiler, flags)
        for module in (EXECUTABLE, PLUGIN):
            shutil.copy2(fresh / module, fresh / "twins" / module)
            if flavour is Flavour.STRIPPED:
                run_tool(("strip", "--strip-all", str(fresh / module)))
        with suppress(OSError):  # another process was faster with the same build
            fresh.rename(folder)
    return binaries


def _compile(sources: Sequence[Path], folder: Path, compiler: str, flags: Sequence[str]) -> None:
    """Make the executable and the plugin, two compilers at a time."""
    with tempfile.TemporaryDirectory(prefix="victim-objects-") as name:
        objects = {source: Path(name) / f"{source.stem}.o" for source in sources}

        def compile_one(source: Path) -> None:
            run_tool((compiler, *flags, "-c", str(source), "-o", str(objects[source])))

        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(compile_one, sources))
        plugin = objects.pop(SOURCES / "plugin.cpp")
        linked = [str(path) for path in objects.values()]
        options = ("-pthread", "-Wl,--build-id", "-Wl,-rpath,$ORIGIN")
        run_tool((compiler, "-shared", *options, str(plugin), "-o", str(folder / PLUGIN)))
        executable = str(folder / EXECUTABLE)
        run_tool((compiler, "-pie", *options, *linked, "-o", executable, "-ldl", "-lrt"))


def run_tool(command: Sequence[str], *, timeout_s: float = 180) -> str:
    """Run a build tool and return its output; its process group does not outlive the call."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        finally:
            _end_group(process)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return output


def _end_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def core_pattern_locked(operation: int) -> Iterator[None]:
    """Hold the lock of those who need the machine's core pattern (LOCK_SH) or change it (LOCK_EX).

    There is one pattern a kernel: a test that changes it would take the cores of all others.
    """
    with (Path(tempfile.gettempdir()) / "victims-core-pattern.lock").open("a") as lock:
        fcntl.flock(lock, operation)
        yield


@contextmanager
def core_pattern_for_cwd() -> Iterator[None]:
    """See to it that cores land in the crashing process's folder; restore the machine's pattern.

    A pattern that does so already is left alone. Raises PermissionError where it cannot be changed.
    """
    with core_pattern_locked(fcntl.LOCK_SH):
        before = CORE_PATTERN.read_text(encoding="utf-8")
        if not before.startswith("|") and "/" not in before:
            yield
            return
    with core_pattern_locked(fcntl.LOCK_EX):
        before = CORE_PATTERN.read_text(encoding="utf-8")
        CORE_PATTERN.write_text("core.%p", encoding="utf-8")
        try:
            yield
        finally:
            CORE_PATTERN.write_text(before, encoding="utf-8")


def make_core(
    case: VictimCase, binaries: Binaries, folder: Path, *, timeout_s: float = 60
) -> MadeCore:
    """Run the victim in the new folder until it dies of its signal, and return its core.

    Raises RuntimeError if it ended in another way or left no core, TimeoutError if it did not end.
    """
    folder.mkdir(parents=True)
    output = folder / "stdout.txt"
    limits = ("prlimit", "--core=unlimited:", f"--stack={STACK_BYTES}:")
    with (
        core_pattern_for_cwd(),
        output.open("w") as stdout,
        (folder / "stderr.txt").open("w") as stderr,
        subprocess.Popen(
            (*limits, str(binaries.executable), *case.argv),
            cwd=folder,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        deadline = time.monotonic() + timeout_s
        try:
            if case.send is not None:
                _wait_for(output, "ready=", deadline)
                os.kill(process.pid, case.send)
            status = process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{case.name} did not end within {timeout_s} s") from error
        finally:
            _end_group(process)
    cores = [path for path in folder.glob("core*") if path.is_file() and path.stat().st_size > 0]
    if status != -signal.Signals[case.final_signal] or len(cores) != 1:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        raise RuntimeError(
            f"{case.name}: status {status}, cores {cores}, hard core limit {hard}: "
            f"{(folder / 'stderr.txt').read_text(errors='replace')}"
        )
    said = output.read_text(encoding="utf-8")
    return _made_core(case, cores[0], process.pid, said)


def _wait_for(output: Path, text: str, deadline: float) -> None:
    while text not in output.read_text(encoding="utf-8"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the victim never said {text}")
        time.sleep(0.01)


def _made_core(case: VictimCase, core: Path, pid: int, said: str) -> MadeCore:
    facts = {
        key: int(value, 16) for key, _, value in (line.partition("=") for line in said.splitlines())
    }
    low: int | None
    high: int | None
    match case.address:
        case None:
            low = high = None
        case Printed.EXACT:
            low = high = facts["address"]
        case Printed.RANGE:
            low, high = facts["address_low"], facts["address_high"]
        case str() as fixed:
            low = high = int(fixed, 16)
        case (first, last):
            low, high = int(first, 16), int(last, 16)
    return MadeCore(
        core=core,
        pid=pid,
        sender_pid=None if case.send is None else os.getpid(),
        stdout=said,
        address_low=low,
        address_high=high,
        crashed_tid=facts.get("tid"),
    )
