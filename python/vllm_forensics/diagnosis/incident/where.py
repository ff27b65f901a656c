"""Where a process died: the first frame that is not a runtime's or a signal handler's."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.machinery import (
    ends_a_program,
    handles_a_signal,
    is_called_to_fail,
)
from vllm_forensics.diagnosis.incident.runtimes_own import (
    HANDLING,
    LAST_FUNCTIONS,
    PRINTERS,
    RUNTIMES_OWN,
    SYSTEMS_MODULES,
)
from vllm_forensics.diagnosis.runtime_frames import (
    RUNTIME_FUNCTIONS,
    SYSTEM_FILES,
    is_runtime_module,
)
from vllm_forensics.model.function_name import called_within, plain_name
from vllm_forensics.model.incident import NativeCall

_ASSERTION: Final = re.compile(r"(?i)(?:assert|check|verif|ensur|invariant)\w{0,12}fail")
_ASSERTS: Final = re.compile(r"(?:\w+::)*_*[a-z]{1,12}_?[Aa]ssert(?:_?[A-Z]?[a-z]{1,12})?")
"""A program's own function for it, `nsAssertDebug`: below what ended the program it is no place."""
_ENDED: Final = re.compile(r"__assert_\w{1,20}$|_{0,2}(?:GI_)?abort$")
_GIVES_UP: Final = re.compile(
    r"_{0,2}(?:GI_)?(?:raise|gsignal|abort)\b(?!::)|_{0,3}pthread_kill|__assert|__libc_message|"
    r"__cxa_(?:re)?throw|std::(?:terminate|__terminate|rethrow_exception|__throw)|_CxxThrow|"
    r"qAbort"
)
"""By these a program ends itself, and no fault does."""
_TRAMPOLINES: Final = re.compile(
    r"__restore_rt|_sigtramp|__kernel_rt_sigreturn|KiUserExceptionDispatch(?:er)?"
)
"""What the system put between a handler and what the signal hit."""
_HANDLERS_ARGUMENTS: Final = re.compile(
    r"\(.{0,80}\b(?:_{0,2}siginfo(?:_t)?|ucontext(?:_t)?|sigaction)\b"
)
_OF_EXTENSIONS: Final = re.compile(r"PyInit_\w")
"""An extension's own beginning, in the interpreter's style."""
_OUTERMOST: Final = re.compile(
    r"_?Py(?:Run_|_(?:Main|RunMain|BytesMain|UnixMain)|Eval_EvalCode|Import_|(?:Object|Function|CFunction|"
    r"Method)_?(?:Fast|Vector|Generic)?[Cc]all)"
)
"""Of the interpreter's functions those that only call: above them a stack was cut off."""
_FUNCTIONS: Final = re.compile("|".join(f"(?:{rule.pattern})" for rule in RUNTIME_FUNCTIONS))
_LIBC: Final = re.compile(r"lib(?:c|pthread)[.-]")
_START: Final = re.compile(r"_start|_?_dl_\w+|main|_{0,2}waitpid|_{0,2}wait4")
"""Where a debugger stops before anything has happened, or while it reads the process itself."""
_OFFSET: Final = re.compile(r"0x[0-9a-f]{1,16}")
_START_ENDS: Final = 0x2C000
"""Below it lies what calls main in the builds of glibc that were seen (2.17 to 2.39, x86-64); the
way back from a handler lies above 0x33000."""
_MAX_HANDLER: Final = 8
_DEEP_HANDLER: Final = 16
"""A handler of so many functions is known by its libraries, which have no part in what died."""
_MAX_NAME: Final = 120
_SIGNAL_LIBRARIES: Final = re.compile(r"libglog\.so.*|libtvm_ffi\.so.*|segfault-handler\.node")
_SANITIZERS: Final = re.compile(r"lib(?:clang_rt\.)?[a-z]{1,3}san\b")
_UCX: Final = re.compile(r"libucs\.so.*")
"""Handles signals and does work: its nameless frames are the handler's."""
TITLE: Final = re.compile(r"\w{1,20}::[\w.-]{1,60}")
"""`sglang::scheduler_TP0`, `ray::IDLE`: the name that an interpreter gave itself."""
_INTERPRETERS: Final = re.compile(r"_?Py[A-Z_]")
"""How its functions begin, wherever they lie."""
_INTERPRETER: Final = re.compile(
    r"libpython[\d.]{1,6}\w{0,3}\.(?:so|dylib)[\d.]*|python\d{0,2}(?:\.\d{1,2})?|python\d{2,3}\.dll|"
    r"Python|org\.python\.python"
)
_VALGRINDS: Final = ("vg_replace_", "mc_replace_")
"""The sources of its own functions for libc's."""
_CXX_HEADER: Final = re.compile(r"/c\+\+/")
_OWN_MEMBER: Final = re.compile(r"(?!std::|__gnu|__cxx|void |operator)[A-Za-z_]\w*::")
"""Such a function holds the header's line, which the compiler put into it."""
_MATHS: Final = re.compile(r"libm[.-]")
"""Its functions only compute: none ends a process, or handles a signal."""
_OPENMP: Final = re.compile(r"lib(?:gomp|omp|iomp5)\b.*")


