"""Shells' words for a death name the process and the program that was typed."""

from __future__ import annotations

import pytest

from vllm_forensics.evidence.log.scan import parse_incident_log


@pytest.mark.parametrize(
    ("line", "signal", "pid", "name"),
    [
        (
            "run.sh: line 4: 4242 Segmentation fault      (core dumped) LEVEL=1 /usr/bin/serve -v",
            "SIGSEGV",
            4242,
            "serve",
        ),
        ("run.sh: line 4: 4242 Aborted                 ./serve", "SIGABRT", 4242, "serve"),
        ("zsh: bus error (core dumped)  ./bin/serve --port 80", "SIGBUS", None, "serve"),
        ('It ends with "[1]    4242 segmentation fault  serve"', "SIGSEGV", 4242, "serve"),
        ("fish: Job 1, 'serve -v' terminated by signal SIGILL (Illegal instruction)",
         "SIGILL", None, "serve"),
        ("ksh: 4242: Memory fault(coredump)", "SIGSEGV", 4242, None),
        ("Segmentation fault (core dumped) when I run it", "SIGSEGV", None, None),
        ("jobs: line 57:  4242 Killed: 9               python take.py", "SIGKILL", 4242, "python"),
        ("[1]    4242 abort (core dumped)  env LEVEL=1,2 ~/bin/take -v", "SIGABRT", 4242, "take"),
        ("100%|###| 3/3 [00:10<00:00,  1.00s/it]Killed", "SIGKILL", None, None),
        (
            " 8% 3/40 [00:09<01:03, 160.71it/s]/bin/bash: line 1:  4242 Killed       ./take 1",
            "SIGKILL",
            4242,
            "take",
        ),
    ],
)  # fmt: skip
def test_a_shell_names_what_was_typed(
    line: str, signal: str, pid: int | None, name: str | None
) -> None:
    (clue,) = parse_incident_log([f"{line}\n".encode()]).clues

    assert (clue.signal, clue.pid, clue.name) == (signal, pid, name)
