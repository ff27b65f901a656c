"""Which printed frames are the user's own code, and how a name looks without its noise."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from vllm_forensics.diagnosis.runtime_frames import SYSTEM_FILES
from vllm_forensics.diagnosis.runtime_frames import is_own as is_own_frame
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.sanitizer import PrintedFrame, StackEvent
from vllm_forensics.model.stack import Frame

IsOwn = Callable[[PrintedFrame], bool]

_RUNTIME_NAMES: Final = re.compile(
    # Interceptors under their plain names, as clang links them into the program
    r"(?:malloc|free|calloc|realloc|reallocarray|posix_memalign|aligned_alloc|memalign|valloc"
    r"|pvalloc|cfree|mem(?:cpy|move|set|cmp|chr|mem|rchr)|w?str[a-z]{2,8}|[fs]?n?v?s?n?printf"
    r"|f?read|f?write|recv(?:from|m?msg)?|send(?:to|m?msg|file)?|bcmp|puts|raise|abort|exit|_exit|usleep|sleep|nanosleep"
    r"|malloc_usable_size|pthread_\w+|sem_\w+|kill|tgkill|getenv|atoi|atol|qsort|bsearch"
    # the C library and the loader
    r"|start_thread|clone3?|__clone3?|__GI_\w+|__pthread_\w+|__assert\w*|call_init|_dl_\w+"
    r"|dl_open_worker\w*|__run_exit_handlers|__libc_\w+|_nl_\w+|_IO_\w+|asan_thread_start|__gthread_\w+"
    # libFuzzer and other drivers, libffi, pybind11, gtest
    r"|fuzzer::.*|LLVMFuzzerRunDriver|ffi_call\w*|pybind11::.*|testing::.*|__afl_\w+"
    r"|RUN_ALL_TESTS|ExecuteFilesOnyByOne|Catch::(?:RunContext|Session|Test[A-Z]\w*)(?:::|<).*"
    # CPython, V8, Swift and GLib, whose files a symbolizer often names without their folders
    r"|object_vacall|cfunction_\w+|wrapperdescr_\w+|slot_tp_\w+|method_vectorcall\w*|pymain_\w+"
    r"|function_code_fastcall|run_eval_code_obj|Builtins_\w+|swift_[a-z]+[A-Z]?\w*"
    r"|g_main_\w+|g_(?:malloc|free|realloc|slice)\w*|g_closure_invoke|g_signal_emit\w*"
    # Windows, macOS
    r"|BaseThreadInitThunk|RtlUserThreadStart|invoke_main|__scrt_\w+|mainCRTStartup|thread_start"
    r"|_pthread_start|_sigtramp|__CF[A-Z_]+__|__CFRunLoop\w*|CFRunLoop\w*"
    # Valgrind, Go, Android's allocator
    r"|\(below main\)|runtime\.\w.*|testing\.tRunner|scudo\w*|scudo::.*"
    # the kernel's own reporting and allocators
    r"|_{0,2}dump_stack\w*|print_(?:address_description|report|memory_metadata)\S*|show_stack"
    r"|_{0,2}k[acm]san_\w+|_{0,2}ubsan_\w+|end_report|check_(?:memory_region|region_inline)\S*"
    r"|_{0,2}do_kmalloc\w*|k[mzc]alloc\w*|__kmalloc\w*|kfree\w*|kmem_cache_\w+|slab_\w+"
    r"|___slab_\w+|__slab_\w+|stack_trace_save"
    # Rust
    r"|std::.*|core::(?:alloc|any|array|cell|cmp|convert|fmt|hash|intrinsics|iter|mem|num|ops|option"
    r"|panicking|ptr|result|slice|str|sync)::.*|alloc::(?:alloc|boxed|collections|fmt|raw_vec|rc|slice"
    r"|str|string|sync|vec)::.*|rust_begin_unwind|__rust_\w+|rust_(?:panic|eh|fuzzer|oom)\w*"
    r"|_GLOBAL__sub_I_.*|__static_initialization_and_destruction_0|__cxx_global_var_init.*"
    r"|_sub_I_\w+|asan\.module_ctor|tsan\.module_ctor|decltype ?\(.*)"
)
_BARE_NAMES: Final = re.compile(r"start|wrap_\w+")
"""A runtime's where no file says otherwise."""
_RUNTIME_FILES: Final = re.compile(
    rf"{SYSTEM_FILES.pattern}"
    r"|.*/include/c\+\+/.*|.*/(?:bits|ext)/[\w.]+\.(?:h|tcc)|/rustc/.*|.*/rustlib/.*"
    r"|.*/(?:aflpp_driver|libfuzzer-sys[^/]*)/.*|(?:.*/)?g(?:test|mock)[\w.-]*\.(?:h|cc)"
    # CPython's own sources
    r"|(?:.*/)?(?:Modules|Include)/(?:[\w/]+/)?\w+\.[ch]"
    r"|(?:.*/)?(?:Objects|Python|Parser)/(?:(?:clinic|stringlib|mimalloc|tokenizer)/)?\w+\.[ch]"
    r"|(?:.*/)?Programs/(?:python|_\w+)\.c"
    r"|.*/vctools/crt/.*|.*\\vctools\\crt\\.*|minkernel.*"
)
_NO_MODULE: Final = re.compile(r"\[(?:stack|heap|vdso|vsyscall|anon.*)\]|<unknown.*>")
_RUNTIME_MODULES: Final = re.compile(
    r"(?:.*/)?vgpreload_[\w-]+\.so|(?:.*/)?(?:libffi|libc\+\+|libdispatch|libsystem_\w+|dyld|libobjc"
    r"|libswift[A-Z]\w*|libg(?:lib|object|io)-2|CoreFoundation|AppKit|UIKit(?:Core)?)[.\w+-]*"
    r"|/apex/com\.android\.(?:art|runtime)/.*|/System/Library/.*|(?i:[a-z]:[\\/]windows[\\/].*)"
    r"|(?:.*[\\/])?(?:KERNEL32|KERNELBASE|ntdll|ucrtbase\w*|VCRUNTIME\w*|MSVCP\w*"
    r"|clang_rt\.\w+-\w+)\.(?i:dll)"
)
_INTERPRETER_NAMES: Final = re.compile(r"_?Py[A-Z_]\w*")
_INTERPRETER_FILES: Final = re.compile(
    r"(?:.*/)?(?:Objects|Python|Modules|Include|Parser|Programs)/(?:[\w/]+/)?\w+\.[ch]"
)
_INTERPRETER_MODULES: Final = re.compile(
    r"(?:.*/)?(?:(?:lib)?python\d(?:\.\d+)?[a-z]*(?:\.so.*)?|python(?:-(?:asan|ubsan|tsan))+)"
)
_LIBRARY_CODE: Final = re.compile(
    r"(?:std|__gnu_cxx|pybind11|nanobind|boost|testing|fuzzer|core|alloc)::.*"
)
"""Templates of libraries: no own frame, and yet compiled into somebody's module."""