def place_of(calls: tuple[NativeCall, ...]) -> NativeCall | None:
    """The frame to blame; None where every frame is a runtime's."""
    end, start = _below_the_end(calls), fault_index(calls)
    # A nameless libc at the end of a debugger's stack began the thread, and handled no signal.
    above = tuple(call for call in calls[end : max(end, start - 1)] if not _handles(call))
    cut = calls[_first_end(calls) :] if start == len(calls) else ()
    return _blamed(calls[start:]) or _blamed(above) or _blamed(cut)


def fault_index(calls: tuple[NativeCall, ...]) -> int:
    """Where the stack begins below what handled the signal, or ended the process."""
    start = max(_above_the_signal(calls), _below_the_end(calls))
    start = _below_a_check(calls, start) if start else start
    return start + _is_of_assertion(calls, start)


def _below_a_check(calls: tuple[NativeCall, ...], start: int) -> int:
    """Where the caller of a failed check stands that aborted, or threw what nobody caught."""
    # what ended it stands below a handler, else the handler gave up
    below = calls[_above_the_signal(calls) : _DEEP_HANDLER]
    gave_up = any(_GIVES_UP.match(call.function or "") for call in below)
    for at in range(start, len(calls) - 1):
        name = calls[at].function or ""
        if (
            _ASSERTION.search(name) is not None
            or _ends_by_assertion(calls, at)
            or (gave_up and is_called_to_fail(name))
        ):
            start = at + 1
        elif not (RUNTIMES_OWN.match(name) or _FUNCTIONS.fullmatch(name)):
            break
    return start


def _ends_by_assertion(calls: tuple[NativeCall, ...], at: int) -> bool:
    """Is it a program's own function for assertions, which ended it?"""
    above = calls[at - 1].function if at else None
    is_end = _ENDED.match(above or "") is not None
    return is_end and _ASSERTS.fullmatch(calls[at].function or "") is not None


def gives_up(call: NativeCall) -> bool:
    """Is it a runtime's own frame on its way to the end: a panic's, a signal handler's?"""
    return call.function is not None and RUNTIMES_OWN.match(call.function) is not None


def _handles(call: NativeCall) -> bool:
    """Does a frame only handle the signal, or print the stack?"""
    if call.function is None:
        return False
    if _HANDLERS_ARGUMENTS.search(call.function) is not None:
        return True
    name = plain_name(call.function)[-_MAX_NAME:]
    name = name.rsplit(".", 1)[-1] if "/" in name else name  # Go's, behind its package
    if handles_a_signal(call.function):
        return True
    # Crystal tells a type behind one colon.
    return HANDLING.fullmatch(name.rsplit("::", 1)[-1].partition(":")[0]) is not None


def with_its_lambda(call: NativeCall) -> NativeCall:
    """The frame; of the standard library's templates the lambda that it calls, if that is one.

    Its body is compiled into the template's instance, whose source is a header.
    """
    name = called_within(call.function) if call.function is not None else None
    return call if name is None else replace(call, function=name, file=None, line=None)


def _blamed(calls: tuple[NativeCall, ...]) -> NativeCall | None:
    for call in map(with_its_lambda, calls):
        if _is_of_a_runtime(call) or _is_of_a_system(call):
            continue
        if call.function is None:
            if call.module is not None or (call.file or "").endswith(".go"):
                return call
            continue
        names = {call.function, plain_name(call.function)}  # a template's has its type before it
        if any(map(RUNTIMES_OWN.match, names)):
            continue
        if any(map(_FUNCTIONS.fullmatch, names)) and not _OF_EXTENSIONS.match(call.function):
            continue
        return call
    # The standard library's templates are compiled into the library that uses them.
    for call in calls:
        is_printer = PRINTERS.match(call.function or "") is not None
        is_printer = is_printer or (call.function is None and _is_ucx(call.module))
        if call.module is not None and not is_printer and not _is_runtime(call.module):
            return NativeCall(function=None, module=call.module, offset=call.offset)
    return None


def _is_of_a_runtime(call: NativeCall) -> bool:
    """Is its module a runtime's? The functions of the C library's mathematics may be the place."""
    if call.function is None and _is_ucx(call.module):
        return True
    is_of_maths = call.function is not None and _MATHS.match(call.module or "") is not None
    return call.module is not None and _is_runtime(call.module) and not is_of_maths


def _is_of_a_system(call: NativeCall) -> bool:
    """Is its source the C library's, the C++ runtime's, a sanitizer's or valgrind's?"""
    file = call.file or ""
    if file.startswith(_VALGRINDS) or SYSTEM_FILES.fullmatch(file) is None:
        return file.startswith(_VALGRINDS)
    return _CXX_HEADER.search(file) is None or _OWN_MEMBER.match(call.function or "") is None


