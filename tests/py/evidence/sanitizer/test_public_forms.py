"""Logs as strangers have them: quoted, numbered, marked up, broken, doubled, run together."""

# ruff: noqa: E501 - a runtime's own lines stay whole

import html
import json
import quopri
from collections.abc import Callable
from dataclasses import replace

import pytest

from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import PrintedReport, Role

USE_AFTER_FREE = """\
=================================================================
==4711==ERROR: AddressSanitizer: heap-use-after-free on address 0x60300000a080 at pc 0x55d0c0ffee11 bp 0x7ffd00000010 sp 0x7ffd00000008
READ of size 8 at 0x60300000a080 thread T0
    #0 0x55d0c0ffee10 in q::Pool::take(std::vector<int, std::allocator<int> > const&) /srv/q/pool.cc:88:12
    #1 0x55d0c0ffee20 in main /srv/q/main.cc:12:3
    #2 0x7f0000029d8f  (/lib/x86_64-linux-gnu/libc.so.6+0x29d8f)

0x60300000a080 is located 16 bytes inside of 32-byte region [0x60300000a070,0x60300000a090)
freed by thread T0 here:
    #0 0x55d0c0aaaa10 in operator delete(void*) (/srv/q/bin/q+0x11aa)
    #1 0x55d0c0ffee30 in q::Pool::drop(int) /srv/q/pool.cc:70:5

previously allocated by thread T0 here:
    #0 0x55d0c0aaaa00 in operator new(unsigned long) (/srv/q/bin/q+0x11a0)
    #1 0x55d0c0ffee40 in q::Pool::add(int) /srv/q/pool.cc:60:5

SUMMARY: AddressSanitizer: heap-use-after-free /srv/q/pool.cc:88:12 in q::Pool::take(std::vector<int, std::allocator<int> > const&)
Shadow bytes around the buggy address:
  0x0c067fff93c0: fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa
=>0x0c067fff9410:[fd]fd fd fd fa fa fa fa fa fa fa fa fa fa fa fa
  0x0c067fff9420: fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa
Shadow byte legend (one shadow byte represents 8 application bytes):
  Addressable:           00
  Freed heap region:       fd
==4711==ABORTING
"""
RACE = """\
==================
WARNING: ThreadSanitizer: data race (pid=4712)
  Write of size 4 at 0x7b0400000010 by thread T2 (mutexes: write M1):
    #0 q::count() /srv/q/count.cc:7 (q+0x4c1)

  Previous read of size 4 at 0x7b0400000010 by main thread:
    #0 main /srv/q/main.cc:9 (q+0x4d2)

SUMMARY: ThreadSanitizer: data race /srv/q/count.cc:7 in q::count()
==================
"""
OVERFLOW = "src/q.cc:7:9: runtime error: signed integer overflow: 1 + 2147483647 cannot be represented in type 'int'\n"


def reports(text: str) -> tuple[PrintedReport, ...]:
    return parse_sanitizer_log([text.encode()]).reports


def only(text: str) -> PrintedReport:
    (report,) = reports(text)
    return report


def without_lines(report: PrintedReport) -> PrintedReport:
    return replace(report, lines=(0, 0), raw="", occurrences=1)


def each(change: Callable[[int, str], str]) -> Callable[[str], str]:
    return lambda text: "".join(f"{change(at, line)}\n" for at, line in enumerate(text.split("\n")))


