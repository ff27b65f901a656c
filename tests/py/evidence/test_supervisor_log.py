"""The supervisor's lines: whole, cut, foreign, and in any other state."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.model.run import FaultRecord, ProcessRecord

# Written by the supervisor for a Python program whose forked child crashed under faulthandler.
REAL = """\
{"event": "start", "pid": 1806, "parent": 1805, "command": "python3", "arguments": 0, "time": 1.8}
{"event": "exec", "pid": 1806, "command": "/usr/bin/python3", "arguments": 1, "time": 1.9}
{"event": "start", "pid": 1847, "parent": 1806, "command": "/usr/bin/python3", "time": 1.9}
{"event": "fault", "pid": 1847, "tid": 1848, "signo": 11, "code": 1, "address": "0x48", \
"handled": true, "time": 2.0}
{"event": "core", "pid": 1847, "path": "/run/core.python3.1847", "bytes": 9695232, "time": 2.0}
{"event": "exit", "pid": 1847, "status": null, "signal": 11, "time": 2.0}
{"event": "exit", "pid": 1806, "status": 3, "signal": null, "time": 2.1}
"""


def line(event: str, **fields: object) -> str:
    return json.dumps({"event": event, **fields}) + "\n"


def test_a_whole_log_is_read() -> None:
    run = parse_supervisor_log(REAL)

    assert run.processes == (
        ProcessRecord(pid=1806, parent=1805, command="/usr/bin/python3", exit=3),
        ProcessRecord(pid=1847, parent=1806, command="/usr/bin/python3", exit=-11),
    )
    assert run.faults == (
        FaultRecord(pid=1847, tid=1848, signal=11, code=1, address=0x48, handled=True),
    )
    assert run.cores == ("/run/core.python3.1847",)
    assert run.errors == ()


@pytest.mark.parametrize("cut", range(1, len(REAL), 37))
def test_a_log_that_is_cut_off_keeps_its_whole_lines(cut: int) -> None:
    kept = REAL[:cut]

    run = parse_supervisor_log(kept)

    assert len(run.cores) == kept.count('"event": "core"') - (
        not kept.endswith("\n")
        and '"event": "core"' in kept.rsplit("\n", 1)[-1]
        and not kept.endswith("}")
    )
    assert len(run.processes) <= 2


@pytest.mark.parametrize(
    "foreign",
    [
        "",
        "Segmentation fault",
        "null",
        "[1, 2]",
        '"event"',
        '{"no": "event"}',
        '{"event": 7}',
        "[" * 100_000,
        '{"event": "later", "pid": 1806}',
    ],
)
def test_foreign_lines_are_passed_over(foreign: str) -> None:
    assert parse_supervisor_log(f"{foreign}\n{REAL}{foreign}\n") == parse_supervisor_log(REAL)


def test_an_exec_replaces_the_command_and_keeps_the_parent() -> None:
    log = line("start", pid=5, parent=4, command="sh") + line("exec", pid=5, command="/bin/ls")

    [process] = parse_supervisor_log(log).processes

    assert process == ProcessRecord(pid=5, parent=4, command="/bin/ls", exit=None)


def test_an_exit_without_a_start_is_still_an_exit() -> None:
    [process] = parse_supervisor_log(line("exit", pid=5, status=7, signal=None)).processes

    assert process == ProcessRecord(pid=5, parent=None, command=None, exit=7)


def test_the_growth_of_the_kill_count_is_kept() -> None:
    log = line("exit", pid=5, signal=9, oom_kills_before=3, oom_kills_after=5)

    assert parse_supervisor_log(log).oom_kills == 2
    assert parse_supervisor_log(line("exit", pid=5, signal=9)).oom_kills is None


def test_a_core_that_is_told_twice_is_one_core() -> None:
    assert parse_supervisor_log(line("core", path="/c") * 2).cores == ("/c",)


def test_errors_are_kept_in_order() -> None:
    log = line("error", message="no ptrace") + line("error", message="disk full")

    assert parse_supervisor_log(log).errors == ("no ptrace", "disk full")


@pytest.mark.parametrize("address", [None, 7, "", "0xzz", "-", "0x" + "f" * 16])
def test_an_odd_address_is_read_or_unknown(address: object) -> None:
    [fault] = parse_supervisor_log(line("fault", pid=1, address=address)).faults

    assert fault.address == (0xFFFF_FFFF_FFFF_FFFF if address == "0x" + "f" * 16 else None)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
EVENTS = st.dictionaries(
    st.sampled_from(
        ["event", "pid", "parent", "command", "status", "signal", "path", "message", "address",
         "code", "signo", "tid", "handled", "oom_kills_after", "oom_kills_before"]
    ),
    SCALARS | st.lists(SCALARS, max_size=2)
    | st.sampled_from(["start", "exec", "exit", "fault", "core", "error"]),
)  # fmt: skip


@given(st.lists(EVENTS.map(json.dumps) | st.text(max_size=40)))
def test_no_input_raises(lines: list[str]) -> None:
    run = parse_supervisor_log("\n".join(lines))

    assert run.oom_kills is None or run.oom_kills >= 0
