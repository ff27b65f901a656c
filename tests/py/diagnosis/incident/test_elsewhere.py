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


_NIL = "panic: runtime error: invalid memory address or nil pointer dereference"
_GOES = "[signal SIGSEGV: segmentation violation code=0x1 addr=0x30 pc=0x16910da]\n\n"


def test_gos_nil_dereference_is_a_fault_below_what_handled_the_panic() -> None:
    first = death(
        f"{_NIL} [recovered]\n    {_NIL}\n{_GOES}goroutine 79 [running]:\n"
        "example.org/serve/vendor/k8s.io/apimachinery/pkg/util/runtime.HandleCrash(0x0, 0x0)\n"
        "    /go/src/vendor/k8s.io/apimachinery/pkg/util/runtime/runtime.go:58 +0x126\n"
        "panic(0x18890c0, 0x26b2a60)\n    /usr/local/go/src/runtime/panic.go:489 +0x2cf\n"
        "example.org/serve/pkg/pool.(*Pool).take.func3(0x1a8ad00, 0xc"
    )

    assert (first.cause.kind, first.signal) == (CauseClass.NATIVE_FAULT, "SIGSEGV")
    assert (first.name, first.function) == (
        "serve",
        "example.org/serve/pkg/pool.(*Pool).take.func3",
    )


def test_what_handles_gos_panic_is_no_place_where_all_else_was_cut_off() -> None:
    first = death(
        f"{_NIL}\n{_GOES}goroutine 9 [running]:\n"
        "k8s.io/apimachinery/pkg/util/runtime.HandleCrash({0x0, 0x0, 0x0?})\n"
    )

    assert first.function is None


def test_another_panic_of_gos_is_an_end_by_itself() -> None:
    first = death("panic: runtime error: index out of range [3] with length 3\n")

    assert first.cause.kind is CauseClass.ABORT_EXCEPTION


def test_a_logged_panic_may_tell_sources_alone() -> None:
    first = death(
        'E0115 08:12:45.123456       1 runtime.go:69] Observed a panic: "index out of range"\n'
        "/go/pkg/mod/k8s.io/apimachinery@v0.0.0-2019/pkg/util/runtime/runtime.go:76\n"
        "/usr/local/go/src/runtime/panic.go:679\n/workspace/pkg/pool/take.go:72\n"
    )

    assert (first.file, first.line) == ("/workspace/pkg/pool/take.go", 72)


def test_a_name_left_out_of_a_command_does_not_make_a_log_a_lesson() -> None:
    assert has_death(
        "# Observed a panic\n\n```\nkubectl logs <pod_name> -n <namespace>\n"
        'E0115 08:12:45.123456       1 runtime.go:69] Observed a panic: "index out of range"\n'
        "goroutine 219 [running]:\npanic(0x1672800, 0x23e20c0)\n"
        "\t/usr/local/go/src/runtime/panic.go:969 +0x1b9\n"
        "pool-operator/pool.take(0xc0002621f0, 0xe)\n\t/workspace/pool/take.go:173 +0x39d\n```\n"
    )


def test_matlab_tells_of_an_abort_and_who_it_is_itself() -> None:
    first = death("# Matpool crashes\n\n>          abort() detected at Tue Jan 13 18:27:58 2026\n")

    assert (first.name, first.cause.kind) == ("MATLAB", CauseClass.ABORT_EXCEPTION)


def test_glogs_line_names_the_source_where_no_frame_follows() -> None:
    first = death("F0115 08:12:45.673615  4242 pool.cpp:250] Check failed: a <= b (0 vs. -1)\n")

    assert (first.file, first.line) == ("pool.cpp", 250)


def test_macos_way_back_from_a_handler_opens_a_stack() -> None:
    first = death(
        "0  serve             0x000000010170195f main + 24114399\n"
        "2  libsystem_c.dylib 0x00007fff857f194a _sigtramp + 26\n"
        "3  serve             0x000000010009b477 take + 626679\n"
        "4  serve             0x00000001000d30d7 main + 855127\n"
    )

    assert (first.module, first.function) == ("serve", "take")


def test_rs_cause_is_heard_without_its_heading_and_names_a_call() -> None:
    first = death(
        "address (nil), cause 'memory not mapped'\n\nTraceback:\n"
        ' 1: structure(.Call(C_take, x), class = "pool")\n 2: take(pool)\n'
    )

    assert (first.name, first.signal, first.function) == ("R", "SIGSEGV", "C_take")


def test_a_program_with_one_letter_is_no_raw_literal() -> None:
    first = death(
        "*** Error in `/opt/R/bin/exec/R': double free or corruption (!prev): 0x06e1 ***\n"
    )

    assert (first.name, first.cause.kind) == ("R", CauseClass.HEAP_CORRUPTION)


