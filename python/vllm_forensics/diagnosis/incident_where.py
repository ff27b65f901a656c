"""Where a process died: the first frame that is not a runtime's or a signal handler's."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.diagnosis.runtime_frames import RUNTIME_FUNCTIONS, is_runtime_module
from vllm_forensics.model.incident import NativeCall

_HANDLERS: Final = re.compile(
    r"(?:absl::|ray::(?:TerminateHandler|operator<<|RayLog|SpdLog)|google::|folly::|c10::(?:Error|detail|cuda::"
    r"c10_cuda|FatalSignalHandler|SignalHandler)|ucs_|std::|rust_|_{0,2}rustc::|core::|tvm::ffi::.*[Bb]acktrace|"
    r"runtime\.|panic$|_?raise|_?_?abort|gsignal|kill|__?GI_|__pthread_kill|pthread_kill|"
    r"__assert|__libc_|__fortify|__stack_chk|__chk_fail|_?_?free|_?int_free|malloc|realloc|"
    r"calloc|_?int_malloc|_?int_realloc|cfree|__restore_rt|_?sigaction|killpg|clone|start_thread|"
    r"execute_native_thread|faulthandler_|_Py_DumpStack|TVMFFI|_sigtramp|\(anonymous namespace\)::"
    r"(?:.*[Ss]ignal.*Handler|.*[Bb]acktrace.*))"
)
_FUNCTIONS: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in RUNTIME_FUNCTIONS))
_LIBC: Final = re.compile(r"lib(?:c|pthread)[.-]")
_MAX_HANDLER: Final = 8
_SIGNAL_LIBRARIES: Final = re.compile(r"libucs\.so.*|libglog\.so.*|libtvm_ffi\.so.*")


def place_of(calls: tuple[NativeCall, ...]) -> NativeCall | None:
    """The frame to blame; None where every frame is a runtime's."""
    for call in calls[_above_the_signal(calls) :]:
        if call.module is not None and _is_runtime(call.module):
            continue
        if call.function is None:
            if call.module is not None:
                return call
            continue
        if _HANDLERS.match(call.function) or _FUNCTIONS.fullmatch(call.function):
            continue
        return call
    # The standard library's templates are compiled into the library that uses them.
    for call in calls[_above_the_signal(calls) :]:
        if call.module is not None and not _is_runtime(call.module):
            return NativeCall(function=None, module=call.module, offset=call.offset)
    return None


def _is_runtime(module: str) -> bool:
    return is_runtime_module(module) or _SIGNAL_LIBRARIES.fullmatch(module) is not None


def _above_the_signal(calls: tuple[NativeCall, ...]) -> int:
    """Where the stack goes on below a handler's frames.

    backtrace() begins in the handler, and the kernel's way back into libc has no name there:
    `libc.so.6(+0x3c050)`.
    """
    for at, call in enumerate(calls[:_MAX_HANDLER]):
        if call.module is not None and call.function is None and _LIBC.match(call.module):
            return at + 1
    return 0


def plain_name(function: str) -> str:
    """A function without its arguments."""
    # Not at main.(*Pool).Take and (anonymous namespace)::f.
    return re.sub(r"\((?!\*|anonymous).*", "", function)
