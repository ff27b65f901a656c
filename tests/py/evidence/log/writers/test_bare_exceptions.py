"""Of many a traceback people paste the last line alone."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ProcessRole

_LAST = "ValueError: the pool needs more blocks than there are"


@pytest.mark.parametrize(
    "lines",
    [
        (_LAST,),
        ("After the upgrade it fails with", "", "```", _LAST, "```", "", "Any idea?"),
        ("# The pool does not start", "", f"> {_LAST}", "", "We run it with two devices."),
        ("> E       " + _LAST,),
    ],
)
def test_an_exception_alone_is_likely_the_end(lines: tuple[str, ...]) -> None:
    death = incident_of(*lines).first_death

    assert (death.cause.kind, death.cause.detail) == (CauseClass.PYTHON_EXCEPTION, _LAST)
    assert death.cause.certainty is Certainty.LIKELY


def test_the_prefix_names_who_raised_it() -> None:
    death = incident_of(
        "(EngineCore_DP0 pid=42) ERROR 11-08 11:01:29 [core.py:708]     self.check()",
        f"(EngineCore_DP0 pid=42) ERROR 11-08 11:01:29 [core.py:708] {_LAST}",
    ).first_death

    assert (death.pid, death.role) == (42, ProcessRole.ENGINE_CORE)


def test_it_says_more_than_a_wait_that_people_tell_of() -> None:
    death = incident_of("# Engine dies at start (the pod hangs for an hour)", "", _LAST).first_death

    assert death.cause.kind is CauseClass.PYTHON_EXCEPTION


@pytest.mark.parametrize(
    "lines",
    [
        (f"We should raise {_LAST}",),
        ("The pool raises ValueError: x",),
        ("# fix: do not raise", "", f"    raise {_LAST}"),
        ("# docs: the errors of the pool", "", _LAST),
    ],
)
def test_an_exception_in_a_sentence_or_a_change_is_none(lines: tuple[str, ...]) -> None:
    assert incidents_of(*lines) == ()


def test_a_groups_member_that_was_never_raised_has_no_traceback() -> None:
    (incident,) = incidents_of(
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/opt/app.py", line 9, in main',
        '  |     raise ExceptionGroup("hello", [ValueError("bad")])',
        "  | ExceptionGroup: hello (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | ValueError: bad",
        "    +------------------------------------",
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert incident.first_death.cause.detail == "ValueError: bad"