def test_a_debuggers_frames_of_perl_name_it() -> None:
    first = death(
        "Program terminated with signal 11, Segmentation fault.\n"
        "#0  Perl_newBINOP (my_perl=0x139c010, type=136) at op.c:3074\n"
    )

    assert first.name == "perl"


def test_a_script_at_a_titles_beginning_is_who_ended() -> None:
    first = death(
        "# ./train.sh results got aborted (core dumped)\n\n"
        "F0115 08:12:45.673615  4242 pool.cpp:250] Check failed: a <= b (0 vs. -1)\n"
    )

    assert first.name == "train.sh"


def test_openfoam_quotes_its_modules() -> None:
    first = death(
        "#0  Foam::error::printStack(Foam::Ostream&) at ??:?\n"
        "#1  Foam::sigFpe::sigHandler(int) at ??:?\n"
        '#2  ? in "/usr/lib/libc.so.6"\n'
        "#3  ns::take(ns::Pool&, double) at ??:?\n"
        '#4  ? in "/opt/bin/poolFoam"\n'
        "Floating point exception (core dumped)\n"
    )

    assert (first.name, first.function, first.signal) == ("poolFoam", "ns::take", "SIGFPE")


def test_a_minidumps_crashed_thread_tells_a_death_without_its_reason() -> None:
    first = death(
        "Thread 0 (crashed)\n 0  pool.dll!ns::take() [pool.cpp : 406 + 0x0]\n"
        "    eip = 0x6cadbd30\n    Found by: given as instruction pointer in context\n"
    )

    assert (first.module, first.function) == ("pool.dll", "ns::take")


def test_a_stack_may_end_with_the_function_that_gave_up() -> None:
    first = death(
        "Program received signal SIGABRT, Aborted.\n"
        "#0  0x00007ffff548a5af in raise () from /lib64/libc.so.6\n"
        "#1  0x00007ffff548b9aa in abort () from /lib64/libc.so.6\n"
        "#2  0x00000000004642f5 in log_message (type=3) at logger.cpp:261\n"
        "#3  0x00007ffff65e0c19 in QMessageLogger::fatal(char const*, ...) const ()\n"
    )

    assert first.function == "log_message"


def test_the_jvms_handler_was_given_signal_and_place() -> None:
    first = death(
        "#0  0x00007f25dfd8800b in raise () from /lib/x86_64-linux-gnu/libc.so.6\n"
        "#1  0x00007f25dfd67859 in abort () from /lib/x86_64-linux-gnu/libc.so.6\n"
        "#2  0x00007f25decfe435 in os::abort (dump_core=true) at os_linux.cpp:1667\n"
        "#3  0x00007f25df917ecf in VMError::report_and_die (thread=thread@entry=0x556ea2ab1800, "
        "sig=sig@entry=11, pc=pc@entry=0x7f259315cd9e <take_block+1006>) at vmError.cpp:1277\n"
    )

    assert (first.signal, first.function) == ("SIGSEGV", "take_block")


def test_postgres_writes_a_colon_behind_its_name() -> None:
    first = death(
        "The server is terminated with signal SIGABRT\n\n"
        "Core was generated by `postgres: 18/main: postgres [local] SELECT'.\n"
        "Program terminated with signal SIGABRT, Aborted.\n"
    )

    assert first.name == "postgres"


def test_v8s_way_from_javascript_to_c_is_no_place() -> None:
    first = death(
        "#0  0x00007ffff7a42428 in raise () from /lib/libc.so.6\n"
        "#1  0x00007ffff7a4402a in abort () from /lib/libc.so.6\n"
        "#2  0x00000000008cf8a1 in node::Abort() ()\n"
        "#3  0x00000000008cf8f1 in node::Abort(v8::FunctionCallbackInfo<v8::Value> const&) ()\n"
        "#4  0x0000000000a5ab6a in v8::internal::FunctionCallbackArguments::Call(int) ()\n"
        "#5  0x0000000000a5b123 in v8::internal::Builtin_HandleApiCall(int) ()\n"
    )

    assert (first.signal, first.function) == ("SIGABRT", None)


_ONE = "(gdb) bt\n#0  0x00000000008cf8a1 in take (pool=0x0) at src/pool.c:88\n"


def test_a_debuggers_only_frame_tells_where_if_somebody_says_that_it_crashed() -> None:
    first = death(f"I get a segfault with the new version.\n\n{_ONE}")

    assert (first.signal, first.function, first.line) == ("SIGSEGV", "take", 88)


def test_a_debuggers_only_frame_alone_tells_nothing() -> None:
    assert not has_death(f"Here it stands:\n\n{_ONE}")