def last_resort(calls: tuple[NativeCall, ...]) -> NativeCall | None:
    """Where every frame is a runtime's: OpenMP's, or the only library that there is."""
    name = calls[0].function or "" if calls else ""
    is_handler = bool(calls) and (RUNTIMES_OWN.match(name) is not None or _handles(calls[0]))
    if len(calls) == 1 and not _START.fullmatch(name) and not is_handler:
        is_place = _SANITIZERS.match(calls[0].module or "") is None
        is_place = is_place and bool(calls[0].module or calls[0].function)
        if not is_place or PRINTERS.match(name) is not None:
            return None
        is_runtimes = calls[0].module is not None and _FUNCTIONS.fullmatch(name) is not None
        is_runtimes = is_runtimes and _INTERPRETERS.match(name) is None
        return replace(calls[0], function=None) if is_runtimes else calls[0]
    if calls and calls[0].module and all(call.function is None for call in calls):
        named = {call.module for call in calls if call.module is not None}
        return calls[0] if len(named) == 1 else None
    return next((call for call in calls if _OPENMP.fullmatch(call.module or "")), None)


def innermost(calls: tuple[NativeCall, ...]) -> NativeCall | None:
    """The interpreter's frame that was at fault, where no other is."""
    for call in calls[fault_index(calls) :]:
        name = call.function or ""
        if not name or _is_of_a_system(call) or RUNTIMES_OWN.match(name):
            continue
        if _INTERPRETERS.match(name) or _INTERPRETER.fullmatch(call.module or ""):
            return call if _OUTERMOST.match(name) is None else None
        if _FUNCTIONS.fullmatch(name) is None:
            break
    return None


def _below_the_end(calls: tuple[NativeCall, ...]) -> int:
    """Where the caller of what ends a process stands; frames between may lack their names."""
    found = (
        at + 1
        for at, call in enumerate(calls[:_MAX_HANDLER])
        if call.function is not None
        and (LAST_FUNCTIONS.match(call.function) or ends_a_program(call.function))
    )
    return max(found, default=0)


def _first_end(calls: tuple[NativeCall, ...]) -> int:
    """Below the innermost of several that ended a process, where the text ends with another."""
    ends = (at + 1 for at, call in enumerate(calls) if LAST_FUNCTIONS.match(call.function or ""))
    return next(ends, len(calls))


def _is_of_assertion(calls: tuple[NativeCall, ...], at: int) -> bool:
    """Is a nameless frame a failed assertion's own, between its function and the asserting one?"""
    if not 0 < at < len(calls) - 1 or calls[at].function is not None:
        return False
    below = calls[at + 1]
    is_failure = _ASSERTION.search(calls[at - 1].function or "") is not None
    return is_failure and below.function is not None and below.module in {None, calls[at].module}


def _is_ucx(module: str | None) -> bool:
    return _UCX.fullmatch(module or "") is not None


def _is_runtime(module: str) -> bool:
    own = (_SIGNAL_LIBRARIES, SYSTEMS_MODULES, TITLE)
    return is_runtime_module(module) or any(one.fullmatch(module) for one in own)


def _is_shown_above(calls: tuple[NativeCall, ...], at: int) -> bool:
    """Is it the frame that the signal hit, which Redis prints above its whole stack?"""
    below = calls[at + 1 : at + 3]
    return at == 0 and calls[0] in calls[1:] and any(_handles(call) for call in below)


def _are_only_above(calls: tuple[NativeCall, ...], at: int) -> bool:
    """Do the libraries of all frames above one appear nowhere below it, as a handler's?"""
    above = {call.module for call in calls[:at]}
    return None not in above and above.isdisjoint(call.module for call in calls[at + 1 :])


def _began(calls: tuple[NativeCall, ...], at: int) -> bool:
    """Did libc's frame, one of the two outermost, call main?

    `libc.so.6(+0x2083f)`: glibc's start stands in front of its way back from a handler.
    """
    offset = calls[at].offset or ""
    is_outer = at > 0 and len(calls) - 2 <= at
    return is_outer and _OFFSET.fullmatch(offset) is not None and int(offset, 16) < _START_ENDS


def _above_the_signal(calls: tuple[NativeCall, ...]) -> int:
    """Where the stack goes on below a handler's frames.

    backtrace() begins in the handler, and the kernel's way back into libc has no name there:
    `libc.so.6(+0x3c050)`.
    """
    start = 0
    for at, call in enumerate(calls[:_DEEP_HANDLER]):
        if at >= _MAX_HANDLER and not _are_only_above(calls, at):
            break
        is_libc = _LIBC.match(call.module) if call.module is not None else call.offset is not None
        is_way_back = call.function is None and is_libc and not _is_shown_above(calls, at)
        if is_way_back and not _began(calls, at):
            return at + 1
        if call.function is not None and _TRAMPOLINES.fullmatch(call.function) is not None:
            return at + 1
        if _handles(call) or (0 < start == at and "handler" in (call.function or "").lower()):
            start = at + 1
    return start
