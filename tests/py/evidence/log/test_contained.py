"""Whose output a text shows, as the command that asked for it says."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.contained import contained_above
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Death


def death(text: str) -> Death:
    return explain_incidents(parse_incident_log([text.encode()]), "log")[0].first_death


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("$ docker logs -f --tail 100 poold", "poold"),
        (
            "docker run --rm -it -p 80:80 -v /a:/b -e X=Y --gpus all pool/serve:latest --all",
            "serve",
        ),
        ("docker run -d --name pool-db pool/serve:2.1", "pool-db"),
        ("docker run --rm python:3.9 python /opt/take.py", "python"),
        ("+ docker-compose exec web poolctl restart all", "poolctl"),
        ("kubectl -n x logs pool-serve-599bf5594b-kpsmq -p", "pool-serve"),
        ("kubectl describe pod/poold-599bf5594b-kpsmq", "poold"),
        ("kubectl exec -it web-0 -- ./poold -x", "poold"),
        ("systemctl status poold.service", "poold"),
        ("# journalctl -xeu poold", "poold"),
        ("sudo service poold status", "poold"),
        ("I see it with `docker start poold` only.", "poold"),
        ("docker run -it ubuntu:18.04 bash", None),
        ("docker exec -it pool-db bash", None),
        ("docker logs 7b606d820b89", None),
        ("kubectl describe pod xxx", None),
        ("kubectl get pods", None),
        ("I run a docker in the cloud, and it leaves with status code 139.", None),
    ],
)
def test_a_command_names_whose_output_it_shows(command: str, name: str | None) -> None:
    assert contained_above([command], 1) == name


def test_a_container_that_is_asked_for_is_likely_who_died() -> None:
    first = death("$ docker logs poold\nreading\nSegmentation fault (core dumped)\n")

    assert (first.name, first.name_certainty) == ("poold", Certainty.LIKELY)


def test_a_described_container_is_called_as_what_it_runs() -> None:
    first = death(
        "[\n    {\n"
        '        "Path": "/opt/pool/bin/poold",\n'
        '        "Args": [],\n'
        '        "State": {\n            "OOMKilled": false,\n            "ExitCode": 139,\n'
    )

    assert first.name == "poold"


def test_python_that_is_verbose_shows_itself() -> None:
    first = death(
        "import 'pool' # <_frozen_importlib_external.SourceFileLoader object at 0x7f5ba0d401f0>\n"
        "Segmentation fault (core dumped)\n"
    )

    assert first.name == "python"


def test_a_failed_command_is_whose_death_its_shell_told() -> None:
    first = death(
        "Segmentation fault (core dumped)\nTraceback (most recent call last):\n"
        '  File "/opt/take.py", line 5, in take\n    check_call(command, shell=True)\n'
        "CalledProcessError: Command '/opt/pool/poolsort -o /tmp/a|poolsort - b' returned 1\n"
    )

    assert first.name == "poolsort"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("+ take_fuzzer -runs=100 /testcase", "take_fuzzer"),
        ("/out/take_fuzzer -rss_limit_mb=2560 -runs=100 /testcase < /dev/null", "take_fuzzer"),
        ("/opt/pool/take: cannot find -lpool", None),
    ],
)
def test_a_trace_of_the_shell_tells_what_was_run(line: str, name: str | None) -> None:
    first = death(f"{line}\nreading\nSegmentation fault (core dumped)\n")

    assert first.name == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("make: *** [runtest] Aborted (core dumped)", "runtest"),
        ("make[2]: *** [Makefile:12: pool/take_test] Error 139", "take_test"),
        ("make: *** [all] Error 139", None),
        ("make: *** [Makefile:12: pool/take.o] Error 139", None),
        (
            '../test-driver: line 107: 31153 Aborted  (core dumped) "$@"\nFAIL: take_test',
            "take_test",
        ),
    ],
)
def test_who_runs_tests_names_what_it_ran(line: str, name: str | None) -> None:
    assert death(f"{line}\n").name == name
