"""Which frames are the user's own, on the platforms and under the drivers that strangers have."""

import pytest

from vllm_forensics.diagnosis.sanitizer.frames import own_by_default
from vllm_forensics.model.sanitizer import PrintedFrame


def frame(function: str | None, file: str | None = None, module: str | None = None) -> PrintedFrame:
    return PrintedFrame(index=0, pc="0x1", function=function, file=file, module=module)


OTHERS = [
    # macOS
    frame("wrap_memmove", None, "libclang_rt.asan_osx_dynamic.dylib"),
    frame("start", None, "dyld"),
    frame("__CFRUNLOOP_IS_CALLING_OUT_TO_A_SOURCE0_PERFORM_FUNCTION__", None, "CoreFoundation"),
    frame("-[NSApplication run]", None, "AppKit"),
    frame("$sSS6appendyySSF", None, "libswiftCore.dylib"),
    frame("swift_beginAccess", None, "q"),
    # Windows
    frame(
        "free",
        r"D:\agent\_work\4\s\src\vctools\crt\asan\llvm\compiler-rt\lib\asan\asan_malloc_win.cpp",
    ),
    frame("RtlUserThreadStart", None, r"C:\Windows\SYSTEM32\ntdll.dll"),
    frame(None, None, r"C:\Windows\System32\combase.dll"),
    # Android
    frame(None, None, "/apex/com.android.art/lib64/libart.so"),
    # Fuzzing drivers
    frame("LLVMFuzzerTestOneInput", "/rust/registry/src/index/libfuzzer-sys-0.4.7/src/lib.rs"),
    frame("ExecuteFilesOnyByOne", "/src/aflplusplus/utils/aflpp_driver/aflpp_driver.c"),
    frame("main", "/src/aflplusplus/utils/aflpp_driver/aflpp_driver.c"),
    frame("__rust_try", "libfuzzer_sys.edb837e9-cgu.0"),
    frame("core::panicking::panic_fmt::h45ce647c24a8fcf8"),
    # Test drivers
    frame("RUN_ALL_TESTS()", "gtest.h"),
    frame("Catch::RunContext::invokeActiveTestCase()", "/x/catch.hpp"),
    # Interpreters and loops
    frame("object_vacall", "call.c"),
    frame("_PyEval_EvalFrameDefault", "/build/work/Python/ceval.c"),
    frame("Builtins_InterpreterEntryTrampoline", "embedded.o"),
    frame("g_main_context_dispatch", None, "/lib/x86_64-linux-gnu/libglib-2.0.so.0"),
    frame("__gthread_mutex_lock", "/usr/include/x86_64-linux-gnu/c++/11/bits/gthr-default.h"),
]
OWN = [
    frame("main", "/src/fuzz/a.cc"),
    frame("LLVMFuzzerTestOneInput", "/src/fuzz/a.cc"),
    frame("start", "/home/a/engine.c"),
    frame("wrap_line", "src/text.c"),
    frame("send_msg", "remoted/sendmsg.c"),
    frame("receive_frame", "src/net.c"),
    frame("rust_snappy::decompress::run", "/src/rust-snappy/src/decompress.rs"),
    frame("core::Engine::step()", "src/engine.cpp"),
    frame("f", "/home/me/Python/ext/foo.c"),
    frame("q.Controller.has(for:)", "Controller.swift", "q"),
    frame(None, None, "/data/app/org.q-1/lib/arm64/libq.so"),
    frame("q::f(int)", r"C:\a b\src\x.cpp"),
]


@pytest.mark.parametrize("one", OTHERS, ids=repr)
def test_a_runtimes_frame_is_not_own(one: PrintedFrame) -> None:
    assert not own_by_default(one)


@pytest.mark.parametrize("one", OWN, ids=repr)
def test_a_name_that_only_looks_like_a_runtimes_is_own(one: PrintedFrame) -> None:
    assert own_by_default(one)
