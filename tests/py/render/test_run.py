"""What a person and a script read after a run."""

import json

from vllm_forensics.model.report import Failure
from vllm_forensics.model.run import ProcessRecord, RunReport
from vllm_forensics.model.syscalls import SyscallFinding, SyscallKind
from vllm_forensics.render.run import render_endings, render_run_json
from vllm_forensics.render.terminal import TerminalStyle

PLAIN = TerminalStyle(width=100, color=False)
NOTHING = RunReport(command="true", status=0, processes=(), crashes=(), failures=(), endings=())
REPORT = RunReport(
    command="serve --token=********",
    status=137,
    processes=(ProcessRecord(pid=7, parent=1, command="serve", exit=-9),),
    crashes=(),
    failures=(Failure(path="serve", error="the disk was full", remedy="df -h"),),
    endings=("process 7 was killed.",),
    syscalls=(
        SyscallFinding(
            pid=7,
            kind=SyscallKind.UNMAPPED,
            sentence="the page was unmapped.",
            proof=("7 munmap(0x10, 1) = 0", "7 +++ killed by SIGSEGV +++"),
        ),
    ),
    given_up=("no minicore was written",),
)


def test_a_run_in_which_nothing_happened_prints_nothing() -> None:
    assert render_endings(NOTHING, PLAIN) == ""


def test_everything_that_is_known_is_printed_once() -> None:
    text = render_endings(REPORT, PLAIN)

    assert [line.rstrip() for line in text.splitlines()] == [
        "process 7 was killed.",
        "the page was unmapped.",
        "  7 munmap(0x10, 1) = 0",
        "  7 +++ killed by SIGSEGV +++",
        "the disk was full",
        "→ df -h",
        "no minicore was written",
    ]


def test_the_json_says_the_same() -> None:
    value = json.loads(render_run_json(REPORT))

    assert value["schema"] == "forensics.run/1"
    assert value["processes"] == [{"pid": 7, "parent": 1, "command": "serve", "exit": -9}]
    assert value["syscalls"][0]["kind"] == "page-unmapped"
    assert value["given_up"] == ["no minicore was written"]
    assert value["failures"] == [{"path": "serve", "error": "the disk was full", "remedy": "df -h"}]
