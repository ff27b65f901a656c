"""Deaths that only a debugger's stack tells: its handler's argument, the allocator's functions."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass

KILL = "#0  0x00007f1be000142b in kill () at ../sysdeps/unix/syscall-template.S:120"
HANDLED = "#2  <signal handler called>"
TAKE = "#3  0x00007f1be0004b4a in take (pool=0x0) at pool.c:690"


@pytest.mark.parametrize(
    ("handler", "signal"),
    [
        ("crash (sig=7, siginfo=0x7ffd0f21dc30, context=<optimized out>) at main.c:264", "SIGBUS"),
        ("on_fault (signo=11) at main.c:264", "SIGSEGV"),
        ("pool::report (this=0x10, signum=8) at main.cpp:3", "SIGFPE"),
    ],
)
def test_a_handlers_argument_names_the_signal(handler: str, signal: str) -> None:
    death = incident_of("(gdb) bt", KILL, f"#1  0x0000556b2873339d in {handler}", HANDLED, TAKE)

    assert death.first_death.signal == signal
    assert death.first_death.function == "take"
    assert death.first_death.cause.certainty is Certainty.LIKELY


def test_the_handler_of_a_request_to_end_tells_no_death() -> None:
    lines = ("(gdb) bt", KILL, "#1  0x0000556b2873339d in stop (sig=15) at main.c:264", HANDLED)

    assert incident_of(*lines, TAKE, "Segmentation fault").first_death.signal == "SIGSEGV"


@pytest.mark.parametrize("name", ["malloc_consolidate", "_int_malloc", "unlink_chunk"])
def test_a_fault_within_the_allocator_is_of_a_damaged_heap(name: str) -> None:
    death = incident_of(
        "Program received signal SIGSEGV, Segmentation fault.",
        f"#0  0x00007f5c0bab56c9 in {name} (av=0x7f5c0bc0daa0 <main_arena>) at malloc.c:3967",
        "#1  0x0000556b2874cb4a in take (pool=0x10) at pool.c:690",
    ).first_death

    assert death.cause.kind is CauseClass.HEAP_CORRUPTION
    assert death.cause.certainty is Certainty.LIKELY
    assert name in death.cause.detail
    assert death.function == "take"


@pytest.mark.parametrize(
    ("frame", "kind", "words"),
    [
        (
            '__GI___libc_fatal (message=message@entry=0x7f1be9c118 "FATAL: not rethrown\\n")',
            CauseClass.ABORT_EXCEPTION,
            "FATAL: not rethrown",
        ),
        (
            '__assert_fail (assertion=0x7f1be9c118 "n < size", file=0x7f1be9c200 "pool.c", line=3)',
            CauseClass.ABORT_EXCEPTION,
            "pool.c:3: Assertion `n < size' failed",
        ),
        (
            'malloc_printerr (str=str@entry=0x7f1be9c118 "free(): invalid size") at malloc.c:5671',
            CauseClass.HEAP_CORRUPTION,
            "free(): invalid size",
        ),
        (
            'Py_FatalError (msg=0x7f1be9c118 "no thread state") at Python/pylifecycle.c:1',
            CauseClass.ABORT_EXCEPTION,
            "no thread state",
        ),
    ],
)
def test_what_an_ending_function_was_given_to_say_is_the_cause(
    frame: str, kind: CauseClass, words: str
) -> None:
    death = incident_of(
        "(gdb) bt",
        "#0  0x00007f1be0001428 in raise (sig=6) at raise.c:54",
        "#1  0x00007f1be000302a in abort () at abort.c:89",
        f"#2  0x00007f1be0003100 in {frame}",
        "#3  0x0000556b2874cb4a in take (pool=0x10) at pool.c:690",
    ).first_death

    assert (death.cause.kind, death.cause.detail) == (kind, words)
    assert (death.signal, death.function) == ("SIGABRT", "take")


def test_valgrind_names_the_process_before_each_line() -> None:
    death = incident_of(
        "# serve crashes at its start",
        "",
        "==42== Invalid read of size 4",
        "==42==    at 0x739A363: take (pool.c:3)",
        "==42==    by 0x167464: main (main.c:432)",
    ).first_death

    assert (death.pid, death.name, death.function) == (42, "serve", "take")
