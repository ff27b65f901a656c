"""Which frames are not the user's own code, or tell no bugs apart. Each entry says why.

A runtime's frame is never blamed. For signatures, frames that only raise are passed over at the
beginning of a stack, and from an ending frame on its tail is left out.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.stack import Frame, FrameKind

RUNTIME_MODULES: Final = (
    (r"libc[.-].*so.*|libc\.so.*", "the C library"),
    (
        r"libpthread[.-].*|libm[.-].*|libdl[.-].*|librt[.-].*|libresolv[.-].*",
        "parts of the C library",
    ),
    (r"ld-linux.*|ld-musl.*|ld-2\..*", "the dynamic linker"),
    (r"libstdc\+\+\.so.*|libc\+\+(abi)?\.so.*|libsupc\+\+.*", "the C++ library"),
    (r"libgcc_s.*|libunwind\.so.*", "the unwinder"),
    (r"lib(asan|ubsan|tsan|lsan|hwasan|msan)\.so.*|libclang_rt\..*", "sanitizer runtimes"),
    (r"(lib)?python\d(\.\d+)?[a-z]*(\.so.*)?|python(-(asan|ubsan|tsan))+", "the interpreter"),
    (r"libffi\.so.*", "ctypes' and cffi's way into C"),
    (r"lib(gomp|omp|iomp5)[.-].*", "the OpenMP runtime: it calls the loop bodies"),
    (r"lib(jemalloc|tcmalloc|mimalloc).*", "allocators that stand in for malloc"),
    (r"linux-vdso\.so.*|\[vdso\]", "the kernel's own code page"),
)
RUNTIME_FUNCTIONS: Final = (
    (
        r"(non-virtual thunk to )?std::.*",
        "the standard library's templates, compiled into the user's module",
    ),
    (r"__gnu_cxx::.*|__cxxabiv1::.*|__cxa_.*|_Unwind_.*|__gxx_personality.*", "the C++ runtime"),
    (r"operator (new|delete)(\[\])?", "allocation"),
    (
        r"__(asan|ubsan|tsan|lsan|msan|hwasan|sanitizer|interception|interceptor)(::|_).*",
        "sanitizer runtimes",
    ),
    (r"___?interceptor_.*", "sanitizer interceptors"),
    (r".*@plt", "PLT stubs"),
    (r"_start|__libc_start_.*|_dl_.*|__restore_rt|_init|_fini", "start-up code"),
    (r"Py_FatalError|_?Py[A-Z_].*", "the interpreter, where it is linked into the program"),
)
RAISING_FUNCTIONS: Final = (
    (r"(__)?(assert_fail|assert_rtn|assert|assert_func)", "assert, linked into the program"),
    (
        r"(__GI_)?(abort|raise|pthread_kill|__pthread_kill_implementation)",
        "libc, linked statically",
    ),
    (r"google::LogMessage(Fatal)?::.*|google::.*Fatal.*", "glog: LOG(FATAL) and CHECK"),
    (r"absl::.*(LogMessage|log_internal|RawLog|base_internal).*", "Abseil: CHECK and LOG(FATAL)"),
    (r"c10::(detail::torch(Internal)?(Assert|Check)Fail|Error::Error|ThrowEnforceNotMet)", "torch"),
    (
        r"c10::(cuda::)?(detail::)?c10_(cuda|hip)_check_implementation.*",
        "torch: a failed CUDA call",
    ),
    (r"at::cuda::.*[Aa]ssert.*", "torch: a failed CUDA call"),
    (r"folly::detail::(assume|assert)_.*|folly::.*SafeAssert.*", "folly: FOLLY_SAFE_CHECK"),
    (r"ray::RayLog::.*|ray::SpdLogMessage::.*", "Ray: RAY_CHECK"),
    (r"dmlc::LogMessageFatal.*|tvm::runtime::detail::LogFatal.*", "dmlc and TVM: CHECK"),
    (r"(core|alloc)::(panicking|result|option|slice|str)::.*(panic|fail|unwrap).*", "Rust: panic!"),
    (r"rust_(panic|begin_unwind)|__rust_start_panic|_?panic_abort::.*", "Rust: panic!"),
    (r"runtime\.(throw|fatalthrow|fatalpanic|gopanic|dieFromSignal|raise)(\..*)?", "Go: panic"),
    (r"fmt::.*(assert_fail|throw_format_error|report_error)", "fmt: a wrong format"),
    (r"boost::(throw_exception|assertion_failed(_msg)?|wrapexcept::.*)", "Boost: BOOST_ASSERT"),
    (r"testing::internal::(AssertHelper|GTestLog|DeathTestAbort).*", "GoogleTest: a check"),
    (
        r"(.*::)?(terminate_handler|[Cc]heck_?[Ff]ailed?|[Aa]ssert(ion)?_?[Ff]ail(ed|ure)?)",
        "functions that exist to fail a check, by their usual names",
    ),
)
"""What stands between a bug and the signal: it is the same for every bug that it reports."""
ENDING_FUNCTIONS: Final = (
    (r"main|_start|__libc_start_.*|WinMain", "every call of the program is below it"),
    (r"start_thread|__clone3?|thread_start", "a thread's beginning in the C library"),
    (
        r"execute_native_thread_routine|std::thread::_State_impl.*|std::__thread_proxy.*",
        "std::thread",
    ),
    (r"boost::.*thread_proxy", "Boost's threads"),
    (r"uv__thread_start|uv__worker", "libuv's threads"),
    (r"c10::ThreadPool::main_loop", "torch's threads: any task is below it"),
    (r"(gomp|GOMP)_thread_start|__kmp_(launch_thread|invoke_microtask|launch_worker)", "OpenMP"),
    (r"Py_(BytesMain|RunMain|Main)|pymain_.*|Py_FinalizeEx", "the interpreter's entry"),
    (r"thread_run|t_bootstrap|pythread_wrapper", "a Python thread's beginning"),
    (r"pybind11::cpp_function::dispatcher", "the interpreter's calls into pybind11"),
    (r"nanobind::detail::nb_func_vectorcall_.*", "the interpreter's calls into nanobind"),
    (r"ffi_call(_int|_unix64|_SYSV)?|_call_function_pointer", "the interpreter's calls by ctypes"),
    (r"testing::(Test|TestInfo|TestSuite|UnitTest)::Run|RUN_ALL_TESTS", "GoogleTest's driver"),
    (r"LLVMFuzzer(TestOneInput|RunDriver)|fuzzer::.*", "libFuzzer's driver"),
    (r"std::rt::lang_start.*|std::sys::.*thread.*::start.*", "Rust's beginnings"),
)
"""Where a stack's tail begins, which no longer tells bugs apart."""
PYTHON_WRAPPERS: Final = (
    (r"/torch/_ops\.py", "torch's way from Python into its operators"),
    (r"/torch/nn/modules/module\.py", "the call of a torch module's forward"),
    (r"/torch/utils/_contextlib\.py", "torch's decorators, such as inference_mode"),
)
"""Of a Python frame's file: it only hands a call on to the user's or to C++."""
INTERPRETER: Final = re.compile(r"(lib)?python\d(\.\d+)?[a-z]*(\.so.*)?")
"""Of a module's file name: it holds Python."""
_OWN_EXTENSIONS: Final = "/lib-dynload/"
_PYTHON_LIBRARY: Final = re.compile(r"/python3(\.\d+)?/(?!(site|dist)-packages/)|^<frozen ")
"""Python's own library, frozen modules too; `<string>` is what a user typed."""
_WRAPPERS: Final = re.compile("|".join(f"(?:{pattern})$" for pattern, _ in PYTHON_WRAPPERS))
_MODULES: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in RUNTIME_MODULES))
_FUNCTIONS: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in RUNTIME_FUNCTIONS))
_RAISING: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in RAISING_FUNCTIONS))
_ENDING: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in ENDING_FUNCTIONS))


def is_runtime_module(path: str) -> bool:
    """Is the file a runtime's, by its name, or one of Python's own extension modules?"""
    if _OWN_EXTENSIONS in path:
        return True
    return _MODULES.fullmatch(path.rsplit("/", 1)[-1]) is not None


def is_own(frame: Frame) -> bool:
    """Is this a call of the user's own code? A frame that nobody can place is not."""
    if frame.kind is FrameKind.PYTHON:
        return frame.file is not None and not _is_python_runtime(frame.file)
    if frame.kind is FrameKind.SIGNAL or (frame.module is None and frame.function is None):
        return False
    if frame.module is not None and is_runtime_module(frame.module):
        return False
    return frame.function is None or _FUNCTIONS.fullmatch(frame.function) is None


def _is_python_runtime(file: str) -> bool:
    return bool(_PYTHON_LIBRARY.search(file) or _WRAPPERS.search(file))


def is_raising(frame: Frame) -> bool:
    """Does the function do nothing but report what its caller found?"""
    return frame.function is not None and _RAISING.fullmatch(frame.function) is not None


def is_ending(frame: Frame) -> bool:
    """Does a stack's tail begin here, which all bugs below it share?"""
    return frame.function is not None and _ENDING.fullmatch(frame.function) is not None
