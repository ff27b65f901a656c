"""Every writer's frames, and which stacks stand alone."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.log.stacks.native_frame import frame_in
from vllm_forensics.evidence.log.stacks.native_stack import begins_lone_stack
from vllm_forensics.model.incident import ClueKind

FRAMES = {
    "Ray, older": ("    ns::Pool::take()", "ns::Pool::take()", None),
    "abseil": ("    @     0x7f1be0001234        192  ns::f()", "ns::f()", None),
    "c10": ("frame #3: ns::f() + 0x57 (0x7f1be0001234 in /lib/libx.so)", "ns::f()", "libx.so"),
    "backtrace_symbols": ("/lib/libx.so(f+0x2dc) [0x7f1be0001234]", "f", "libx.so"),
    "MXNet": ("  [bt] (1) /lib/libx.so(+0x2dc) [0x7f1be0001234]", None, "libx.so"),
    "systemd": ("#0  0x00007f1be0001234 f (libx.so + 0x1234)", "f", "libx.so"),
    "systemd, older": ("#0  0x00007f1be0001234 n/a (libx.so.5)", None, "libx.so.5"),
    "gdb": ("#0  0x00007f1be0001234 in f (a=1) from /lib/libx.so", "f", "libx.so"),
    "gdb without a name": ("#0  0x00007f1be0001234 in ?? () from /lib/libx.so", None, "libx.so"),
    "gdb over two lines": ("#6  0x00007ffff7debda9 in open_it (", "open_it", None),
    "LLVM": (" #4 0x00005581c0de1234 f(int) (/usr/bin/opt+0x1234)", "f(int)", "opt"),
    "LLVM without a name": (" #4 0x00005581c0de1234 (/usr/lib/libx.so+0x1234)", None, "libx.so"),
    "LLVM with a line": (" #4 0x00005581c0de1234 f(int) /src/f.cpp:12:3", "f(int)", None),
    "macOS": ("5   _x.so   \t0x000000010ebc8e95 ns::f(int) + 687", "ns::f(int)", "_x.so"),
    "TensorRT-LLM": ("3   0x7fb4614edcec ns::f() + 204", "ns::f()", None),
    "TensorRT-LLM without a name": (
        "2       0x7fb4aebbf999 /lib/libx.so(+0x728999) [0x7fb4aebbf999]",
        None,
        "libx.so",
    ),
    "LLDB": ("  * frame #0: 0x00000001038bb019 libx.dylib`f + 25", "f", "libx.dylib"),
    "Java, native": ("# C  [libx.so+0x1234]  ns::f(int)+0x51", "ns::f(int)", "libx.so"),
    "Java": ("# J 112 c1 example.Pool.take(I)V (10 bytes)", "example.Pool.take", None),
    "Node": (" 1: 0xca5430 node::Abort() [node]", "node::Abort()", "node"),
    "Boost": (" 1# ns::f(int) in /lib/libx.so", "ns::f(int)", "libx.so"),
    "valgrind": ("==42==    by 0x4C31234: f (in /lib/libx.so)", "f", "libx.so"),
    "gdb over two lines, in a template": (
        f"#0  0x0000557252ba953e in ns::set_impl<ns::traits<{'ns::node<int>, ' * 5}ns::r",
        "ns::set_impl",
        None,
    ),
    "tvm": ('  File "src/f.cc", line 12, in ns::f()', "ns::f()", None),
    "backtrace_symbols of a program with arguments": (
        "node /opt/app/main.js(ns_f+0x40)[0xc08780]",
        "ns_f",
        "node",
    ),
    "backtrace_symbols without symbols": ("/usr/bin/node[0xa1c7fe]", None, "node"),
    "Godot with a module": (
        "[2] /opt/app/game.64() [0xbcc6f6] (/src/ns/string.h:23)",
        None,
        "game.64",
    ),
    "Godot": ("[2] ns::f(int const&) (/src/f.cpp:1186)", "ns::f(int const&)", None),
    "Android": ("    #01 pc 000000000001e020  /lib/libx.so (_Z1fi+32)", "f", "libx.so"),
    "Android below logcat's prefix": (
        "01-15 08:12:45.123 42-43/? E/CRASH:   #00  pc 0000000000a69c  /lib/libx.so (ns_f+48)",
        "ns_f",
        "libx.so",
    ),
    "Ruby": ("/lib/libx.so(f+0x2dc) [0x7f1be0001234] pool.c:12", "f", "libx.so"),
    "Java, quoted": ("\\# C  [libx.so+0x1234]  ns::f(int)+0x51", "ns::f(int)", "libx.so"),
    "Swift": ("1 [ra] 0x00005581c0de1c58 ns_f + 16 in serve", "ns_f", "serve"),
    "Unity": ("#1  0x0055e34f41cfc3 in ns_f", "ns_f", None),
    "Rust": ("   4: ns::f", "ns::f", None),
}


@pytest.mark.parametrize("writer", FRAMES)
def test_a_frame_is_read(writer: str) -> None:
    text, function, module = FRAMES[writer]

    frame = frame_in(text)

    assert frame is not None
    assert (frame.call.function, frame.call.module) == (function, module)


@pytest.mark.parametrize(
    "text",
    ["#0 building with the default instance", "#0 12.34 Collecting numpy", "frame #0: c10::Error"],
)
def test_other_texts_begin_no_stack(text: str) -> None:
    assert not begins_lone_stack(text)


def test_frames_above_the_signal_are_the_handlers() -> None:
    log = (
        b"Program terminated with signal SIGABRT, Aborted.\n"
        b"#0  0x00007f1be0001234 in report (sig=11) at handler.c:3\n"
        b"#1  <signal handler called>\n"
        b"#2  0x00007f1be0001334 in take (pool=0x0) at pool.c:12\n"
    )

    (clue,) = parse_incident_log([log]).clues

    assert [call.function for call in clue.native] == ["take"]


def test_a_stack_with_the_outermost_call_first_is_turned_round() -> None:
    log = (
        b"Segmentation fault (Address not mapped to object [0x48])\n"
        b'#2    Object "/opt/app/serve", at 0x55bfb81b706d, in _start\n'
        b'#1    Object "/opt/app/serve", at 0x55bfb81b7018, in main\n'
        b'#0    Object "/opt/app/libx.so", at 0x7f1be0001234, in take\n'
    )

    clues = parse_incident_log([log]).clues

    assert [call.function for call in clues[0].native] == ["take", "main", "_start"]


def test_two_threads_stacks_are_two() -> None:
    thread = (
        b"#0  0x00007f1be0001234 in wait (a=1) at a.c:1\n#1  0x00007f1be00 in run () at a.c:2\n"
    )

    clues = parse_incident_log([thread + b"\nThread 1 (Thread 0x7f):\n" + thread]).clues

    assert [(clue.kind, len(clue.native)) for clue in clues] == [(ClueKind.STACK, 2)] * 2


def test_julias_frames_name_files_and_libraries() -> None:
    log = (
        b"[4242] signal (11.1): Segmentation fault\n"
        b"in expression starting at /opt/app/run.jl:1\n"
        b"take at /opt/app/libx.so (unknown line)\n"
        b"run at /opt/app/src/Pool.jl:12 [inlined]\n"
    )

    (clue,) = parse_incident_log([log]).clues

    assert [(call.function, call.module) for call in clue.native] == [
        ("take", "libx.so"),
        ("run", None),
    ]


@pytest.mark.parametrize(
    ("innermost", "function", "module"),
    [
        (' 1: .Call("take", pool, PACKAGE = "basin")', "take", None),
        (" 1: basin::take(pool = 12)", "take", "basin"),
        (" 1: dyn.load(file, DLLpath = DLLpath, ...)", "dyn.load", None),
    ],
)
def test_rs_innermost_function_is_the_place(
    innermost: str, function: str, module: str | None
) -> None:
    log = f" *** caught segfault ***\naddress 0x48\n\nTraceback:\n{innermost}\n 2: run(pool)\n"

    (clue,) = parse_incident_log([log.encode()]).clues

    assert [(call.function, call.module) for call in clue.native] == [(function, module)]


def test_apples_json_tells_the_frames_of_the_thread_that_died() -> None:
    log = (
        b'  "exception" : {"codes":"0x1","type":"EXC_BAD_ACCESS","signal":"SIGSEGV"},\n'
        b'  "faultingThread" : 1,\n'
        b'  "threads" : [{"id":1,"frames":[{"imageOffset":8,"symbol":"sleeps","imageIndex":0}]},'
        b'{"triggered":true,"id":2,"threadState":{"x":[{"value":1}]},"frames":[{"imageOffset":4,'
        b'"symbol":"ns::take(int)","symbolLocation":12,"imageIndex":0},{"imageOffset":6,'
        b'"symbol":"ns::run[abi:1]()","imageIndex":0}]},{"id":3,"frames":[{"symbol":"waits"}]}],\n'
    )

    (clue,) = parse_incident_log([log]).clues

    assert clue.signal == "SIGSEGV"
    assert [call.function for call in clue.native] == ["ns::take(int)", "ns::run[abi:1]()"]


def test_swifts_other_threads_are_no_part_of_the_stack() -> None:
    log = (
        b"*** Program crashed: Bad pointer dereference at 0x0000000000000048 ***\n\n"
        b'Thread 0 "serve":\n\n0  0x00007f1be0001234 poll + 4 in libx.so\n\n'
        b'Thread 4 "pool" crashed:\n\n0      0x00005581c0de5781 take(int) + 49 in serve\n'
    )

    (clue,) = parse_incident_log([log]).clues

    assert [(call.function, call.module) for call in clue.native] == [("take(int)", "serve")]


def test_paddles_innermost_call_stands_last() -> None:
    log = (
        b"C++ Traceback (most recent call last):\n"
        b"--------------------------------------\n"
        b"0   pool::Predictor::Run()\n"
        b"1   pool::Kernel::Take(pool::Place const&) const\n"
        b"FatalError: `Segmentation fault` is detected by the operating system.\n"
        b"  [SignalInfo: *** SIGSEGV (@0x10) received by PID 1011 (TID 0x7f1) from PID 16 ***]\n"
    )

    first, *others = parse_incident_log([log]).clues

    assert [call.function for call in first.native] == [
        "pool::Kernel::Take(pool::Place const&) const",
        "pool::Predictor::Run()",
    ]
    assert {one.signal for one in others} == {"SIGSEGV"}


@pytest.mark.parametrize(
    ("log", "function", "module"),
    [
        (  # of Electron on macOS, whose last line was cut
            "Received signal 11 SEGV_MAPERR 000000000048\n"
            "0   Pool Framework   0x000000010a75eeb9 base::debug::StackTrace::StackTrace() + 9\n"
            "1   Pool Framework   0x000000010a75ed81 base::StackDumpSignalHandler(int) + 23\n"
            "2   ???              0x0000000000000001 0x0 + 1\n"
            "3   Pool Framework   0x0000000104faaf35 ns::Pool::take(v8::Isolate*,\n",
            "ns::Pool::take",
            "Pool Framework",
        ),
        (  # behind ClickHouse's logger
            "2026.01.15 08:12:45.123 [ 42 ] {} <Fatal> Daemon: Received signal Segmentation fault "
            "(11)\n"
            "2026.01.15 08:12:45.456 [ 42 ] {} <Fatal> Daemon: 2. ns::take(int) @ 0x1234 in "
            "/opt/bin/poold\n",
            "ns::take",
            "poold",
        ),
        (  # Unreal's, all in one line
            "Caught signal 11 Segmentation fault libpool.so!ns::Pool::take() const "
            "[/src/pool.cpp:88] libpool.so!ns::run(int) [/src/run.cpp:12]\n",
            "ns::Pool::take",
            "libpool.so",
        ),
        (
            "Fatal error. System.AccessViolationException: Attempted to read\n"
            "   at Ns.Pool.Take(IntPtr, Ns.Block ByRef)\n   at Ns.Program.Main()\n",
            "Ns.Pool.Take",
            None,
        ),
        (
            "(1092.10cc): Access violation - code c0000005 (first chance)\n"
            "STACK_TEXT:\n"
            "00000016`f1f7b508 00007ffa`3672ecd1 : 00000000`00000000 0 : pool!ns::take+0x2\n",
            "ns::take",
            "pool",
        ),
        (
            "Crash reason:  SIGSEGV / SEGV_MAPERR\nThread 0 (crashed)\n"
            " 0  libc.so.6 + 0x705ac\n 1  libpool.so!ns::take(int) [pool.cpp : 88 + 0x3]\n",
            "ns::take",
            "libpool.so",
        ),
    ],
)
def test_strangers_stacks_tell_the_place(log: str, function: str, module: str | None) -> None:
    incident = explain_incident(parse_incident_log([log.encode()]), "log")

    assert incident is not None
    death = incident.first_death
    assert (death.signal, death.function, death.module) == ("SIGSEGV", function, module)


def test_a_kernels_oops_names_the_process_it_ran_for() -> None:
    log = (
        b"[ 1234.567890] BUG: kernel NULL pointer dereference, address: 0000000000000048\n"
        b"[ 1234.567891] Oops: 0000 [#1] SMP\n"
        b"[ 1234.567892] CPU: 3 PID: 4242 Comm: serve Tainted: G\n"
        b"[ 1234.567893] RIP: 0010:pool_take+0x18/0x64 [pool]\n"
        b"[ 1234.567894] Call Trace:\n[ 1234.567895]  pool_ioctl+0x3c/0x5c [pool]\n"
    )

    incident = explain_incident(parse_incident_log([log]), "log")

    assert incident is not None
    death = incident.first_death
    assert (death.pid, death.name) == (4242, "serve")
    assert (death.function, death.module) == ("pool_take", "pool")


def test_a_titles_number_is_not_that_of_the_process_below() -> None:
    log = (
        b"# child 4100 exited on signal 11 (SIGSEGV)\n\n"
        b"        Signal: 11 (SEGV)\n"
        b"       Message: Process 4242 (poold) of user 48 dumped core.\n"
    )

    incident = explain_incident(parse_incident_log([log]), "log")

    assert incident is not None
    assert incident.first_death.pid == 4242


def test_a_stack_that_begins_in_a_signals_handler_tells_a_death() -> None:
    log = (
        b"#0  ns::error::printStack(ns::Stream&) at ??:?\n"
        b"#1  ns::sigSegv::sigHandler(int) at ??:?\n"
        b"#2  ns::Pool::take(int) at ??:?\n"
    )

    incident = explain_incident(parse_incident_log([log]), "log")

    assert incident is not None
    assert incident.first_death.signal == "SIGSEGV"
    assert incident.first_death.function == "ns::Pool::take"


def test_who_registers_a_handler_handles_nothing() -> None:
    log = (
        b"#0  0x00007f1be0001234 in calloc () from /lib/libc.so.6\n"
        b"#1  0x00007f1be0001235 in ns::RegisterSignalHandler (number=11) at handler.cpp:12\n"
        b"#2  0x00007f1be0001236 in main () at serve.cpp:88\n"
    )

    (clue,) = parse_incident_log([log]).clues

    assert clue.kind is ClueKind.STACK


def test_what_ray_says_of_repetitions_is_no_part_of_a_frame() -> None:
    log = (
        b"(Actor pid=4242) *** SIGSEGV received at time=1700000000 on cpu 3 ***"
        b" [repeated 7x across cluster]\n"
        b"(Actor pid=4242)     @     0x7f1be0001234        672  (unknown)"
        b" [repeated 14x across cluster]\n"
        b"(Actor pid=4242)     @     0x7f1be0001334        144  ns::Pool::take()"
        b" [repeated 7x across cluster]\n"
    )

    incident = explain_incident(parse_incident_log([log]), "log")

    assert incident is not None
    assert incident.first_death.function == "ns::Pool::take"


def test_a_driver_that_is_too_old_is_no_fault_of_a_kernel() -> None:
    told = b"CUDA error: CUDA driver version is insufficient for CUDA runtime version\n"

    glued, alone = (parse_incident_log([start + told]) for start in (b"ordinal", b"RuntimeError: "))

    assert not any(clue.kind is ClueKind.GPU for clue in (*glued.clues, *alone.clues))
    assert [clue.kind for clue in alone.clues] == [ClueKind.ENVIRONMENT]


@pytest.mark.parametrize(
    ("frame", "signal"),
    [
        ("/lib/libruby.so.3.2(sigsegv+0x4b) [0x7f1be0001234] signal.c:964", "SIGSEGV"),
        ("/lib/libruby.so.3.2(sigill+0x4b) [0x7f1be0001234] signal.c:964", "SIGILL"),
        ("/usr/bin/serve(_ZN4Pool11segvHandlerEi+0x26)[0x7f1be0001234]", "SIGSEGV"),
        ("/usr/bin/serve(take_bus+0x26)[0x7f1be0001234]", None),
    ],
)
def test_a_handler_is_called_like_its_signal(frame: str, signal: str | None) -> None:
    log = (
        f"-- C level backtrace information -------\n{frame}\n/opt/pool.so(take+0x2) [0x7f1be123]\n"
    )

    (clue,) = parse_incident_log([log.encode()]).clues

    assert clue.signal == signal


@pytest.mark.parametrize(
    "log",
    [
        ": fatal error: concurrent map writes\n\ngoroutine 7 [running]:\n"
        "runtime.throw(0xa48d0a, 0x15)\nexample/core.(*Pool).take(0",
        "│ fatal error: concurrent map writes   ││ goroutine 7 [running]:   ││"
        " example/core.(*Pool).take({0xc0, 0x2f}, {0xc1, 0x1e})   │",
        "fatal error: concurrent map writes\n\ngoroutine 7 [running]:\n"
        "example/core.(*Pool).take[...](0xc0)\n",
    ],
)
def test_goroutines_are_read_cut_off_and_out_of_a_window(log: str) -> None:
    incident = explain_incident(parse_incident_log([log.encode()]), "log")

    assert incident is not None
    assert "(*Pool).take" in (incident.first_death.function or "")
