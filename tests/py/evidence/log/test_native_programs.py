"""Who died and where, in the words of native programs: Ray's daemons, UCX, Go, LLDB, compilers."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death

GCS = "/opt/ray/core/src/ray/gcs/gcs_server"


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


def has_death(log: str) -> bool:
    return explain_incident(parse_incident_log([log.encode()]), "log") is not None


def test_rays_own_prefix_names_its_part_and_the_stack_below_has_none() -> None:
    first = death(
        "[2026-01-15 08:12:45,123 C 290 291] (gcs_server) pool.h:25:  Check failed: size > 0\n"
        "*** StackTrace Information ***\n"
        f"{GCS}(+0xab681a) [0x558e9366181a] ray::operator<<()\n"
        f"{GCS}(+0xab8607) [0x558e93663607] ray::RayLog::~RayLog()\n"
        f"{GCS}(+0x2e1252) [0x558e92e8c252] ray::Pool::Take()\n"
    )

    assert (first.name, first.pid) == ("gcs_server", 290)
    assert (first.module, first.function) == ("gcs_server", "ray::Pool::Take")


def test_older_versions_of_ray_sign_with_the_daemons_name() -> None:
    first = death(
        "(pid=raylet, ip=10.0.0.7) F0115 08:12:45.123456 4242 4242 pool.cc:8]  Check failed: ok\n"
        "(pid=raylet, ip=10.0.0.7) *** Check failure stack trace: ***\n"
        "(pid=raylet, ip=10.0.0.7)     @     0x56454fee9aed  google::LogMessage::Fail()\n"
        "(pid=raylet, ip=10.0.0.7)     @     0x56454fcce484  ray::raylet::Pool::Stop()\n"
    )

    assert (first.name, first.function) == ("raylet", "ray::raylet::Pool::Stop")


def test_a_stack_that_somebody_shortened_begins_at_its_counter() -> None:
    first = death(
        "*** SIGSEGV received ***\nPC: ns::Pool::Take()::{lambda()#10}::operator()()\n    ...\n"
        "    ns::Loop::Run()::{lambda()#1}::operator()()\n"
    )

    assert first.signal == "SIGSEGV"
    assert first.function == "ns::Pool::Take::{lambda()#10}::operator()"


BACKTRACE = "==== backtrace ====\n 0 0x0000000000012345 {}()  /src/{}.c:12\n"


def test_stacks_without_a_sign_are_given_out_in_the_order_of_the_deaths() -> None:
    heads = "".join(
        f"[node1:{pid}:0:{pid}] Caught signal 11 (Segmentation fault: address not mapped)\n"
        for pid in (4242, 4243)
    )
    first = death(heads + BACKTRACE.format("take", "take") + BACKTRACE.format("put", "put"))

    assert (first.pid, first.function) == (4242, "take")


def test_ucx_names_the_thread_whose_stack_it_prints() -> None:
    heads = "".join(
        f"[node1:{pid}:0:{pid}] Caught signal 11 (Segmentation fault: address not mapped)\n"
        for pid in (4242, 4243)
    )
    named = BACKTRACE.replace("backtrace", "backtrace (tid: {})")
    first = death(heads + named.format(4243, "put", "put") + named.format(4242, "take", "take"))

    assert (first.pid, first.function) == (4242, "take")


def test_ucx_itself_may_be_the_place() -> None:
    first = death(
        "[node1:4242:0:4242] Caught signal 11 (Segmentation fault: address not mapped)\n"
        + BACKTRACE.format("ucs_debug_cleanup", "debug")
    )

    assert first.function == "ucs_debug_cleanup"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/home/me/go/src/example.org/somebody/serve/pool.go", "serve"),
        ("example.org/somebody/serve@v1.2.3/pool.go", "serve"),
        ("/build/cmd/serve/main.go", "serve"),
        ("/app/pool.go", None),
    ],
)
def test_gos_programs_bear_the_name_of_their_package(file: str, name: str | None) -> None:
    first = death(
        "panic: runtime error: invalid memory address or nil pointer dereference\n"
        "[signal SIGSEGV: segmentation violation code=0x1 addr=0x28 pc=0x1385f7c]\n\n"
        "goroutine 1 [running]:\nmain.take(0xc000228000)\n"
        f"\t{file}:76 +0x19c\n"
    )

    assert (first.name, first.function) == (name, "main.take")


@pytest.mark.parametrize(
    "line",
    [
        "panic:runtime error:invalid memory address or nil pointer dereference",
        "# nil pointer dereference when the pool is empty",
        "[signal 0xb code=0x1 **addr=0x0** pc=0x47ab4b]",
        "[ [ SegfaultHandler caught a segfault in thread 0x0000ffff5c003280 ] ]",
    ],
)
def test_a_fault_of_go_and_of_native_images_is_read(line: str) -> None:
    assert has_death(line + "\n\nAny idea?\n")


def test_newer_versions_of_lldb_write_the_signal_alone() -> None:
    first = death(
        "* thread #1, name = 'serve', stop reason = SIGSEGV: address not mapped to object\n"
        "  * frame #0: 0x00000001038b1019 serve`ns::take(int) + 25\n"
    )

    assert (first.name, first.signal, first.function) == ("serve", "SIGSEGV", "ns::take")


def test_a_debugger_may_name_the_library_behind_at() -> None:
    first = death(
        "Program received signal SIGABRT, Aborted.\n"
        "#0  0x00007ffff5033582 in __GI_abort () at abort.c:73\n"
        "#1  0x00007ffff56bd114 in take_pool () at /opt/serve/lib/libpool.so.6\n"
    )

    assert (first.module, first.function) == ("libpool.so.6", "take_pool")


def test_what_uses_follys_or_googles_namespace_is_a_place() -> None:
    first = death(
        "F0115 08:12:45.123456  4242 pool.cpp:32] Check failed: block != nullptr\n"
        "    @     0x7fa8510d61bd  google::LogMessage::Fail()\n"
        "    @     0x7fa8510d5dbb  google::LogMessageFatal::~LogMessageFatal()\n"
        "    @           0x4bc233  folly::detail::take_block()\n"
    )

    assert first.function == "folly::detail::take_block"


def test_a_compiler_on_windows_is_named_in_quotes() -> None:
    first = death(
        "PLEASE submit a bug report to https://example.org/ and include the crash backtrace.\n"
        'Stack dump:\n0.\tProgram arguments: "C:\\\\Program Files\\\\bin\\\\clang++.exe" -cc1\n'
        "Exception Code: 0xC0000005\n"
    )

    assert first.name == "clang++.exe"


def test_an_assertion_in_a_title_may_be_cut_off() -> None:
    first = death(
        "# Crash at exit (serve: src/pool.cpp:34: void take(POOL*): Assertion `(pool->size != 0 ||"
    )

    assert (first.name, first.function, first.signal) == ("serve", "take", "SIGABRT")


def test_a_pages_own_marks_stand_around_a_command() -> None:
    first = death("<b>$ serve pool.txt</b>\nthread 'main' panicked at src/pool.rs:88:9:\n")

    assert first.name == "serve"


def test_who_misses_core_dumps_tells_of_no_death() -> None:
    assert not has_death("# Core dumps are not available, if assert fails\n\nThe limit is 0.\n")


MPI = (
    "[node1:04242] *** Process received signal ***\n"
    "[node1:04242] Signal: Segmentation fault (11)\n"
    "[node1:04242] [ 0] /lib64/libpthread.so.0(+0xf370)[0x7ffff5ca3370]\n"
)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("$ mpirun -np 4 --host node1 ./bin/serve pool.txt", "serve"),
        ("mpirun -n 1  ./bin/serve", "serve"),
        ("mpiexec --oversubscribe -n 2 /opt/bin/serve pool.txt", "serve"),
        ("srun -n 2 python3 serve.py", "python3"),
        ("$ mpirun -mca show_names 1 echo hi", None),
        ("mpirun noticed that something is odd", None),
    ],
)
def test_a_launchers_program_is_named_by_its_path(command: str, name: str | None) -> None:
    assert death(f"```\n{command}\n{MPI}```\n").name == name


def test_a_launcher_may_die_itself() -> None:
    first = death(f"$ ./mpirun --host node1 hostname\n{MPI}[node1:04242] [ 5] ./mpirun[0x401746]\n")

    assert first.name == "mpirun"


def test_on_macos_open_mpi_numbers_the_systems_frames() -> None:
    first = death(
        "[mac1:04242] *** Process received signal ***\n"
        "[mac1:04242] Signal: Segmentation fault: 11 (11)\n"
        "[mac1:04242] [ 0] 0   libsystem_platform.dylib   0x00007fff63b5af5a _sigtramp + 26\n"
        "[mac1:04242] [ 1] 0   libpool.40.dylib           0x00000001038a3fb0 pool_take + 1088\n"
    )

    assert (first.module, first.function) == ("libpool.40.dylib", "pool_take")


def test_valgrind_names_the_program_and_its_own_functions_are_no_place() -> None:
    first = death(
        "==4242== Command: ../build/serve pool.txt\n==4242==\n"
        "==4242== Process terminating with default action of signal 11 (SIGSEGV): dumping core\n"
        "==4242==    at 0x403B006: rindex (vg_replace_strmem.c:210)\n"
        "==4242==    by 0x10AB71: take (pool.c:116)\n"
    )

    assert (first.name, first.pid, first.function) == ("serve", 4242, "take")


def test_a_trace_of_backward_stands_above_its_signal() -> None:
    first = death(
        "Stack trace (most recent call last):\n"
        '#3    Object "/lib/libc.so.6", at 0x442d77f7, in __libc_start_main\n'
        '#2    Object "/usr/bin/serve", at 0xf70b, in\n'
        '#1    Object "/lib/libc.so.6", at 0x442edb4f, in\n'
        '#0    Object "/usr/bin/serve", at 0xdd6b, in\n'
        "Segmentation fault (Address not mapped to object [(nil)])\n"
    )

    assert (first.signal, first.module) == ("SIGSEGV", "serve")


def test_libfuzzer_tells_a_signal_and_its_own_frames_are_no_place() -> None:
    first = death(
        "==4242== ERROR: libFuzzer: deadly signal\n"
        "    #0 0x527a11 in __sanitizer_print_stack_trace /llvm/compiler-rt/lib/asan/a.cc:86:3\n"
        "    #1 0x457f53 in fuzzer::Fuzzer::CrashCallback() /compiler-rt/lib/fuzzer/F.cpp:2:3\n"
        "    #2 0x7fdae35963cf  (/lib/x86_64-linux-gnu/libpthread.so.0+0x113cf)\n"
        "    #3 0x470019 in HandleCmp<long> /llvm/compiler-rt/lib/fuzzer/FuzzerTracePC.cpp:390:26\n"
        "    #4 0x5511e4 in take_block(unsigned char const*) /src/pool.cc:88:3\n"
        "SUMMARY: libFuzzer: deadly signal\n"
    )

    assert (first.pid, first.function) == (4242, "take_block")
    assert first.cause.kind is CauseClass.NATIVE_FAULT
    assert first.cause.certainty is not Certainty.PROVED


def test_a_fuzzers_timeout_is_a_hang_and_its_limit_an_end_of_its_own() -> None:
    hung = death("==4242== ERROR: libFuzzer: timeout after 25 seconds\n#0 0x5 in f /a.c:1:1\n")
    full = death("==4242== ERROR: libFuzzer: out-of-memory (used: 2049Mb; limit: 2048Mb)\n")

    assert hung.cause.kind is CauseClass.HANG
    assert full.cause.kind is CauseClass.ABORT_EXCEPTION


def test_syslog_names_a_program_that_gives_no_number() -> None:
    first = death(
        "Jan 15 08:12:45 node1 served: fatal error: concurrent map writes\n"
        "Jan 15 08:12:45 node1 served: goroutine 7 [running]:\n"
    )

    assert first.name == "served"


def test_windbg_numbers_what_was_inlined_too() -> None:
    first = death(
        "# The server crashed\n\n"
        " # Child-SP          RetAddr               Call Site\n"
        r"00 (Inline Function) --------`--------     pool!ns::flag [D:\src\pool.h @ 88] "
        "\n06 000000bd`cc4be420 00007ff8`10b0db3a     pool!ns::take+0x8a\n"
    )

    assert (first.module, first.function) == ("pool", "ns::flag")


def test_what_a_failed_assertion_calls_is_no_place() -> None:
    first = death(
        "*** Caught signal (Aborted) **\n in thread 7fd1bf371a40 thread_name:serve\n"
        " 1: (()+0x946e4e) [0x56379eda3e4e]\n 2: (gsignal()+0x38) [0x7fd1bc9fc428]\n"
        " 3: (abort()+0x16a) [0x7fd1bc9fe02a]\n"
        " 4: (ns::__ns_assert_fail(char const*, int)+0x26b) [0x56379ef7556b]\n"
        " 5: (ns::Pool::~Pool()+0xd1) [0x56379f05ba71]\n"
    )

    assert (first.signal, first.function) == ("SIGABRT", "ns::Pool::~Pool")


@pytest.mark.parametrize(
    ("title", "module", "function"),
    [
        ("serve is crashing in libpool.so", "libpool.so", None),
        ("Segfault in ns::take", None, "ns::take"),
        ("Segfault in take_block()", None, "take_block"),
        ("Crash on take_block example", None, None),
    ],
)
def test_a_title_tells_the_place_where_the_log_does_not(
    title: str, module: str | None, function: str | None
) -> None:
    first = death(f"# {title}\n\n```\nSegmentation fault (core dumped)\n```\n")

    assert (first.module, first.function) == (module, function)


def test_a_stack_in_json_is_read_and_names_who_gave_up() -> None:
    death = incident_of(
        '{"t":{"$date":"2026-01-15T08:12:45.123+00:00"},"s":"I","msg":"BACKTRACE","attr":{"bt":'
        '{"backtrace":[{"a":"5609CC402629","b":"5609C75C7000","o":"4E3B629","s":"_ZN4pool5printEv",'
        '"C":"pool::printStackTrace()","s+":"29"},{"a":"7F0FBB4217F3","b":"7F0FBB3F9000",'
        '"o":"287F3","s":"abort","s+":"D3"},{"a":"5609C94DA75A","b":"5609C75C7000","o":"1F1375A",'
        '"s":"_ZN4pool15invariantFailedEv","C":"pool::invariantFailed()","s+":"F6"},'
        '{"a":"5609C94DA7FF","b":"5609C75C7000","o":"1F137FF","s":"_ZN4pool4takeEv",'
        '"C":"pool::take()","s+":"F6"}]}}}'
    ).first_death

    assert (death.signal, death.function) == ("SIGABRT", "pool::take")


def test_of_several_threads_the_one_that_gave_up_tells() -> None:
    death = incident_of(
        "#0  0x00007efc3ef731a2 in __GI___sigtimedwait (set=0x7efc3e2745e0) at sigtimedwait.c:29",
        "#1  0x000055859243fc24 in pool::waitForSignals() ()",
        "#2  0x00005585924409ff in pool::runThread() ()",
        "",
        "Thread 1 (Thread 0x7efc2ce4f700 (LWP 63827)):",
        "#0  __GI_raise (sig=sig@entry=6) at ../sysdeps/unix/sysv/linux/raise.c:50",
        "#1  0x00007efc3ef51859 in __GI_abort () at abort.c:79",
        "#2  0x000055859529d617 in pool::take(int) ()",
    ).first_death

    assert (death.signal, death.function) == ("SIGABRT", "pool::take")


def test_the_frame_that_was_hit_may_stand_above_the_whole_stack() -> None:
    death = incident_of(
        "1:M 15 Jan 08:12:45.123 # Pool 4.0.7 crashed by signal: 11",
        "/lib/libc.so.6(+0x1390a6)[0x7f0e9d8cd0a6]",
        "pool-server *:6379 [cluster](logStackTrace+0x29)[0x468599]",
        "pool-server *:6379 [cluster](sigsegvHandler+0xa6)[0x468c36]",
        "/lib/libpthread.so.0(+0xf890)[0x7f0e9db4e890]",
        "/lib/libc.so.6(+0x1390a6)[0x7f0e9d8cd0a6]",
        "pool-server *:6379 [cluster](takeBlock+0xe2)[0x496c92]",
    ).first_death

    assert (death.name, death.function) == ("pool-server", "takeBlock")


def test_lldb_names_its_program_by_what_it_debugs_and_by_its_module() -> None:
    debugged = incident_of(
        '(lldb) target create "bin/serve"',
        "Current executable set to '/src/bin/serve' (arm64).",
        "Process 4242 stopped",
        "* thread #1, queue = 'com.apple.main-thread', stop reason = EXC_BAD_ACCESS (code=1)",
        "    frame #0: 0x00000001950d094c libpool.dylib`take + 224",
    ).first_death
    by_module = incident_of(
        "# Segfault when a block is taken",
        "  * frame #0: 0x000000010b9b183e serve`take_block(pool=<unavailable>) + 382 at pool.c:88",
        "    frame #1: 0x000000010b9cc4b5 serve`serve(pool=<unavailable>) + 421 at serve.c:12",
        "    frame #2: 0x000000010b9cc4ff CoreFoundation`__CFRunLoopRun + 421",
    ).first_death

    assert (debugged.name, debugged.pid) == ("serve", 4242)
    assert by_module.name == "serve"


@pytest.mark.parametrize("title", ["Mac OS crash (EXC_BAD_ACCESS)", "Closing it caused DB crash"])
def test_a_system_or_a_database_is_no_programs_name(title: str) -> None:
    assert incident_of(f"# {title}", "Segmentation fault (core dumped)").first_death.name is None


def test_openfoams_ranks_tell_where_they_faulted() -> None:
    death = incident_of(
        "[2] #0  Foam::error::printStack(Foam::Ostream&) addr2line failed",
        "[2] #1  Foam::sigSegv::sigHandler(int) addr2line failed",
        "[2] #2  ? addr2line failed",
        "[2] #3  Foam::Pool<Foam::face>::take(int) addr2line failed",
        "[2] #5  Foam::Pool<Foam::face>::serve(int, int) addr2line failed",
    ).first_death

    assert (death.signal, death.function, death.name) == (
        "SIGSEGV",
        "Foam::Pool<Foam::face>::take",
        None,
    )


def test_php_fpm_and_v8_are_known_by_their_own_lines() -> None:
    php = incident_of(
        "WARNING: [pool www] child 55681 exited on signal 11 (SIGSEGV) after 14 seconds from start"
    ).first_death
    v8 = incident_of(
        "[6904:0000029E16A50000]  1889696 ms: Scavenge 2043.3 (2047.8) -> 2042.0 (2048.3) MB",
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        " 1: 00007FF71AD3B106 node::OnFatalError+1318",
        " 2: 00007FF71B6E8077 EVP_PKEY_asn1_set_get_priv_key+463063",
    ).first_death

    assert (php.name, php.pid) == ("php-fpm", 55681)
    assert (v8.name, v8.pid, v8.function) == ("node", 6904, None)


def test_unreals_list_of_modules_says_less_than_its_assertion() -> None:
    death = incident_of(
        "Assertion failed: Index >= 0 [File:D:/Build/Engine/Private/Pool.cpp] [Line: 1897]",
        "",
        "UE4Editor_Core",
        "UE4Editor_Engine",
        "UE4Editor",
        "kernel32",
        "ntdll",
    ).first_death
    fatal = incident_of(
        "LowLevelFatalError [File:G:\\Engine\\Pool.cpp] [Line: 88] gone"
    ).first_death

    assert (death.name, death.line) == ("UE4Editor", 1897)
    assert (fatal.file, fatal.line) == ("G:\\Engine\\Pool.cpp", 88)


def test_a_panics_hook_may_tell_only_its_place() -> None:
    death = incident_of(
        "called `Option::unwrap()` on a `None` value", "Panicked at /src/pool/take.rs:604:45"
    ).first_death

    assert (death.file, death.line) == ("/src/pool/take.rs", 604)


def test_below_the_crashed_thread_stand_the_others() -> None:
    death = incident_of(
        "Unhandled exception: c0000005",
        "Fault address: 0 ((null))",
        "Thread 5D0 (Crashed)",
        "Stack            EIP              Arg0             Address",
        "000000FA140FF060 0000000000000000 0000000000000000 0000000000000001 <unknown>!0x0",
        "",
        "Thread 14BC",
        "000000FA141FFC28 00007FFE35E508E4 0000000000000000 0000000000000000 pool.dll!0x7ffe35e508",
    ).first_death

    assert (death.module, death.function) == (None, None)


def test_wine_tells_which_module_it_ran() -> None:
    death = incident_of(
        "Unhandled exception: page fault on read access to 0x7e077000 in 32-bit code (0x00546802).",
        "Backtrace:",
        "=>0 0x00546802 in serveplayer (+0x146802) (0x0033f7a8)",
        "  1 0x013732c4 in serveplayer (+0xf732c3) (0x0033f7e8)",
        "  2 0x7b863e3c call_process_entry+0xb() in kernel32 (0x0033fe78)",
    ).first_death

    assert death.name == "serveplayer"


def test_records_in_json_above_tell_whose_last_words_they_are() -> None:
    record = '{"component":"pool-manager","level":"info","msg":"Loaded %s"}\n'
    panic = "fatal error: concurrent map writes\n\ngoroutine 12 [running]:\n"

    assert death(f"{record}{record}{panic}").name == "pool-manager"
    assert death(f"{record}{record.replace('pool', 'block')}{panic}").name is None


def test_an_extension_of_perls_tells_the_interpreter() -> None:
    log = (
        "Program terminated with signal 11, Segmentation fault.\n"
        "#0  take_block (block=0x48) at DBI.xs:88\n"
        "#1  0x00007fd84d6880ed in XS_DBI_take (cv=0x3df4ac8) at DBI.xs:12\n"
    )

    assert death(log).name == "perl"


def test_a_reports_form_asks_for_the_log_that_stands_there() -> None:
    log = (
        "pooldb/pooldb · issue #42 · open · C\n# [CRASH] crashed by signal\n\n"
        "Paste the complete crash log between the quotes below. Please include a few lines.\n\n"
        "```\n4242:M 14 Jan 15:52:14.396 # Redis 4.0.11 crashed by signal: 11\n```\n"
    )

    assert death(log).pid == 4242


def test_macos_tells_a_damaged_heap() -> None:
    line = "serve(4242,0x1f2a3b4c0) malloc: Heap corruption detected, free list is damaged\n"

    found = death(f"{line}zsh: abort      serve\n")

    assert (found.pid, found.name, found.cause.kind.value) == (4242, "serve", "heap-corruption")
