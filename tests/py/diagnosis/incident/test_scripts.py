"""Which script a traceback is of, and where in Python it ended."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.diagnosis.incident.scripts import script_of
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Incident, ProcessRole, PythonCall
from vllm_forensics.render.incident import headline

_SITE = "/v/lib/python3.12/site-packages"


def _outer(*frames: tuple[str, str]) -> list[PythonCall]:
    """Calls as a traceback lists them, outermost first; what is returned begins with the last."""
    return [PythonCall(function=one, file=file, line=7) for file, one in reversed(frames)]


def _first(text: str) -> Incident:
    return explain_incidents(parse_incident_log([text.encode()]), "a.log")[0]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/home/me/train.py", "train.py"),
        ("train", "train"),
        (r"C:\jobs\train.py", "train.py"),
        ("/v/bin/vllm", "vllm"),
        (r"C:\v\Scripts\serve.exe\__main__.py", "serve.exe"),
        ("/opt/tool.zip/__main__.py", "tool"),
        (f"{_SITE}/tool/bin/run.py", "run.py"),
        (f"{_SITE}/tool/__init__.py", None),
        ("/usr/lib/python3.11/threading.py", None),
        ("<stdin>", None),
        ("<ipython-input-3-0a>", None),
        ("<frozen importlib._bootstrap>", None),
    ],
)
def test_the_outermost_module_is_the_script(file: str, name: str | None) -> None:
    assert script_of(_outer((file, "<module>"), (f"{_SITE}/a/b.py", "run"))) == name


def test_what_is_no_modules_code_is_no_script() -> None:
    assert script_of(_outer(("/home/me/train.py", "main"))) is None
    assert script_of([]) is None


def test_a_module_that_was_run_stands_below_its_runner() -> None:
    frames = [
        ("<frozen runpy>", "_run_module_as_main"),
        ("<frozen runpy>", "_run_code"),
        (f"{_SITE}/vllm/entrypoints/openai/api_server.py", "<module>"),
        (f"{_SITE}/a.py", "run"),
    ]
    assert script_of(_outer(*frames)) == "api_server.py"
    assert script_of(_outer(frames[-1], *frames)) is None  # who called the runner is not known


def test_what_runs_other_code_is_known_by_its_frames() -> None:
    runner = (f"{_SITE}/_pytest/runner.py", "runtestprotocol")
    assert script_of(_outer(runner, ("/home/me/test_a.py", "test_a"))) == "pytest"
    assert script_of(_outer(("/v/bin/check", "<module>"), runner)) == "check"
    assert script_of(_outer(("/home/me/my_pytest/runner.py", "go"))) is None


def test_a_traceback_names_its_program_and_the_line() -> None:
    incident = _first(
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 9, in <module>\n    main()\n'
        f'  File "{_SITE}/kit/loop.py", line 40, in main\n    step()\n'
        "ValueError: shapes differ\n"
    )
    death = incident.first_death
    assert (death.name, death.name_certainty) == ("train.py", Certainty.PROVED)
    assert (death.python_function, death.file, death.line) == ("main", f"{_SITE}/kit/loop.py", 40)
    assert "Where: in Python's main (kit/loop.py:40)." in incident.explanation


def test_a_modules_own_code_is_named_by_its_file() -> None:
    incident = _first(
        "Traceback (most recent call last):\n"
        '  File "/v/bin/serve", line 5, in <module>\n    from kit import main\n'
        f'  File "{_SITE}/kit/__init__.py", line 3, in <module>\n    from .core import go\n'
        "ImportError: cannot import name 'go' from 'kit.core'\n"
    )
    assert "Where: in Python's kit/__init__.py:3." in incident.explanation
    assert headline(incident.first_death).startswith("━━ serve died first · ")
    assert " · kit/__init__.py:3 · " in headline(incident.first_death)


def test_a_forked_child_is_not_called_by_its_parents_script() -> None:
    incident = _first(
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 9, in <module>\n    main()\n'
        '  File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap\n'
        "    self.run()\n"
        '  File "/home/me/train.py", line 4, in work\n    raise ValueError("no")\n'
        "ValueError: no\n"
    )
    assert incident.first_death.role is ProcessRole.WORKER
    assert incident.first_death.name is None
