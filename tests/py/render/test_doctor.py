"""The doctor's answer, in words and in JSON."""

import json

from vllm_forensics.model.machine import CaptureProof, Check, Checkup, Verdict
from vllm_forensics.render.doctor import render_checkup, render_checkup_json
from vllm_forensics.render.terminal import TerminalStyle

CHECKUP = Checkup(
    checks=(
        Check(name="core pattern", verdict=Verdict.GOOD, found="core.%p"),
        Check(
            name="core limit",
            verdict=Verdict.BAD,
            found="0: no core is written",
            remedy="ulimit -c unlimited",
        ),
    ),
    proof=CaptureProof(captured=False, how="a child left no core"),
    supervised=CaptureProof(
        captured=True, how="a child left one", core="core.7", core_bytes=1500000
    ),
)


def test_each_check_has_its_mark_and_its_remedy() -> None:
    text = render_checkup(CHECKUP, TerminalStyle(width=100, color=False))

    assert [line.rstrip() for line in text.splitlines()] == [
        "✔ core pattern core.%p",
        "✖ core limit   0: no core is written",
        "               → ulimit -c unlimited",
        "",
        "No core here: a child left no core",
        "forensics run works here: a child left one (core.7, 1.5 MB)",
    ]


def test_the_json_says_the_same() -> None:
    value = json.loads(render_checkup_json(CHECKUP))

    assert value["ready"] is False
    assert value["checks"][1]["remedy"] == "ulimit -c unlimited"
    assert value["proof"]["core"] is None
    assert value["supervised"]["core_bytes"] == 1500000