def own_by_default(frame: PrintedFrame) -> bool:
    """Not a runtime's, by name, file or module. A frame that nobody can place is not own."""
    return _is_own(frame.function, frame.file, frame.module)


@lru_cache(maxsize=8192)
def _is_own(function: str | None, file: str | None, module: str | None) -> bool:
    if _is_of_a_runtime(file, module):
        return False
    name = plain_name(function) if function is not None else None
    if name is not None and (
        _RUNTIME_NAMES.fullmatch(name) or (file is None and _BARE_NAMES.fullmatch(name))
    ):
        return False
    if module is None and function is None and file is None:
        return False
    stand_in = Frame(
        index=0,
        pc=0,
        function=name,
        tier=Tier.NOTES,
        module=(module or file or "?").replace("\\", "/"),
    )
    return is_own_frame(stand_in)


@lru_cache(maxsize=8192)
def _is_of_a_runtime(file: str | None, module: str | None) -> bool:
    if module is not None and (_NO_MODULE.fullmatch(module) or _RUNTIME_MODULES.fullmatch(module)):
        return True
    return file is not None and _RUNTIME_FILES.fullmatch(file) is not None


def name_of(frame: PrintedFrame) -> str:
    """A frame's name without noise; where it has none, module and offset."""
    if frame.function is not None:
        return plain_name(frame.function)
    module = (frame.module or "?").replace("\\", "/").rsplit("/", 1)[-1]
    return f"{module}+{frame.offset}" if frame.offset else (frame.pc or module)


def place_of(frame: PrintedFrame) -> str | None:
    """FILE:LINE, or None."""
    if frame.file is None:
        return None
    return f"{frame.file}:{frame.line}" if frame.line is not None else frame.file


def where_of(event: StackEvent | None, is_own: IsOwn) -> str | None:
    """FUNCTION (FILE:LINE) of a stack's first own frame, else of its first; None: no frame."""
    if event is None or not event.frames:
        return None
    frame = first_own(event, is_own) or event.frames[0]
    place = place_of(frame)
    return f"{name_of(frame)} ({place})" if place else name_of(frame)


def first_own(event: StackEvent | None, is_own: IsOwn) -> PrintedFrame | None:
    """The innermost frame of a stack that is the user's own."""
    if event is None:
        return None
    return next((frame for frame in event.frames if is_own(frame)), None)


def only_in_interpreter(event: StackEvent | None) -> bool:
    """Is the whole stack CPython's and its allocator's, without a frame of an extension?"""
    if event is None:
        return False
    if any(
        own_by_default(frame)
        or (frame.function is not None and _LIBRARY_CODE.fullmatch(plain_name(frame.function)))
        for frame in event.frames
    ):
        return False
    return any(_in_interpreter(frame) for frame in event.frames)


def _in_interpreter(frame: PrintedFrame) -> bool:
    return (
        (frame.function is not None and _INTERPRETER_NAMES.fullmatch(frame.function) is not None)
        or (frame.file is not None and _INTERPRETER_FILES.fullmatch(frame.file) is not None)
        or (frame.module is not None and _INTERPRETER_MODULES.fullmatch(frame.module) is not None)
    )
