"""Prefixes that no table knows are learned from a dump's first line."""

import re

import pytest
from tests.py.support.incidents import incidents_of

from vllm_forensics.evidence.log.own_prefix import OwnPrefixes
from vllm_forensics.evidence.log.scan import parse_incident_log

RAISED = (
    "(EngineCore pid=30) INFO 01-15 08:12:40 [core.py:71] started",
    "(Worker_TP1 pid=32) INFO 01-15 08:12:41 [worker.py:59] ready",
    "Process {name}:",
    "Traceback (most recent call last):",
    '  File "/opt/app/pool.py", line 22, in take',
    "    raise ValueError(name)",
    "ValueError: block 7 isn't free",
    "(EngineCore pid=30) ERROR 01-15 08:12:45 [core.py:88] EngineCore encountered a fatal error.",
    "",
    "Traceback (most recent call last):",
    '  File "/opt/app/core.py", line 84, in engine',
    "    replies.append(pipe.recv())",
    "EOFError",
)
FAULT = (
    "ready",
    "Fatal Python error: Segmentation fault",
    "",
    "Current thread 0x00007f1be0000740 (most recent call first):",
    '  File "/opt/app/pool.py", line 22 in take',
    '  File "/opt/app/pool.py", line 40 in run',
    "",
    "serving goes on elsewhere",
)
PREFIXES = {
    "a pager's": "{n:6d}\t",
    "grep -n": "{n}:",
    "grep -H": "serve.log:",
    "grep -Hn": "logs/serve.log:{n}:",
    "two words": "serve-7d-abc server ",
    "labels": '2026-01-15T08:12:{n:02}Z {{app="serve"}} ',
    "a stream": "2026-01-15T08:12:{n:02}.000000Z serve/server/0a1b2c ",
    "a dyno": "2026-01-15T08:12:{n:02}.123456+00:00 app[web.1]: ",
    "a tab": "\t",
    "colours": "\x1b[36mserve@7 \x1b[0m ",
}


def dressed(prefix: str, *lines: str) -> list[str]:
    return [prefix.format(n=number) + line for number, line in enumerate(lines, 8)]


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("name", ["VllmWorker-1", "copier-3"])
def test_a_traceback_is_read_behind_any_prefix(prefix: str, name: str) -> None:
    lines = [line.replace("{name}", name) for line in RAISED]

    (incident,) = incidents_of(*dressed(prefix, *lines))
    death = incident.first_death

    assert (death.name, death.python_function) == (name, "take")
    assert death.cause.detail == "ValueError: block 7 isn't free"
    assert [echo.line for echo in incident.echoes] == [8, 13]


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_dump_is_read_behind_any_prefix(prefix: str) -> None:
    (clue,) = parse_incident_log([f"{line}\n".encode() for line in dressed(prefix, *FAULT)]).clues

    assert clue.signal == "SIGSEGV"
    assert [call.function for call in clue.python] == ["take", "run"]
    assert clue.time is None or clue.time.startswith("2026-01-15T08:12:")


def test_a_prefixs_time_is_that_of_the_line() -> None:
    lines = dressed(PREFIXES["labels"], *RAISED)

    (incident,) = incidents_of(*lines)

    assert incident.first_death.time == "2026-01-15T08:12:14Z"


def test_lines_that_python_shows_as_bytes_are_read() -> None:
    lines = [repr(f"{line}\n".encode()) for line in RAISED]

    (incident,) = incidents_of(*lines)

    assert incident.first_death.python_function == "take"
    assert incident.first_death.cause.detail == "ValueError: block 7 isn't free"


def test_what_stands_before_one_line_only_is_no_prefix() -> None:
    (incident,) = incidents_of(
        "serve failed: Traceback (most recent call last):",
        '  File "/opt/app/pool.py", line 22, in take',
        "ValueError: serve failed: no",
        "serve failed: Traceback (most recent call last):",
    )

    assert incident.first_death.cause.detail == "ValueError: serve failed: no"


def test_words_differ_from_pod_to_pod_and_numbers_from_line_to_line() -> None:
    prefixes = OwnPrefixes()
    for raw in (b"pod-1 12 Traceback (most recent call last):", b"pod-1 13   File"):
        prefixes.taken_off(raw)
        prefixes.learn(raw, raw.decode())

    assert prefixes.taken_off(b"pod-1 14 KeyError") == b"KeyError"
    assert prefixes.taken_off(b"pod-2 15 KeyError") == b"pod-2 15 KeyError"


@pytest.mark.parametrize("size", [10, 200, 5_000])
def test_a_long_beginning_costs_no_more_than_its_length(size: int) -> None:
    before = "a1: " * size
    prefixes = OwnPrefixes()
    text = f"{before}Traceback (most recent call last):"

    begun = prefixes.learn(text.encode(), text)

    assert (begun is not None) == (len(before) <= 200)
    again = prefixes.taken_off(f"{before}x".encode())
    assert len(again) == (1 if len(before) <= 200 else len(before) + 1)


def test_a_prefix_is_taken_as_it_stands_and_not_as_a_pattern() -> None:
    prefixes = OwnPrefixes()
    before = "a.b(c[d]*e+?{9}|^$ "
    first = f"{before}Traceback (most recent call last):"
    prefixes.taken_off(first.encode())
    prefixes.learn(first.encode(), first)

    assert prefixes.taken_off(f"{before}  File".encode()) == b"  File"
    assert prefixes.taken_off(re.sub(r"\.", "x", before).encode() + b"y").endswith(b" y")
