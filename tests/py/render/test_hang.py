"""What a look at a living tree prints."""

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]

from vllm_forensics.model.answer import Tier
from vllm_forensics.model.hang import (
    HangFinding,
    HangKind,
    HangReport,
    LiveProcess,
    LiveThread,
    Node,
    Wait,
)
from vllm_forensics.model.stack import Frame, FrameKind, Stack
from vllm_forensics.render.clean import clean
from vllm_forensics.render.hang import render_hang, render_hang_json, schema
from vllm_forensics.render.terminal import TerminalStyle

ROOT = Path(__file__).resolve().parents[3]
SECRET = "hunter2hunter2"  # noqa: S105 - planted


def a_thread(tid: int, name: str, cpu: float = 0.0) -> LiveThread:
    return LiveThread(tid=tid, name=name, state="S", cpu_share=cpu, system_call=None)


def a_report() -> HangReport:
    edge = Wait(
        waiter=Node(pid=10, tid=11),
        holder=Node(pid=20),
        resource="data in a pipe",
        proof="thread 11 is in read(3) on pipe 7, whose other end process 20 has open",
    )
    return HangReport(
        processes=(
            LiveProcess(
                pid=10,
                parent=1,
                command="/usr/bin/python3",
                threads=(a_thread(10, "main", 0.987), a_thread(11, "io")),
            ),
            LiveProcess(
                pid=20, parent=1, command="worker", threads=(a_thread(20, "w"),), in_tree=False
            ),
        ),
        findings=(
            HangFinding(
                kind=HangKind.WAITING_ON_PEER,
                summary="Thread 11 (io) waits for data in a pipe from process 20 (worker).",
                proof=(edge.proof,),
                waits=(edge,),
            ),
        ),
        waits=(edge,),
        stacks=(
            (
                10,
                Stack(
                    tid=10,
                    frames=(
                        Frame(index=0, pc=1, function="spin", tier=Tier.GDB),
                        Frame(
                            index=1,
                            pc=2,
                            function=None,
                            tier=Tier.GDB,
                            module="/usr/lib/libx.so",
                            module_offset=0x1F0,
                        ),
                        Frame(
                            index=2,
                            pc=0,
                            function="Engine.step",
                            tier=Tier.NOTES,
                            kind=FrameKind.PYTHON,
                            file="/srv/engine.py",
                            line=7,
                        ),
                    ),
                ),
            ),
        ),
        snapshots=("/srv/core.python3.10.1",),
        gaps=(f"process 20: token={SECRET}\x1b[2J",),
    )


EXPECTED = """\
━━ waiting-on-peer ━━
Thread 11 (io) waits for data in a pipe from process 20 (worker).
  thread 11 is in read(3) on pipe 7, whose other end process 20 has open

process 10  /usr/bin/python3  child of 1
  10 main 99% spin ← libx.so+0x1f0 ← Engine.step (engine.py:7)
  11 io    0% state S

process 20  worker  child of 1, outside of the tree
  20 w 0% state S

not seen: process 20: token=********

Next    forensics core --gdb /srv/core.python3.10.1
"""


def test_the_verdict_comes_first_then_each_thread() -> None:
    assert render_hang(clean(a_report()), TerminalStyle(width=100)) == EXPECTED


def test_the_json_follows_its_published_schema() -> None:
    published = json.loads((ROOT / "docs/schemas/forensics.hang.1.json").read_text())

    value = json.loads(render_hang_json(clean(a_report())))

    jsonschema.validate(value, published)
    assert value["schema"] == "forensics.hang/1"
    assert value["waits"] == [
        {
            "waiter": {"pid": 10, "tid": 11},
            "holder": {"pid": 20, "tid": None},
            "resource": "data in a pipe",
            "proof": "thread 11 is in read(3) on pipe 7, whose other end process 20 has open",
        }
    ]
    assert value["processes"][0]["threads"][0] == {
        "id": 10,
        "name": "main",
        "state": "S",
        "cpu_share": 0.987,
        "frames": ["spin", "libx.so+0x1f0", "Engine.step (engine.py:7)"],
    }


def test_the_schema_is_the_one_of_the_types() -> None:
    published = json.loads((ROOT / "docs/schemas/forensics.hang.1.json").read_text())

    assert {**published} == {"$schema": published["$schema"], **schema()}


def test_every_kind_of_verdict_is_in_the_schema() -> None:
    text = (ROOT / "docs/schemas/forensics.hang.1.json").read_text()

    assert all(f'"{kind.value}"' in text for kind in HangKind)


def test_secrets_and_escapes_do_not_come_through() -> None:
    for text in (
        render_hang(clean(a_report()), TerminalStyle(width=100)),
        render_hang_json(clean(a_report())),
    ):
        assert SECRET not in text
        assert "\x1b" not in text