def after(prefix: str) -> Callable[[str], str]:
    """A prefix before each line; `%` is the line's number, `@` seconds."""
    return each(lambda at, line: prefix.replace("%", str(at + 95)).replace("@", f"{at:02d}") + line)


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "quoted": after("> "),
    "quoted without a blank": after(">"),
    "quoted twice": after(">> "),
    "quoted and indented": after("   > "),
    "a table's cells": after(" | "),
    "indented": after("      "),
    "behind a tab": after("\t"),
    "without indentation": each(lambda at, line: line.strip()),
    "filled up to a width": each(lambda at, line: line.ljust(150)),
    "tabs for blanks": each(lambda at, line: line.replace("    ", "\t")),
    "escaped for HTML": html.escape,
    "escaped twice": lambda text: html.escape(html.escape(text)),
    "in HTML": lambda text: f"<details><pre>{html.escape(text)}</pre></details>\n",
    "lines as HTML": lambda text: (
        "<br>".join(f"<span>{html.escape(line)}</span>" for line in text.split("\n")) + "\n"
    ),
    "no-break blanks": each(lambda at, line: line.replace("    #", "\u00a0\u00a0\u00a0\u00a0#")),
    "a byte order mark": lambda text: "\ufeff" + text,
    "in an XML test report": lambda text: f"<system-err><![CDATA[{text}]]></system-err>\n",
    "numbered by cat": after("   %\t"),
    "numbered by a viewer": after("  %  "),
    "numbered with a colon": after("%: "),
    "numbered by a pager": after("  % \u2502 "),
    "numbered with an L": after("L%: "),
    "numbered by a debug viewer": after("00000%\t22:39:53\t[19892] "),
    "numbered within a step": after("[step:%] "),
    "in a table without bars before the header": lambda text: text.replace("\n", "\n | "),
    "found by grep -A": each(lambda at, line: f"log/a.txt{':' if 'ER' in line else '-'}{line}"),
    "found by grep -nA": each(
        lambda at, line: f"log/a.txt{(':%d:' if 'ER' in line else '-%d-') % at}{line}"
    ),
    "behind a time and a level": after("2026-05-01 10:11:@,123 INFO "),
    "behind a time, a name and a level": after("2026-05-01 10:11:@,123 - q - ERROR - "),
    "an Android log of today": after(
        "2026-05-01 10:11:@.123  4321-4329  org.q.app            org.q.app            I  "
    ),
    "an Android log of old": after("05-01 10:11:@.123 I/wrap.sh (4321): "),
    "Buildkite": after("\x1b_bk;t=17012345678@\x07"),
    "Azure": after("2026-05-01T10:11:@.1234567Z ##[error]"),
    "Fuchsia": after("[00123.4@][1234][5678][klog] ERROR: "),
    "a comment": after("// "),
    "Python's logging": after("ERROR:root:"),
    "the lines of a heading": lambda text: text.replace("==4711==", "## ").replace("\nREAD", "\n#### READ"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_report_is_the_same_in_every_form(form: str) -> None:
    wanted = without_lines(only(USE_AFTER_FREE))
    if form == "the lines of a heading":  # it took the process with it
        wanted = replace(wanted, pid=None)

    assert without_lines(only(FORMS[form](USE_AFTER_FREE))) == wanted
    assert len(wanted.chain) == 3


@pytest.mark.parametrize("form", FORMS)
def test_a_race_is_the_same_in_every_form(form: str) -> None:
    assert without_lines(only(FORMS[form](RACE))) == without_lines(only(RACE))


@pytest.mark.parametrize("form", [form for form in FORMS if not form.startswith("found by grep")])
def test_a_line_of_undefined_behaviour_is_the_same_in_every_form(form: str) -> None:
    report = only(FORMS[form](OVERFLOW))

    assert (report.kind, report.location) == ("signed-integer-overflow", "src/q.cc:7:9")


def test_a_log_that_holds_each_line_twice() -> None:
    for text in (USE_AFTER_FREE, RACE):
        doubled = each(lambda _, line: f"{line}\n{line}")(text)

        assert without_lines(only(doubled)) == without_lines(only(text))


def test_two_tests_of_one_run_are_no_line_numbers() -> None:
    mixed = "".join(
        f"{12 + at % 2}: {line}\n"
        for pair in zip(USE_AFTER_FREE.split("\n"), USE_AFTER_FREE.replace("4711", "4712").split("\n"), strict=True)
        for at, line in enumerate(pair)
    )  # fmt: skip

    one, two = reports(mixed)

    assert (one.pid, two.pid) == (4711, 4712)
    assert one.chain == two.chain == only(USE_AFTER_FREE).chain


def test_a_mail_in_quoted_printable() -> None:
    text = USE_AFTER_FREE.replace(
        "std::vector<int, std::allocator<int> > const&", "char const*, long, q::Size"
    )
    mail = quopri.encodestring(text.encode()).decode()

    report = only(mail)

    assert (report.kind, report.pid) == ("heap-use-after-free", 4711)
    assert [event.role for event in report.chain] == [Role.ALLOCATE, Role.FREE, Role.USE]
    assert report.chain == only(text).chain


def test_a_report_whose_newlines_were_lost() -> None:
    flat = " ".join(line.strip() for line in USE_AFTER_FREE.split("\n"))

    report = only(f"we see this: {flat}\n")

    assert report.chain == only(USE_AFTER_FREE).chain
    assert report.summary == only(USE_AFTER_FREE).summary
    assert only(json.dumps({"message": flat}) + "\n").chain == report.chain


@pytest.mark.parametrize("width", [72, 80])
def test_a_mail_that_was_broken_at_blanks(width: int) -> None:
    broken = []
    for line in USE_AFTER_FREE.split("\n"):
        rest = line
        while len(rest) > width and " " in rest[10:width]:
            cut = rest.rindex(" ", 10, width)
            broken.append(rest[:cut])
            rest = rest[cut + 1 :]
        broken.append(rest)

    report = only("\n".join(broken))

    wanted = only(USE_AFTER_FREE)
    assert report.chain == wanted.chain
    assert (report.summary, report.hints) == (wanted.summary, wanted.hints)
    assert (report.address, report.pc, report.thread) == (wanted.address, wanted.pc, wanted.thread)
    assert report.region == wanted.region


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_terminal_that_was_too_narrow(width: int) -> None:
    broken = [
        line[at : at + width]
        for line in USE_AFTER_FREE.split("\n")
        for at in range(0, len(line) or 1, width)
    ]

    report = only("\n".join(broken))

    wanted = only(USE_AFTER_FREE)
    assert report.chain == wanted.chain
    assert (report.address, report.thread) == (wanted.address, wanted.thread)
    assert report.region == wanted.region


def test_text_of_another_thread_before_a_line_of_the_report() -> None:
    mixed = (
        USE_AFTER_FREE.replace("    #1 0x55d0c0ffee20", "3 done [    #1 0x55d0c0ffee20")
        .replace("READ of", "tick READ of")
        .replace("0x60300000a080 is located", "tick0x60300000a080 is located")
        .replace("SUMMARY:", "tock SUMMARY:")
        .replace("freed by", "tick freed by")
        .replace("previously allocated", "[12/40] building previously allocated")
    )

    assert without_lines(only(mixed)) == without_lines(only(USE_AFTER_FREE))


def test_text_of_another_thread_before_the_other_access_of_a_race() -> None:
    mixed = RACE.replace("  Previous", "3 done  Previous")

    assert without_lines(only(mixed)) == without_lines(only(RACE))


def test_a_race_whose_newlines_were_lost() -> None:
    flat = " ".join(line.strip() for line in RACE.split("\n"))

    assert only(f"{flat}\n").chain == only(RACE).chain


def test_a_module_and_its_build_id_that_a_mail_broke_off() -> None:
    report = only(
        HEADER + ACCESS + "    #0 0x55d0c0ffee10 in q::Pool::take(int)\n(/srv/q/bin/q+0x1234)"
        " (BuildId:\nb3de880d5aca2c4d)\n    #1 0x55d0c0ffee20 in main /srv/q/main.cc:12:3\n"
    )

    frames = report.chain[0].frames
    assert [(frame.function, frame.module, frame.build_id) for frame in frames] == [
        ("q::Pool::take(int)", "/srv/q/bin/q", "b3de880d5aca2c4d"),
        ("main", None, None),
    ]


def test_numbers_that_a_site_has_turned_into_links() -> None:
    linked = USE_AFTER_FREE.replace("    #1 0x55d0c0ffee20", "    acme/q#1 0x55d0c0ffee20")

    assert without_lines(only(linked)) == without_lines(only(USE_AFTER_FREE))


HEADER = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x55d0c0ffee11 bp 0x7ffd00000010 sp 0x7ffd00000008\n"
STACK = "    #0 0x55d0c0ffee10 in f /s/a.cc:1:2\n    #1 0x55d0c0ffee20 in main /s/a.cc:9:2\n"
ACCESS = "READ of size 8 at 0x602000000010 thread T0\n"


def functions(report: PrintedReport, role: Role) -> list[str | None]:
    event = report.first(role)
    return [frame.function for frame in event.frames] if event is not None else []


@pytest.mark.parametrize(
    "header",
    [
        HEADER.replace("address 0x", "address\n0x"),
        HEADER.replace(": heap", ":\nheap"),
        HEADER.replace(": heap", ": \n heap"),
        HEADER.replace("bp 0x7ffd00000010 s", "bp 0x7ffd00000010 s\n"),
        HEADER.rstrip("\n") + " ",
    ],
)
def test_a_header_over_two_lines(header: str) -> None:
    report = only(header + ACCESS + STACK)

    assert (report.kind, report.pid, report.address, report.thread) == (
        "heap-use-after-free",
        7,
        "0x602000000010",
        "T0",
    )
    assert report.access is not None
    assert (report.access.type, report.access.size) == ("READ", 8)
    assert functions(report, Role.USE) == ["f", "main"]


def test_a_header_without_its_rest_is_no_report() -> None:
    assert reports("==7==ERROR: AddressSanitizer:\nmake: *** [test] Error 1\n") == ()


@pytest.mark.parametrize("end", ["\nSUMMARY: AddressSanitizer: heap-use-aft", "\nSUMMARY: AddressSani", "Aborted (core dumped)\n"])  # fmt: skip
def test_a_report_that_is_cut(end: str) -> None:
    report = only(HEADER + ACCESS + STACK + end)

    assert report.truncated
    assert functions(report, Role.USE) == ["f", "main"]


def test_a_frame_that_a_shell_cut_off_keeps_what_is_certain() -> None:
    cut = STACK.replace("in main /s/a.cc:9:2", "in maSegmentation fault (core dumped)")

    frames = only(HEADER + ACCESS + cut).chain[0].frames

    assert [(frame.pc, frame.function) for frame in frames] == [
        ("0x55d0c0ffee10", "f"),
        ("0x55d0c0ffee20", None),
    ]


def test_a_bug_while_a_bug_is_reported() -> None:
    text = (
        "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x60765b7cfcc0 (pc 0x7c6ab1dd9c7f bp 0x0 sp 0x7ffc29abd150 T0)\n"
        "==7==The signal is caused by a READ memory access.\n"
        "AddressSanitizer:DEADLYSIGNAL\n"
        "AddressSanitizer: nested bug in the same thread, aborting.\n"
    )

    report = only(text)

    assert (report.kind, report.truncated, report.chain) == ("segv", True, ())
    assert report.lines == (1, 4)


def test_words_of_the_symbolizer_between_the_access_and_its_stack() -> None:
    words = "==7==WARNING: invalid path to external symbolizer!\n==7==WARNING: Failed to use and restart external symbolizer!\n"

    assert functions(only(HEADER + ACCESS + words + STACK), Role.USE) == ["f", "main"]


def test_the_headers_of_clang_3() -> None:
    report = only(HEADER.replace("==ERROR: AddressSanitizer:", "== ERROR: AddressSanitizer") + ACCESS + STACK)  # fmt: skip
    crash = only("==7== ERROR: AddressSanitizer crashed on unknown address 0x000000000010 (pc 0x41 sp 0x7f bp 0x7f T0)\n" + STACK)  # fmt: skip

    assert (report.kind, report.pid) == ("heap-use-after-free", 7)
    assert (crash.kind, crash.address) == ("segv", "0x000000000010")


def test_a_header_without_a_process_that_says_enough_by_itself() -> None:
    report = only(
        "ERROR: AddressSanitizer: new-delete-type-mismatch on 0x60200000a1d0 in thread T0:\n"
        "  object passed to delete has wrong type:\n  size of the allocated type:   16 bytes;\n"
    )

    assert (report.kind, report.thread, report.address) == (
        "new-delete-type-mismatch",
        "T0",
        "0x60200000a1d0",
    )


def test_an_access_on_the_headers_line() -> None:
    report = only(HEADER.rstrip("\n") + " " + ACCESS + STACK)

    assert report.access is not None
    assert (report.access.type, report.access.size) == ("READ", 8)


def test_digits_that_a_ci_has_made_links_of() -> None:
    link = "[{}](https://ci.example/a/runs/5/jobs/9?pr=2#step:18:1)"
    text = HEADER.replace("==7==", f"==11{link.format(20)}==") + ACCESS
    text += STACK.replace("a.cc:9:2", f"a.cc:{link.format(13)}:2")

    report = only(text)

    assert report.pid == 1120
    assert report.chain[0].frames[1].line == 13


def test_a_race_on_what_swift_guards() -> None:
    report = only(
        "WARNING: ThreadSanitizer: Swift access race (pid=5)\n"
        "  Modifying access of Swift variable at 0x7b140011cb80 by thread T18:\n"
        "    #0 $s4q3 <null> (Q:x86_64+0x45dff)\n\n"
        "  Previous modifying access of Swift variable at 0x7b140011cb80 by main thread:\n"
        "    #0 $s4q4 <null> (Q:x86_64+0x45e00)\n\n"
        "SUMMARY: ThreadSanitizer: Swift access race (Q:x86_64+0x45dff) in $s4q3+0x222\n"
    )

    assert (report.kind, report.address, report.thread, report.truncated) == (
        "swift-access-race",
        "0x7b140011cb80",
        "T18",
        False,
    )
    assert report.access is not None
    assert report.access.type == "WRITE"
    assert functions(report, Role.PREVIOUS_ACCESS) == ["$s4q4"]


def test_two_races_at_one_address_are_two() -> None:
    one = RACE + "".join(
        f"  Thread T2 (tid=9, running) created by main thread at:\n{line}"
        for line in ["    #0 pthread_create <null> (q+0x1)\n"]
    )
    two = one.replace("count.cc:7 (q+0x4c1)", "count.cc:8 (q+0x4c9)")

    assert [report.occurrences for report in reports(one + two + one)] == [2, 1]


def test_reports_of_which_only_header_and_summary_are_left() -> None:
    text = (
        "WARNING: ThreadSanitizer: heap-use-after-free (pid=18)\n"
        "SUMMARY: ThreadSanitizer: heap-use-after-free /u/b.h:293 in q::f()\n"
        "WARNING: ThreadSanitizer: heap-use-after-free (pid=18)\n"
        "SUMMARY: ThreadSanitizer: heap-use-after-free src/a.cc:270 in q::g()\n"
    )

    assert [report.occurrences for report in reports(text)] == [1, 1]


def test_a_variable_that_hwasan_names() -> None:
    report = only(
        "==5==ERROR: HWAddressSanitizer: tag-mismatch on address 0x00551020 at pc 0x0055a0\n"
        "READ of size 4 at 0x00551020 tags: a7/c7 (ptr/mem) in thread T0\n"
        "    #0 0x55a0 in main /q/a.cc:3\n\nCause: global-overflow\n"
        "0x00551020 is located 0 bytes after a 32-byte global variable table [0x00551000,0x00551020) in /q/bin/q\n"
        "SUMMARY: HWAddressSanitizer: tag-mismatch /q/a.cc:3 in main\n"
    )

    assert report.region is not None
    assert (report.region.kind, report.region.name, report.region.size) == ("global", "table", 32)
    assert report.region.offset == 0


def test_a_pager_of_which_some_lines_were_left_out() -> None:
    numbered = FORMS["numbered by a pager"](USE_AFTER_FREE).splitlines(keepends=True)
    without = [line for line in numbered if "Pool::drop" not in line and "libc.so" not in line]

    report = only("".join(without))

    assert [len(event.frames) for event in report.chain] == [2, 1, 2]


def test_a_line_that_syslog_says_came_more_than_once() -> None:
    prefix = "May  1 10:11:12 host q[7]: "
    report = only(
        f"{prefix}==7==ERROR: AddressSanitizer: SEGV on unknown address 0x10 (pc 0x45 bp 0x7 sp 0x7 T0)\n"
        f"{prefix}message repeated 2 times: [ ==7==The signal is caused by a READ memory access.]\n"
        f"{prefix}    #0 0x45 in g /src/a.h:165:9\n"
    )

    assert report.access is not None
    assert report.access.type == "READ"


def test_the_mutex_that_the_same_thread_held() -> None:
    report = only(
        "WARNING: ThreadSanitizer: lock-order-inversion (potential deadlock) (pid=1)\n"
        "  Cycle in lock order graph: M0 (0x7b18) => M1 (0x7b20) => M0\n\n"
        "  Mutex M1 acquired here while holding mutex M0 in thread T1:\n"
        "    #0 f a.cc:3 (a+0x2)\n\n"
        "  Mutex M0 previously acquired by the same thread here:\n"
        "    #0 f a.cc:2 (a+0x2)\n\n"
        "SUMMARY: ThreadSanitizer: lock-order-inversion (potential deadlock) a.cc:3 in f\n"
    )

    held = report.first(Role.LOCK_ACQUIRE)
    assert held is not None
    assert held.thread == "T1"


def test_a_frame_that_never_ends_is_not_read_on_for_ever() -> None:
    text = HEADER + ACCESS + "    #0 0x55d0c0ffee10 in f(a<\n" + "b<c,(\n" * 5_000 + "x.cc:3\n"

    report = only(text)

    assert functions(report, Role.USE) == ["f(a<"]
    assert len(report.raw) < 5_000
