"""Who died and where, in the reports of games, Go, Ruby, Rust, Fortran and of C++ programs."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import CauseClass, Death


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


def has_death(log: str) -> bool:
    return explain_incident(parse_incident_log([log.encode()]), "log") is not None


def test_gos_words_behind_a_progress_bar_tell_a_death() -> None:
    first = death(
        "Taking blocks [0/4] ___ 0% | 0sfatal error: concurrent map writes\n\n"
        "goroutine 82 [running]:\ninternal/runtime/maps.fatal({0xf419f4?, 0xdf7800?})\n"
        "\t/opt/go/src/runtime/panic.go:1058 +0x18\n"
        "example.org/pool/blocks.take({0x118c7a8, 0xc0005e8a50}, ...)\n"
        "\t/src/blocks/take.go:296 +0x1e5\n"
    )

    assert (first.cause.kind, first.function) == (
        CauseClass.ABORT_EXCEPTION,
        "example.org/pool/blocks.take",
    )


def test_a_title_and_a_log_that_speak_of_signals_are_no_table() -> None:
    first = death(
        "# signal arrived during cgo execution\n\nSIGSEGV: segmentation violation\n"
        "PC=0x7660475c m=7 sigcode=1 addr=0x48\nsignal arrived during cgo execution\n\n"
        "goroutine 116 [syscall]:\nruntime.cgocall(0xd0b580, 0x252c728)\n"
        "example.org/pool._Cfunc_take(0x75924580)\n"
    )

    assert (first.signal, first.function) == ("SIGSEGV", "example.org/pool._Cfunc_take")


def test_ruby_names_itself_and_its_innermost_method() -> None:
    first = death(
        "[BUG] Segmentation fault at 0x0000000000000048\nruby 3.3.0 (2023-12-25) [x86_64-linux]\n\n"
        "-- Control frame information -----------------------------------------------\n"
        "c:0020 p:---- s:0088 e:000087 l:y b:---- CFUNC  :take\n"
        "c:0019 p:0003 s:0072 e:000071 l:y b:0001 METHOD /opt/app/pool.rb:91\n"
    )

    assert (first.name, first.signal, first.function) == ("ruby", "SIGSEGV", "take")


def test_a_tag_that_only_looks_like_rubys_mark_is_a_prefix() -> None:
    assert not has_death("[BUG] Something is odd\n[BUG] and still is\n")


def test_godots_report_from_windows_has_sources_and_no_arguments() -> None:
    first = death(
        "CrashHandlerException: Program crashed\nEngine version: Godot Engine v4.3.stable\n"
        "[0] Pool::take (Z:\\src\\core\\pool.cpp:1090)\n[1] main (Z:\\src\\main.cpp:12)\n"
    )

    assert (first.cause.kind, first.function) == (CauseClass.NATIVE_FAULT, "Pool::take")


def test_the_program_in_a_stack_may_have_dots_in_its_name() -> None:
    first = death(
        "handle_crash: Program crashed with signal 11\n"
        "[1] /lib/x86_64-linux-gnu/libc.so.6(+0x46210) [0x7f020be03210] (??:0)\n"
        "[2] /opt/serve.x11.opt.64() [0xbcc6f6] (/src/pool.cpp:88)\n"
    )

    assert (first.name, first.module) == ("serve.x11.opt.64", "serve.x11.opt.64")


def test_the_standard_librarys_headers_are_no_place() -> None:
    first = death(
        "Program terminated with signal SIGSEGV, Segmentation fault.\n"
        "#0  0x00000000004e4103 in _M_erase (this=0x48) at "
        "/usr/local/include/c++/12/bits/stl_list.h:1697\n"
        "#1  take (v=..., this=0x7f67d9aed800) at src/pool.cc:88\n"
    )

    assert first.function == "take"


@pytest.mark.parametrize(
    ("heading", "pid"),
    [
        ("[Switching to Thread 0x1713 of process 4242]", 4242),
        ("[New Thread 0x1713 of process 4242]", 4242),
        ("[Switching to Thread 0x7ffff7fc1740 (LWP 4243)]", None),
    ],
)
def test_gdb_on_macos_tells_the_process_with_each_thread(heading: str, pid: int | None) -> None:
    first = death(
        f"{heading}\nProgram received signal SIGABRT, Aborted.\n#0  take (a=1) at a.c:1\n"
    )

    assert first.pid == pid


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("ns::(anonymous namespace)::Crash()", CauseClass.ABORT_EXCEPTION),
        ("ns::ImmediateAbort()", CauseClass.ABORT_EXCEPTION),
        ("ns::take(int)", CauseClass.ENVIRONMENT),
    ],
)
def test_an_illegal_instruction_in_who_is_called_to_crash_is_meant(
    function: str, kind: CauseClass
) -> None:
    first = death(
        "Crash reason:  EXC_BAD_INSTRUCTION / EXC_I386_INVOP\nCrash address: 0x100f544f4\n\n"
        f"Thread 0 (crashed)\n 0  Serve Framework!{function} [pool.cc : 28 + 0x0]\n"
        "    rip = 0x0000000100f544f4\n 1  Serve Framework!ns::run() [main.cc : 8 + 0x0]\n"
    )

    assert (first.cause.kind, first.name) == (kind, "Serve")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("I get this when exiting poold. Then nothing.", "poold"),
        ("While running `poold`, I get this:", "poold"),
        ("I get this when running tests.", None),
        ("I get this when exiting quickly.", None),
    ],
)
def test_what_somebody_ran_is_told_above_what_it_printed(words: str, name: str | None) -> None:
    first = death(
        f"# Panic on exit\n\n{words}\n\n```\nthread 'main' panicked at 'closed', src/event.rs:133\n"
        "stack backtrace:\n   1:  0x563b804b1cda - std::panicking::begin_panic\n"
        "   2:  0x563b800b8e8b - poold::event::take\n```\n"
    )

    assert first.name == name


def test_a_stack_of_gdbs_may_begin_below_its_top_and_behind_a_prefix() -> None:
    first = death(
        "# serve hit by SIGSEGV\n\n14:16:13  * (FAILED)#5  0x00007f4c0fce9c9c in strlen () "
        "from /usr/lib64/libc.so.6\n"
        "14:16:13  * (FAILED)#6  0x00000000006b2343 in take (s=0x0) at src/pool.cc:88\n"
        "14:16:13  * (FAILED)88\t\treturn strlen(s);\n"
        "14:16:13  * (FAILED)#7  0x00000000006b2353 in serve (s=0x0) at src/main.cc:8\n"
    )

    assert (first.name, first.function, first.signal) == ("serve", "take", "SIGSEGV")


def test_a_handlers_own_line_may_hold_the_word_signal_before_brackets() -> None:
    first = death("handle_fatal_signal(): Caught coredump signal 11\n")

    assert first.signal == "SIGSEGV"


_UNREAL = "Unhandled Exception: EXCEPTION_ACCESS_VIOLATION reading address 0x0000000000000048\n\n"


@pytest.mark.parametrize(
    ("frames", "name", "module", "function"),
    [
        (
            "0x00007ff7c83bb99b Serve-Win64.exe!FPool::Take() [d:\\src\\pool.h:88]\n"
            "0x00007ff7c83bb99c ntdll.dll!UnknownFunction []\n",
            "Serve-Win64.exe",
            "Serve-Win64.exe",
            "FPool::Take",
        ),
        (
            "UE4Editor_Pool!UPool::Take() [G:\\Pool.cpp:595]\nUE4Editor_Core!F() [C:\\F.cpp:8]\n",
            "UE4Editor",
            "UE4Editor_Pool",
            "UPool::Take",
        ),
        ("user32\nUnrealEditor_Pool\nkernel32\nntdll\n", "UnrealEditor", "UnrealEditor_Pool", None),
        ("Server\nServer\nkernel32\nntdll\n", "Server", "Server", None),
    ],
)
def test_unreals_frames_name_module_and_program(
    frames: str, name: str, module: str, function: str | None
) -> None:
    first = death(f"{_UNREAL}{frames}")

    assert (first.name, first.module, first.function) == (name, module, function)


def test_unreals_frames_may_stand_behind_its_loggers_mark() -> None:
    first = death(
        "2026-01-15 08:12:45 Error    LogWindows    Unhandled Exception: "
        "EXCEPTION_ACCESS_VIOLATION reading address 0x48\n"
        "2026-01-15 08:12:45 Error    LogWindows    [Callstack] 0x00007ffb3cb6dc27 "
        "Serve-Core.dll!ns::take() [d:\\src\\pool.cpp:2518]\n"
    )

    assert (first.module, first.function) == ("Serve-Core.dll", "ns::take")


def test_unity_names_its_program_on_windows_with_its_path() -> None:
    first = death(
        "pool.dll caused an Access Violation (0xc0000005)\n  in module pool.dll at 0033:3f446835.\n"
        "\nError occurred at 2026-01-15_152122.\nC:\\Games\\Pool Day\\Party.exe, run by Someone.\n"
    )

    assert (first.name, first.module) == ("Party.exe", "pool.dll")


def test_monos_frames_begin_with_an_address_and_its_handler_is_no_place() -> None:
    first = death(
        "\tNative Crash Reporting\n\tNative stacktrace:\n"
        "\t0x7f44765151f2 - /opt/game/libmonobdwgc-2.0.so : \n"
        "\t0x7f447db7c050 - /lib/x86_64-linux-gnu/libc.so.6 : \n"
        "\t0x7f441296e71e - ./linux64/libpool.so : take\n"
    )

    assert (first.module, first.function) == ("libpool.so", "take")


_MATLAB = "".join(
    f"[  {number}] 0x00007f1276d4592e   /opt/matlab/libmwmcr.so+00370990\n" for number in range(9)
)


@pytest.mark.parametrize(
    ("below", "module"), [("/opt/pool.so+10384982 take+000012", "pool.so"), ("", "libmwmcr.so")]
)
def test_a_deep_handler_is_known_by_libraries_that_appear_nowhere_below(
    below: str, module: str
) -> None:
    frame = "0x00007f12637f9656        "
    below = f"[ 10] {frame}{below}\n" if below else f"[ 10] {frame}/opt/matlab/libmwmcr.so+01\n"
    first = death(
        f"Stack Trace (from fault):\n{_MATLAB}"
        f"[  9] 0x00007f12742f3340   /lib/x86_64-linux-gnu/libpthread.so.0+00066368\n{below}"
    )

    assert (first.name, first.module) == ("MATLAB", module)


def test_fortrans_runtime_is_no_place() -> None:
    first = death(
        "Program received signal 11 (SIGSEGV): Segmentation fault.\n\nBacktrace for this error:\n"
        "  + /opt/serve/libgfortran-ed201abd.so.3.0.0(+0x13f59) [0x7f0125efef59]\n"
        "  + /opt/serve/pool.exe() [0x22613f7]\n"
    )

    assert (first.name, first.module) == ("pool.exe", "pool.exe")


def test_a_command_that_somebody_ran_names_what_printed_its_end() -> None:
    first = death(
        "# It ends\n\nTo see it, run `./bin/serve --pool 3` once.\n\n```\n"
        "thread 'main' panicked at 'closed', src/event.rs:133\n```\n"
    )

    assert first.name == "serve"


def test_a_word_alone_is_no_module_elsewhere() -> None:
    first = death("*** Received signal 11 ***\nServer\nntdll\n")

    assert first.module is None


def test_drmingw_tells_program_and_frames() -> None:
    first = death(
        "serve.exe caused an Access Violation at location 0000417300000001 DEP violation.\n\n"
        "AddrPC           Params\n"
        "0000417300000001 00000001000FAF40 0000000000000000 00000001000FAEF0\n"
        "00007FFA7F9E1BF6 00000001000FAF98 00000185C45E1E00  libpool.dll!Pool::take+0x56\n"
    )

    assert (first.name, first.module, first.function) == ("serve.exe", "libpool.dll", "Pool::take")


_TOMBSTONE = (
    "01-15 08:12:45.794 31109-31109/? {tag}:     #24 pc 000000000010616c  "
    "/data/app/com.example.serve-FP9dEob7==/lib/arm64/libpool.so\n"
)


def test_a_tombstones_frames_tell_a_death_and_whose_it_was() -> None:
    first = death(_TOMBSTONE.format(tag="A/DEBUG") * 2)

    assert (first.name, first.module) == ("com.example.serve", "libpool.so")


def test_such_frames_of_a_living_app_tell_none() -> None:
    assert not has_death(_TOMBSTONE.format(tag="I/pool") * 2)


def test_macos_allocator_says_that_a_freed_block_was_written_to() -> None:
    first = death(
        "serve(4242,0x105cd6dc0) malloc: Incorrect checksum for freed object 0x102b153d8: "
        "probably modified after being freed.\n"
    )

    assert (first.name, first.pid, first.cause.kind) == ("serve", 4242, CauseClass.HEAP_CORRUPTION)


def test_a_roots_prompt_may_have_no_blank() -> None:
    assert death("#serve -v\nv1.8.0\nAborted (core dumped)\n").name == "serve"


def test_solaris_shell_says_abort() -> None:
    assert death("$ serve --now\nAbort (core dumped)\n").signal == "SIGABRT"


@pytest.mark.parametrize(
    "wish",
    [
        "Should we support an option to generate a core dump in these situations?",
        "Would it be possible to get a core dump there?",
    ],
)
def test_who_asks_for_more_tells_of_no_death(wish: str) -> None:
    assert not has_death(f"# abort and core dumps\n\n{wish}\n")


def test_windows_dialog_may_stand_in_one_line() -> None:
    first = death(
        "Problem signature: Problem Event Name: APPCRASH Application Name: serve.exe Application "
        "Version: 0.0.0.0 Application Timestamp: 55f43364 Fault Module Name: pool.dll Fault Module "
        "Version: 5.5.0.0 Exception Code: c0000005 Exception Offset: 000768f0\n"
    )

    assert (first.name, first.module, first.signal) == ("serve.exe", "pool.dll", "SIGSEGV")


def test_a_title_names_whose_failed_assertion_people_call_a_segfault() -> None:
    first = death(
        "# Poold crashes with segmentation fault\n\nIt prints:\n```\n"
        "beam/pool.c:88:take_block() Assertion failed: block != ((void *)0)\n```\n"
    )

    assert (first.name, first.cause.kind) == ("Poold", CauseClass.ABORT_EXCEPTION)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Tools - Search - Sometimes crash Krita violently", "Krita"),
        ("Plugin crashes Blender when loading", "Blender"),
        ("Plugin crashes When loading", "Plugin"),
    ],
)
def test_a_proper_name_behind_to_crash_is_who_died(title: str, name: str | None) -> None:
    assert death(f"# {title}\n\n```\npure virtual method called\nAborted\n```\n").name == name
