"""The kernel's line about a fault is read where it was broken, cut, or dated in any language."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log

AT = "python3[4242]: segfault at 48 ip 00007f1be0001234"
REST = "sp 00007ffd3c000000 error 4 in libexample.so[7f1be0000000+21000]"


def death(log: str) -> tuple[object, ...]:
    incident = explain_incident(parse_incident_log([log.encode()]), "log")
    assert incident is not None
    first = incident.first_death
    return first.pid, first.name, first.signal, first.module


@pytest.mark.parametrize(
    "log",
    [
        f"Jan 15 08:12:45 node1 kernel: [12345.678901] {AT}\n{REST}\n",
        f"[12345.678901] {AT} sp 00007ffd3c000000 error 4\nin libexample.so[7f1be0000000+21000]\n",
        f"> [1.5] {AT} sp\n> 00007ffd3c000000 error 4 in\n> libexample.so[7f1be0000000+21000]\n",
        f"[12345.678901] {AT} sp 00007ff\nd3c000000 error 4 in libexample.so[7f1be0000000+21000]\n",
        f"янв 15 08:12:45 node1 kernel: {AT} {REST}\n",
        f"15 janv. 08:12:45 node1 kernel: {AT} {REST}\n",
        f"1月 15 08:12:45 node1 kernel: {AT} {REST}\n",
        f"Do 2026-01-15 08:12:45 CET node1 kernel: {AT} {REST}\n",
    ],
)
def test_a_record_that_was_broken_or_dated_abroad_tells_its_library(log: str) -> None:
    assert death(log) == (4242, "python3", "SIGSEGV", "libexample.so")


@pytest.mark.parametrize(
    "cut", ["", " ip", " ip 00007f1be0001234", " ip 00007f1be0001234 sp 00007f"]
)
def test_a_record_that_was_cut_tells_the_process(cut: str) -> None:
    assert death(f"[12345.678901] python3[4242]: segfault at 48{cut}") == (
        4242,
        "python3",
        "SIGSEGV",
        None,
    )


def test_what_stands_below_a_whole_record_is_none_of_it() -> None:
    log = f"[1.5] {AT} sp 00007ffd3c000000 error 4\n\nin libother.so[7f1be0000000+21000]\n"

    assert death(log)[3] is None


def test_the_function_comes_from_the_cores_record_of_the_same_library() -> None:
    log = (
        f"node1 kernel: {AT} {REST}\n"
        "node1 systemd-coredump[43]: Process 4242 (python3) of user 1000 dumped core.\n\n"
        "    Stack trace of thread 4242:\n"
        "    #0  0x00007f1be0001234 take (libexample.so + 0x1234)\n"
        "    #1  0x00007f1be0001334 main (serve + 0x1334)\n"
    )

    incident = explain_incident(parse_incident_log([log.encode()]), "log")

    assert incident is not None
    assert incident.first_death.function == "take"


def test_the_brackets_that_markdown_took_are_not_missed() -> None:
    log = f"node1 kernel: 12345.678901 serve4242: segfault at 48 ip 00007f1be0001234 {REST}\n"

    assert death(log) == (4242, "serve", "SIGSEGV", "libexample.so")
