"""The stack that an answer shows: from the place on, with sources, then Python's."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.model.incident import CauseClass
from vllm_forensics.model.stack import FrameKind

DUMP = (
    "Fatal Python error: Segmentation fault",
    "",
    "Current thread 0x00007f1be0005678 (most recent call first):",
    '  File "/opt/app/serve.py", line 12 in step',
    '  File "/opt/app/serve.py", line 40 in <module>',
)
TORCH = (
    "!!!!!!! Segfault encountered !!!!!!!",
    '  File "./signal/../sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c", line 0, in 0x00007fca1',
    '  File "/src/fill.cpp", line 7, in ns::fill(float*)',
    '  File "<unknown>", line 0, in GOMP_parallel',
    '  File "/src/run.cpp", line 9, in ns::run()',
)


def frames(*lines: str) -> list[tuple[str | None, str | None, int | None]]:
    found = incident_of(*lines).first_death.frames
    return [(frame.function, frame.file, frame.line) for frame in found]


def test_handlers_frames_are_left_out_and_sources_kept() -> None:
    death = incident_of(*TORCH).first_death

    assert (death.function, death.file, death.line) == ("ns::fill", "/src/fill.cpp", 7)
    assert frames(*TORCH) == [
        ("ns::fill", "/src/fill.cpp", 7),
        ("GOMP_parallel", None, None),
        ("ns::run", "/src/run.cpp", 9),
    ]


def test_pythons_frames_follow() -> None:
    found = incident_of(*DUMP).first_death.frames

    assert [frame.kind for frame in found] == [FrameKind.PYTHON] * 2
    assert frames(*DUMP)[0] == ("step", "/opt/app/serve.py", 12)


def test_a_death_told_without_a_stack_has_none() -> None:
    assert frames("Segmentation fault (core dumped)") == []


def test_the_kernels_line_alone_is_no_stack() -> None:
    line = "a[1]: segfault at 48 ip 10 sp 2 error 4 in x.so[10+20]"

    assert frames(line) == []


def test_nodes_own_assertion_is_no_comment_and_its_asserting_function_the_place() -> None:
    death = incident_of(
        "",
        "  #  /usr/bin/node[4242]: static void node::Pool::Take() at ../src/pool.cc:238",
        "  #  Assertion failed: (status) == (0)",
        "",
        "----- Native stack trace -----",
        "",
        " 1: 0xc8e4a0 node::Assert(node::AssertionInfo const&) [/usr/bin/node]",
        " 2: 0xc9f1b2 node::Pool::Take() [/usr/bin/node]",
        " 3: 0x7f1be0042520  [/lib/x86_64-linux-gnu/libc.so.6]",
        "Aborted (core dumped)",
    ).first_death

    assert (death.function, death.module) == ("node::Pool::Take", "node")
    assert death.cause.detail == "Assertion failed: (status) == (0)"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (  # before the kernel wrote `traps:`
            ("[  1.0] python[14940] general protection ip:7f10 sp:7ff0 error:0 in a.so[7f00+100]",),
            ("SIGSEGV", "a.so", None),
        ),
        (
            ("# Terminate called after throwing an instance of 'ns::Error'", "", "It dies."),
            ("SIGABRT", None, None),
        ),
        (
            (
                "[node1:42:0:42] Caught signal 11 (Segmentation fault: address not mapped)",
                " 0 0x0000000000042520 __GI_getenv()  /src/getenv.c:84",
                " 1 0x0000000000012345 ns_take()  /src/pool.c:12",
            ),
            ("SIGSEGV", None, "getenv"),
        ),
        (
            (
                "(raylet) /opt/ray/core/src/ray/raylet/raylet(+0xd1b178) [0xaaaaeafbb178] "
                "ray::operator<<()",
                "(raylet) /opt/ray/core/src/ray/raylet/raylet(+0xd1daa8) [0xaaaaeafbdaa8] "
                "ray::RayLog::~RayLog()",
                "(raylet) /opt/ray/core/src/ray/raylet/raylet(+0x458a48) [0xaaaaea6f8a48] "
                "ray::raylet::Pool::Take()",
            ),
            ("SIGABRT", "raylet", "ray::raylet::Pool::Take"),
        ),
    ],
    ids=["an old kernel", "a capital", "glibc's own name", "raylet"],
)
def test_what_a_place_is_told_by(
    lines: tuple[str, ...], told: tuple[str, str | None, str | None]
) -> None:
    death = incident_of(*lines).first_death

    assert (death.signal, death.module, death.function) == told


def test_a_gpus_illegal_instruction_is_none_of_the_processors() -> None:
    death = incident_of(
        "# [Bug]: CUDA illegal instruction during decode on a GB10",
        "",
        "somebody · description · 2026-01-15",
        "It dies after an hour.",
    ).first_death

    assert (death.cause.kind, death.signal) == (CauseClass.GPU_ASYNC, None)


def test_the_interpreters_innermost_frames_are_shown_and_are_no_place() -> None:
    """gdb breaks a long frame: its source stands on the next line."""
    death = incident_of(
        "Program received signal SIGSEGV, Segmentation fault.",
        "#0  0x00007f8df838b5c0 in pymalloc_alloc (ctx=0x1, nbytes=78) at Objects/obmalloc.c:1942",
        '#1  decode_pool (s=0x7f8df6ffdbcd "take", size=29, errors=0x0)',
        "    at Objects/unicodeobject.c:5203",
        "#2  0x00007f8df6f9065b in ?? () from /opt/lib/pool.so",
    ).first_death

    assert (death.module, death.function) == ("pool.so", None)
    assert [(one.function, one.module) for one in death.frames] == [
        ("pymalloc_alloc", "python"),
        ("decode_pool", "python"),
        (None, "pool.so"),
    ]


def test_what_calls_main_is_no_way_back_from_a_handler() -> None:
    death = incident_of(
        "==13==ERROR: UndefinedBehaviorSanitizer: SEGV on unknown address 0x000000000008 (pc "
        "0x00000043240c bp 0x7ffe1d8d53c0 sp 0x7ffe1d8d40b0 T13)",
        "    #0 0x43240c  (/opt/pool+0x43240c)",
        "    #1 0x5c8fb5  (/opt/pool+0x5c8fb5)",
        "    #2 0x7f2edc87983f  (/lib/x86_64-linux-gnu/libc.so.6+0x2083f)",
        "    #3 0x40fa58  (/opt/pool+0x40fa58)",
        "",
        "thread '<unnamed>' panicked at 'child 13 exited', /src/respawn.rs:347:21",
    ).first_death

    assert (death.module, death.file) == ("pool", None)
    assert death.frames[0].offset == "0x43240c"
