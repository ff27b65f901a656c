"""Stacks in forms that no table knows, below a title that tells of a crash."""

from __future__ import annotations

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Death

HEAD = "# Segfault\n\nHere is the stack:\n\n```\n"


def death(text: str) -> Death:
    return incident_of(*text.splitlines()).first_death


@pytest.mark.parametrize(
    ("stack", "module", "function"),
    [
        ("#0 take pool.c:88\n#1 serve serve.c:12", None, "take"),
        ("#0: take at src/pool.c:88\n#1: serve at src/serve.c:12", None, "take"),
        ("#0 take in libpool.so\n#1 serve in libpool.so", "libpool.so", "take"),
        ("take (pool.c:88)\n  called from serve (serve.c:12)", None, "take"),
        ("in take at pool.c:88\ncalled by serve at serve.c:12", None, "take"),
        ("pool.dll!take(int x) Line 12\tC++\npool.dll!serve() Line 88\tC++", "pool.dll", "take"),
        (">\tns::take(int x) Line 12\tC++\n \tns::serve() Line 88\tC++", None, "ns::take"),
        ("#0\t0x00000001a1234567 in take ()\n#1\t0x00000001a1234667 in serve ()", None, "take"),
        ("#0  0x00007f1be0001234 take\n#1  0x00007f1be0001334 serve", None, "take"),
        ("    take+0x12\n    serve+0x44\n    main+0x10", None, "take"),
        (
            "#0  0x00007f1be0001234 in\nns::take (pool=0x0) at src/pool.cpp:88\n"
            "#1  0x00007f1be0001334 in\nns::serve () at src/serve.cpp:12",
            None,
            "ns::take",
        ),
        ("libpool.so.1 take + 0x12\nlibpool.so.1 serve + 0x44", "libpool.so.1", "take"),
        ("libpool.so.1`take+0x12\nlibpool.so.1`serve+0x44", "libpool.so.1", "take"),
        ("_ZN4pool4takeEi\n_ZN4pool5serveEv\nmain", None, "pool::take"),
        ("pool!take+0x14\npool!serve+0x44", "pool", "take"),
        ("- ns::take(int)\n- ns::serve()\n- main", None, "ns::take"),
        ("take() [libpool.so]\nserve() [libpool.so]", "libpool.so", "take"),
        ("take (libpool.so + 0x12) (libpool.so)\nStack: main -> serve -> take", None, "take"),
    ],
)
def test_whatever_form_a_stack_has_it_shows_where(
    stack: str, module: str | None, function: str
) -> None:
    died = death(f"{HEAD}{stack}\n```\n")
    assert (died.module, died.function, died.place_certainty) == (
        module,
        function,
        Certainty.LIKELY,
    )


@pytest.mark.parametrize(
    "shown",
    [
        "#53 0x00000001a1234567 in take ()\n#54 0x00000001a1234667 in serve ()",
        "Thread 3:: io\n0   libpool.dylib \t0x00007fffde52fdc6 take + 10\n"
        "1   libpool.dylib \t0x00007fffde52fdd6 serve + 10",
        "previously allocated by thread T0 here:\n#0 take in libpool.so\n#1 serve in libpool.so",
        "Reading ld.so.1\nReading libpool.so.1",
        "poll at poll.c:12\nserve at serve.c:88",
        "pool.c:12: warning: unused variable a\npool.c:88: warning: unused variable b",
        "1. Open the file\n2. Close the file",
        "the pool+1\nthe pool+2",
    ],
)
def test_what_is_no_stack_of_the_fault_shows_nothing(shown: str) -> None:
    died = death(f"{HEAD}{shown}\n```\n")
    assert (died.module, died.function) == (None, None)


def test_source_code_is_no_stack() -> None:
    died = death("# Segfault\n\n```cpp\ntake(a) at pool.c:12\nserve(b) at pool.c:13\n```\n")
    assert died.function is None
