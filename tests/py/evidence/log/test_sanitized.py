"""What sanitizers report, within any text."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.demangle import unescape
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death


def death(text: str) -> Death | None:
    """Who died first by the text."""
    incident = explain_incident(parse_incident_log([text.encode()]), "log")
    return incident.first_death if incident is not None else None


def died(text: str) -> Death:
    """The same, where somebody did."""
    first = death(text)
    assert first is not None
    return first


_TOOLS = ("UndefinedBehavior", "Thread", "Leak", "Address", "Memory", "DataFlow")
_SIGNALS = [
    f"{tool}Sanitizer:DEADLYSIGNAL\n==42==ERROR: {tool}Sanitizer: SEGV on unknown address "
    "0x00000042b50c (pc 0x000000422ce0 bp 0x7ffcd7186fb0 sp 0x7ffcd7186db0 T42)\n"
    "==42==The signal is caused by a WRITE memory access.\n"
    "    #0 0x422cdf  (/opt/app/poold+0x422cdf)\n"
    "    #1 0x7f3e3be23b96  (/lib/x86_64-linux-gnu/libc.so.6+0x21b96)\n\n"
    f"{tool}Sanitizer can not provide additional info.\n==42==ABORTING\n"
    for tool in _TOOLS
]


@pytest.mark.parametrize("report", _SIGNALS, ids=_TOOLS)
@pytest.mark.parametrize("before", ["", "# how can I solve this?\n\nme · description\n"])
def test_a_signal_ends_the_process_whichever_sanitizer_tells_it(before: str, report: str) -> None:
    first = died(before + report)

    assert (first.name, first.pid, first.signal) == ("poold", 42, "SIGSEGV")
    assert first.cause.certainty is Certainty.PROVED
    assert "a write to address 0x00000042b50c" in first.cause.detail


def test_the_announcement_of_a_signal_is_enough() -> None:
    first = died("$ ./poold\nAddressSanitizer:DEADLYSIGNAL\nAddressSanitizer:DEADLYSIGNAL\n")

    assert (first.cause.kind, first.name) == (CauseClass.NATIVE_FAULT, "poold")
    assert death("It prints AddressSanitizer:DEADLYSIGNAL if a signal is caught.\n") is None


_OVERFLOW = "pool.cc:31:5: runtime error: signed integer overflow: 1 + 2\n"
_BEHAVIOR = f"{_OVERFLOW}SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior pool.cc:31:5 in\n"


def test_undefined_behaviour_is_the_end_where_the_program_was_built_so() -> None:
    first = died(f"{_BEHAVIOR}Aborted (core dumped)\n")

    assert (first.cause.kind, first.file) == (CauseClass.ABORT_EXCEPTION, "pool.cc")
    assert first.cause.detail.startswith("signed integer overflow")
    assert death(_BEHAVIOR) is None


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: ThreadSanitizer: data race (pid=42)\n  Write of size 8 at 0x7b0400000800 by "
        "thread T1:\n    #0 take /src/pool.cc:31:5 (poold+0x422cdf)\n\n"
        "SUMMARY: ThreadSanitizer: data race /src/pool.cc:31:5 in take\n",
        "SUMMARY: ThreadSanitizer: data race /src/pool.cc:31:5 in take\n",
        "==42==ERROR: LeakSanitizer: detected memory leaks\n\nDirect leak of 48 byte(s) in 1 "
        "object(s) allocated from:\n    #0 0x7f1 in malloc (/lib/libasan.so.5+0x10)\n",
    ],
)
def test_races_and_leaks_end_nobody(text: str) -> None:
    assert death(text) is None


def test_what_a_sanitizer_gives_up_for_is_no_damage() -> None:
    first = died(
        "==42==ERROR: AddressSanitizer failed to allocate 0x400000000 bytes of Large\n"
        '==42==AddressSanitizer CHECK failed: ../../sanitizer_common/sanitizer_common.cc:118 "((0))'
        ' != (0)" (0x0, 0x0)\n    #0 0x43b in take /src/pool.c:22\n'
    )

    assert (first.cause.kind, first.function) == (CauseClass.ABORT_EXCEPTION, "take")
    summary = "SUMMARY: MemorySanitizer: use-of-uninitialized-value /src/pool.c:31:5 in take\n"
    assert died(summary).cause.kind is CauseClass.ABORT_EXCEPTION
    damage = died("SUMMARY: AddressSanitizer: stack-buffer-overflow /src/pool.c:31:5 in take\n")
    assert damage.cause.kind is CauseClass.HEAP_CORRUPTION


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("FATAL: ThreadSanitizer: unexpected memory mapping 0x635-0x636", CauseClass.ENVIRONMENT),
        ("Scudo ERROR: corrupted chunk header at address 0x7b", CauseClass.HEAP_CORRUPTION),
        ("Scudo ERROR: internal map failure", CauseClass.ABORT_EXCEPTION),
    ],
)
def test_one_line_of_a_sanitizer_tells_an_end(line: str, kind: CauseClass) -> None:
    if "mapping" in line:
        line = line.replace("0x635-0x636", "0x6350b02fa000-0x6350b0300000")
    assert died(f"{line}\n").cause.kind is kind
    assert death(f"If you see `{line}`, lower the entropy of addresses.\n") is None


def test_a_header_alone_is_enough_and_a_sentence_about_one_is_not() -> None:
    assert died("ERROR: ThreadSanitizer: SEGV on unknown address 0x18\n").signal == "SIGSEGV"
    title = died("# AddressSanitizer: heap-use-after-free in take\n\nSee the log.\n")
    assert title.cause.kind is CauseClass.HEAP_CORRUPTION
    assert title.cause.certainty is Certainty.LIKELY
    assert died("$ ./poold\nAddressSanitizer: nested bug in the same thread, aborting.\n").name
    assert death("AddressSanitizer: heap-buffer-overflow and the like are found by it.\n") is None


def test_where_a_thread_was_created_is_not_where_it_died() -> None:
    first = died(
        "==42==ERROR: AddressSanitizer: SEGV on unknown address 0x00000000 (pc 0x00000000 sp 0x6be7"
        " bp 0x6be7 T6)\n\nAddressSanitizer can not provide additional info.\n"
        "SUMMARY: AddressSanitizer: SEGV ??:0 ??\nThread T6 (take:src) created by T5 here:\n"
        "    #0 0x76a13f43 in __interceptor_pthread_create (/usr/lib/libasan.so.1+0x1ff43)\n\n"
        "Thread T5 created by T0 here:\n"
        "    #0 0x76a13f43 in __interceptor_pthread_create (/usr/lib/libasan.so.1+0x1ff43)\n\n"
        "==42==ABORTING\n"
    )

    assert (first.pid, first.function, first.module) == (42, None, None)


def test_who_reports_a_crash_is_not_who_crashed() -> None:
    assert died(f"# UBSAN crashes on startup\n\n{_SIGNALS[0]}").name == "poold"
    assert died("# UBSAN crashes on startup\n\nAborted (core dumped)\n").name is None


def test_the_program_is_that_of_its_outermost_function() -> None:
    first = died(
        "==42==ERROR: AddressSanitizer: SEGV on unknown address 0x08 (pc 0x4ba955 bp 0x1 sp 0x2)\n"
        "    #0 0x4ba955 in take /src/pool.cc:31:17\n"
        "    #1 0x443944 in _start (/opt/app/pool-fuzz-take+0x443944)\n"
    )

    assert (first.name, first.function) == ("pool-fuzz-take", "take")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("$ clang -fsanitize=thread pool.c && ./a.out", "a.out"),
        ("$ make; ./poold", "poold"),
        ("(venv37) poold list", "poold"),
        ("$ ./poold && echo done", "poold"),
        ("$ ./test", "test"),
        ("% make\n[...]\n./_pool_bootstrap take.py pool", "_pool_bootstrap"),
        ("(venv37) is not used here", None),
    ],
)
def test_of_several_commands_the_last_was_started(command: str, name: str | None) -> None:
    assert died(f"{command}\nThreadSanitizer:DEADLYSIGNAL\n").name == name


def test_the_end_of_a_report_tells_whose_it_is() -> None:
    legend = "Shadow byte legend (one shadow byte represents 8 application bytes):\n"
    first = died(f"  0x0c3c: fa fa\n{legend}  Addressable:           00\n==42==ABORTING\n$\n")

    assert (first.pid, first.cause.kind) == (42, CauseClass.HEAP_CORRUPTION)
    assert death("==42==ABORTING\n") is None


def test_a_title_says_what_a_sanitizer_found_and_where() -> None:
    first = died("# BUG: ASAN detects heap-buffer-overflow from `pool.take`\n\nSee there.\n")

    assert (first.cause.kind, first.function) == (CauseClass.HEAP_CORRUPTION, "pool.take")
    assert first.cause.certainty is Certainty.LIKELY
    assert death("# Teach: how ASAN is built\n\nIt detects a heap-buffer-overflow.\n") is None


def test_a_frame_that_was_cut_in_its_build_id_has_a_module() -> None:
    first = died(
        "==42==WARNING: MemorySanitizer: use-of-uninitialized-value\n"
        "    #0 0x7f9ac021aee1  (/opt/lib/libpool.so.1+0x21aee1) (BuildId: 1c4c8d943"
    )

    assert (first.function, first.module) == (None, "libpool.so.1")


def test_a_program_that_was_built_to_go_on_did_not_die() -> None:
    report = (
        "==42==WARNING: MemorySanitizer: use-of-uninitialized-value\n"
        "    #0 0x55573e7a1bb9 in take /src/pool.cc:31\n"
    )
    built = 'CXXFLAGS="-fsanitize=memory -fsanitize-recover=memory" make\n'

    assert died(report).pid == 42
    assert death(f"It warns often.\n```\n{built}```\n\n```\n{report}```\n") is None


def test_signs_that_a_symbolizer_left_are_read() -> None:
    name = "_$LT$pool..Arena$u20$as$u20$pool..Take$GT$::take"

    assert unescape("std::rt::_$u7b$$u7b$closure$u7d$$u7d$") == "std::rt::{{closure}}"
    assert unescape(name) == "<pool::Arena as pool::Take>::take"
    assert unescape("pool::take") == "pool::take"
