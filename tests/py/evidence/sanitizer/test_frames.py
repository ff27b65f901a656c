"""Every form of a frame, one example each."""

# ruff: noqa: E501, PLR0917 - a table with one form a line, and its columns

import pytest

from vllm_forensics.evidence.sanitizer.frames import parse_frame

# text, function, file, line, column, module, offset
FORMS = [
    ("#0 0x10 in f(int) src/a.cpp:25", "f(int)", "src/a.cpp", 25, None, None, None),
    ("#1 0x10 in f(int) /s/a.cpp:25:54", "f(int)", "/s/a.cpp", 25, 54, None, None),
    ("#2 0x10 in malloc (/b/x+0xa6) (BuildId: ab12)", "malloc", None, None, None, "/b/x", "0xa6"),
    ("#3 0x10  (/lib/libc.so.6+0x27) (BuildId: ab)", None, None, None, None, "/lib/libc.so.6", "0x27"),
    ("#4 0x10  (<unknown module>)", None, None, None, None, None, None),
    ("#5 0x10 (<unknown module>)", None, None, None, None, None, None),
    ("#6 0x10 in main+0x12 (a.out:x86_64+0x100)", "main", None, None, None, "a.out", "0x100"),
    ("#7 0x10 in start+0x1b4c (dyld:arm64e+0x204e0)", "start", None, None, None, "dyld", "0x204e0"),
    ("#0 heap_race() src/t.cpp:17 (t+0x29)", "heap_race()", "src/t.cpp", 17, None, "t", "0x29"),
    ("#1 f() /s/t.cpp:1:2 (t+0x2) (BuildId: a)", "f()", "/s/t.cpp", 1, 2, "t", "0x2"),
    ("#0 operator delete[](void*) <null> (t+0x3)", "operator delete[](void*)", None, None, None, "t", "0x3"),
    ("#0 <null> <null> (libx.so+0x12)", None, None, None, None, "libx.so", "0x12"),
    (
        "#0 0x10 in std::vector<int, std::allocator<int> >::at(unsigned long) const /u/v.h:9",
        "std::vector<int, std::allocator<int> >::at(unsigned long) const", "/u/v.h", 9, None, None, None,
    ),
    (
        "#0 0x10 in (anonymous namespace)::g(int, char const*) a b/c d.cc:7:1",
        "(anonymous namespace)::g(int, char const*)", "a b/c d.cc", 7, 1, None, None,
    ),
    (
        r"#0 0x10 in icu::`anonymous namespace'::insert<char> C:\a b\src\x.cpp:188",
        "icu::`anonymous namespace'::insert<char>", r"C:\a b\src\x.cpp", 188, None, None, None,
    ),
    (
        r"#1 0x10 in v8::Match(class v8::Isolate *, enum v8:: D:\s\x.cc:4:5",
        "v8::Match(class v8::Isolate *, enum v8::", r"D:\s\x.cc", 4, 5, None, None,
    ),
    (
        r"#9 0x10 in BaseThreadInitThunk+0x1c (C:\Windows\System32\KERNEL32.DLL+0x180017)",
        "BaseThreadInitThunk", None, None, None, r"C:\Windows\System32\KERNEL32.DLL", "0x180017",
    ),
    ("#0 0x10 in closure #1 in run() /a/m.swift:12", "closure #1 in run()", "/a/m.swift", 12, None, None, None),
    ("#0 0x10 in -[Foo bar:] /a/Foo.m:3", "-[Foo bar:]", "/a/Foo.m", 3, None, None, None),
    (
        "#1.2 0x0041fa in fxl::run(int) ../../src/x.cc:38 <libx.so>+0x4d8",
        "fxl::run(int)", "../../src/x.cc", 38, None, "libx.so", "0x4d8",
    ),
    ("#00 pc 000000000004f0a8  /system/lib64/libc.so (abort+176)", "abort", None, None, None, "/system/lib64/libc.so", "0x4f0a8"),
    ("#01 pc 00000000000d2b90  /data/libx.so (BuildId: 0011aabb)", None, None, None, None, "/data/libx.so", "0xd2b90"),
    ("#02 pc 0000000000001b90  /d/base.apk!libx.so (offset 0x5000) (f+12) (BuildId: 0a)", "f", None, None, None, "/d/base.apk!libx.so", "0x1b90"),
    ("#9 ./a.out(main+0x9f) [0x5558]", "main", None, None, None, "./a.out", None),
    ("#7 0x10 in _start_main crtbegin.c", "_start_main", "crtbegin.c", None, None, None, None),
    ("#3 0x10 in fuzzer::Run(char const*) fuzzer.o", "fuzzer::Run(char const*)", "fuzzer.o", None, None, None, None),
    ("#0 0x10 in _start ??:0", "_start", None, None, None, None, None),
    ("#0 0x10 in f<(anonymous namespace)::T>(int) a.cc:1", "f<(anonymous namespace)::T>(int)", "a.cc", 1, None, None, None),
    ("#0 0x10 in core::ops::call::h0a1b /rustc/ab/l.rs:250:5", "core::ops::call::h0a1b", "/rustc/ab/l.rs", 250, 5, None, None),
    ("#0 0x10 in q::operator<<(q::S&, int) a.cc:4", "q::operator<<(q::S&, int)", "a.cc", 4, None, None, None),
    ("#0 0x10 in f(int) [clone .isra.0] a.cc:4", "f(int) [clone .isra.0]", "a.cc", 4, None, None, None),
    ("#0 0x10 in f(int) (.part.0) /b/a.cc:4", "f(int) (.part.0)", "/b/a.cc", 4, None, None, None),
    ("#0 0x10 in f a.c:4:0", "f", "a.c", 4, None, None, None),
    ("#0 0x10 in f", "f", None, None, None, None, None),
    ("#0 0x10", None, None, None, None, None, None),
    # A place without a function
    ("#9 0x10  misc/../sysdeps/clone.S:79", None, "misc/../sysdeps/clone.S", 79, None, None, None),
    ("#9 0x10 /w/a b/clone.S:79:3", None, "/w/a b/clone.S", 79, 3, None, None),
    # ClusterFuzz names the module alone
    ("#1 0xf7e6f50c in libc.so.6", None, None, None, None, "libc.so.6", None),
    ("#2 0x10 in q::Start() const+0x4f", "q::Start() const", None, None, None, None, None),
    # Swift
    ("#0 q.Bar.items.getter <compiler-generated> (q:arm64+0x12)", "q.Bar.items.getter", None, None, None, "q", "0x12"),
    ("#1 q.Bar.has(for:) Bar.swift:57 (q:arm64+0x12)", "q.Bar.has(for:)", "Bar.swift", 57, None, "q", "0x12"),
    ("#2 once <null>:95860036 (libq.dylib:arm64e+0x7d)", "once", None, None, None, "libq.dylib", "0x7d"),
    ("#3 partial apply for closure #1 in q.run() <compiler-generated> (q+0x1)", "partial apply for closure #1 in q.run()", None, None, None, "q", "0x1"),
    # Symbolizers of a program's or a platform's own
    ("#0 q::Body() in ??:0:0", "q::Body()", None, None, None, None, None),
    ("#0 q::f(int) in /a/b.cpp:10:3", "q::f(int)", "/a/b.cpp", 10, 3, None, None),
    ("#0 0x10 in q::f(int) at /a/b.cpp:10", "q::f(int)", "/a/b.cpp", 10, None, None, None),
    ("#0 0x10 in f(int) /a/b.cc:1 (discriminator 3)", "f(int)", "/a/b.cc", 1, None, None, None),
    ("#0 0x10 in f b.cc:?", "f", "b.cc", None, None, None, None),
    ("#0 0x10 in f (/b/q+0x3d), r0=1094", "f", None, None, None, "/b/q", "0x3d"),
    ("#1 pc 00012345  /data/b.apk!libx.so (offset 0x1000) (f(int)+12)", "f(int)", None, None, None, "/data/b.apk!libx.so", "0x12345"),
    ("#1 pc 00012345  /data/b.apk (offset 0x1000)", None, None, None, None, "/data/b.apk", "0x12345"),
    # Brackets that are no template's
    ("#0 0x10 in void q::f<(q::E)3, (4 > 3)>() a.h:1", "void q::f<(q::E)3, (4 > 3)>()", "a.h", 1, None, None, None),
    ("#0 0x10 in q::Run<(lambda at /s/a.cpp:411:25)> /s/a.h:165:9", "q::Run<(lambda at /s/a.cpp:411:25)>", "/s/a.h", 165, 9, None, None),
]  # fmt: skip
NOT_FRAMES = [
    "#3 0.2 Step 1/4 : FROM debian",
    "# heartbeat 12",
    "#12 DONE 0.3s",
    "#1 [internal] load build definition",
    "#27700  REDUCE cov: 445 ft: 640",
    "#",
    "#1",
    "#include <stdio.h>",
    # A debugger's
    "#0  raise (sig=6) at ../sysdeps/raise.c:50",
    "#1  0x00007f3ff7af9535 in abort () at abort.c:79",
    "#2  0x00007f3ff7af9535 in q::f (this=0x10, n=3) at /s/q.cc:8",
    "#3  0x00007f3ff7af9535 in ?? () from /lib/libq.so.1",
    "#4  0x00007f3ff7af9535 in ?? ()",
]


@pytest.mark.parametrize(("text", "function", "file", "line", "column", "module", "offset"), FORMS)
def test_a_form_of_frame(
    text: str,
    function: str | None,
    file: str | None,
    line: int | None,
    column: int | None,
    module: str | None,
    offset: str | None,
) -> None:
    frame = parse_frame(text)

    assert frame is not None
    assert (frame.function, frame.file, frame.line, frame.column) == (function, file, line, column)
    assert (frame.module, frame.offset) == (module, offset)


@pytest.mark.parametrize("text", NOT_FRAMES)
def test_no_frame(text: str) -> None:
    assert parse_frame(text) is None