def test_rusts_compiler_names_itself_and_its_newer_symbols_are_read() -> None:
    first = death(
        "error: rustc interrupted by SIGSEGV, printing backtrace\n\n"
        "/opt/lib/librustc_driver-2d2db9d3929202cf.so(+0x33b6d83) [0x7a483d9b6d83]\n"
        "/usr/lib/libc.so.6(+0x3d1d0) [0x7a483a4171d0]\n"
        "/opt/lib/librustc_driver-2d2db9d3929202cf.so(_RNvMs_NtCs9f8yW_10rustc_lint7contextNtB4_"
        "4Pool4take+0x69b) [0x7a483f5cf0db]\n"
    )

    assert (first.name, first.signal) == ("rustc", "SIGSEGV")
    assert first.function == "rustc_lint::context::Pool::take"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [('"serve" "--resume"', "serve"), ('"/opt/bin/bun" "worker.ts"', "bun"), ('"--resume"', None)],
)
def test_buns_arguments_name_the_program(arguments: str, name: str | None) -> None:
    first = death(
        f"Bun v1.3.2 (b131639c) Linux x64\nArgs: {arguments}\nElapsed: 200ms | User: 282ms\n\n"
        "panic(main thread): Segmentation fault at address 0x8\noh no: Bun has crashed.\n"
    )

    assert first.name == name


def test_cephs_own_abort_is_no_place_and_its_message_is_read() -> None:
    first = death(
        '/src/kv/Pool.cc: 1152: ceph_abort_msg("block checksum mismatch")\n\n'
        " 1: (ceph::__ceph_abort(char const*, int)+0xe5) [0x560a5d235ab2]\n"
        " 2: (Pool::take(int)+0x3ce) [0x560a5dd0dc0e]\n"
    )

    assert (first.cause.kind, first.function) == (CauseClass.ABORT_EXCEPTION, "Pool::take")


def test_a_programs_own_assertion_below_libcs_is_no_place() -> None:
    first = death(
        "#0  0x00007fa366a19337 in raise () from /lib64/libc.so.6\n"
        "#1  0x00007fa366a1ab68 in abort () from /lib64/libc.so.6\n"
        "#2  0x00007fa366a12202 in __assert_fail () from /lib64/libc.so.6\n"
        '#3  0x00000000008d7c0e in poolAssertDebug (ok=false, file=0x9b2490 "/src/pool.c")\n'
        "    at /src/log.c:777\n"
        "#4  0x000000000083b517 in take (block=0x7fa33439cef0) at /src/pool.c:2354\n"
    )

    assert (first.cause.kind, first.function) == (CauseClass.ABORT_EXCEPTION, "take")


def test_dotnets_types_of_a_generic_one_are_no_part_of_its_name() -> None:
    assembly = "System.Private.CoreLib, Version=10.0.0.0, Culture=neutral, PublicKeyToken=7cec85d7"
    first = death(
        "Fatal error.\nSystem.AccessViolationException: Attempted to read or write protected "
        "memory. This is often an indication that other memory is corrupt.\n"
        f"   at Pool.Blocks`1[[System.ValueTuple`1[[System.__Canon, {assembly}]], {assembly}]]"
        ".Take()\n"
        "   at Pool.Serve.Main()\n"
    )

    assert first.function == "Pool.Blocks`1.Take"


def test_googles_console_names_the_app_and_no_process() -> None:
    first = death(
        "*** *** *** *** *** *** *** ***\npid: 0, tid: 0 >>> org.example.serve <<<\n\nbacktrace:\n"
        "  #00  pc 00000000000aa250  /data/app/org.example.serve-QDzegF==/lib/arm64/libpool.so\n"
    )

    assert (first.cause.kind, first.name, first.pid) == (
        CauseClass.NATIVE_FAULT,
        "org.example.serve",
        None,
    )
    assert first.module == "libpool.so"


def test_a_header_of_libcxx_has_no_extension() -> None:
    first = death(
        "2026.01.15 11:59:33.939867 [ 66337 ] {} <Fatal> BaseDaemon: (version 21.1.2.15) (from "
        "thread 55832) (query_id: 168A45) Received signal Segmentation fault (11)\n"
        "2026.01.15 11:59:33.946014 [ 66337 ] {} <Fatal> BaseDaemon: 3. ./obj/../contrib/libcxx/"
        "include/functional:1853: ns::Pool::take(std::__1::function<void (ns::Block&)>) @ 0>\n"
    )

    assert first.function == "ns::Pool::take"


def test_a_library_with_an_offset_behind_it_is_named_without() -> None:
    first = death(
        "Program received signal SIGSEGV, Segmentation fault.\n"
        "#0  /lib/x86_64-linux-gnu/libc.so.6(+0x43090) [0x7f5572168090]\n"
        "#1  0x7f54c452c7e1 in ns::Pool::take(double) from /tmp/usr/lib/./libpool.so.7+0x131\n"
    )

    assert (first.function, first.module) == ("ns::Pool::take", "libpool.so.7")
