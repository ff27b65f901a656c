"""Who died, as a sentence tells it that has no crash's name."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.people.failing_names import (
    failing_named,
    host_named,
    program_named,
    service_named,
)
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty

CUT = (
    "\nTraceback (most recent call last):\n"
    '  File "/opt/pool/serve.py", line 47, in run\n    take(pool)\n'
)


def named(line: str) -> str | None:
    return next(filter(None, failing_named(line)), None)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Scheduler was dead when the database went away.", "Scheduler"),
        ("[Bug] Scheduler hit an exception", "Scheduler"),
        ("poold panic with fatal error: concurrent map writes", "poold"),
        ("A pool worker process was terminated by another process", "worker"),
        ("Poolview statefulset pods kept restarting", "Poolview statefulset"),
        ("llama runner process terminated: CUDA error", "llama runner"),
        ("The connection was terminated by the peer", None),
        ("I went down the list and it was gone", None),
    ],
)
def test_the_subject_of_a_verb_of_failing_is_who_died(line: str, name: str | None) -> None:
    assert named(line) == name


def test_a_title_names_whose_traceback_was_cut_off() -> None:
    log = parse_incident_log([f"# Scheduler was dead when the pool failed over\n{CUT}".encode()])

    first = explain_incidents(log, "log")[0].first_death

    assert (first.name, first.name_certainty) == ("Scheduler", Certainty.LIKELY)


def test_such_a_sentence_alone_tells_of_no_death() -> None:
    log = parse_incident_log([b"# Scheduler was dead when the pool failed over\n\nNow it works.\n"])

    assert not explain_incidents(log, "log")


def test_the_program_in_which_it_happened_is_named_by_its_source() -> None:
    assert program_named("I made a segfault in a regular C program ```take.c```:") == "take"
    assert program_named("I made a segfault in a function `take`") is None


def test_what_somebody_runs_in_a_container_is_named() -> None:
    assert service_named("Hi, I am running a meteor docker in the cloud.") == "meteor"
    assert service_named("I am running a new container in the cloud.") is None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Python 3 extension segmentation fault", "python"),
        ("Segfault in ruby bindings when the pool is empty", "ruby"),
        ("Segfault in python", None),
        ("A pythonic module crashes", None),
    ],
)
def test_what_runs_an_extension_died(line: str, name: str | None) -> None:
    assert host_named(line) == name


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("crash pool manager", "pool manager"),
        ('about once a day crash "pool-manager"', "pool-manager"),
        ("PHP 7.0 FastCGI Process Manager is crashing?", "PHP 7.0 FastCGI Process Manager"),
        ("Pool Viewer keeps crashing with an empty file", "Pool Viewer"),
        ("crash report manager", None),
        ("crash in the pool manager", None),
    ],
)
def test_a_title_names_who_crashed(title: str, name: str | None) -> None:
    clues = parse_incident_log([f"# {title}\n\nIt is so since today.\n".encode()]).clues

    assert next((clue.name for clue in clues), None) == name


def test_a_title_names_whose_last_words_it_quotes() -> None:
    log = parse_incident_log(
        [
            b'# MariaDB fails with "/opt/libos.sh: line 193: 60 Aborted" after a restart\n\n'
            b'`/opt/libos.sh: line 193:    60 Aborted                 (core dumped) "$@"`\n'
        ]
    )

    assert explain_incidents(log, "log")[0].first_death.name == "MariaDB"


def test_nodes_report_of_a_full_heap_is_its_end() -> None:
    log = parse_incident_log(
        [b'{\n  "header": {\n    "event": "Allocation failed - JavaScript heap out of memory",\n']
    )
    first = explain_incidents(log, "log")[0].first_death

    assert (first.name, first.signal) == ("node", "SIGABRT")
    assert first.name_certainty is Certainty.LIKELY


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "# Segmentation fault when running TFLite's take_model\n\nOf take_model 2.\n",
            "take_model",
        ),
        ("# I get a segfault when running TFPool take\n\nIt is TFPool 2.1.\n", None),
        ("# libpool.so crash on Android\n\nIt was built today.\n", None),
        (
            "# take_exporter keeps restarting with much traffic\n\nIt just happens.\n",
            "take_exporter",
        ),
    ],
)
def test_what_is_run_is_a_program_and_no_library(text: str, name: str | None) -> None:
    first = explain_incidents(parse_incident_log([text.encode()]), "log")[0].first_death

    assert first.name == name


@pytest.mark.parametrize(
    ("title", "name"),
    [
        (
            "big rank 0 broker crashes with malloc(): unaligned fastbin chunk detected",
            "rank 0 broker",
        ),
        ("poolproxy dumping core in the tests", "poolproxy"),
    ],
)
def test_a_rank_has_the_name_of_what_it_runs(title: str, name: str) -> None:
    clues = parse_incident_log([f"# {title}\n\nIt is so since today.\n".encode()]).clues

    assert next((clue.name for clue in clues), None) == name
