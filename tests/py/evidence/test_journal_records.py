"""What journalctl and coredumpctl print of a crash; recorded by tests/py/data/journal/make.sh."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.coredumpctl_output import is_coredumpctl, parse_coredumpctl
from vllm_forensics.evidence.journal_crash import journal_crash
from vllm_forensics.evidence.journal_records import (
    COREDUMP_MESSAGE,
    EMBEDDED,
    Fields,
    is_journal_export,
    parse_journal_export,
)
from vllm_forensics.model.journal import CoreState, JournalCrash
from vllm_forensics.model.process import Architecture

DATA = Path(__file__).parent.parent / "data" / "journal"
CASES = ["kept", "truncated", "unkept"]
CORE = (
    "/var/lib/systemd/coredump/core.cache.65534.e34598b047a34f9aab756b0ff4808e84.14751."
    "1795986239000000.zst"
)
DOCKER = "7f" * 32


def record(name: str) -> Fields:
    data = (DATA / name).read_bytes()
    if name.endswith(".info"):
        [found] = parse_coredumpctl(data.decode())
    else:
        [found] = parse_journal_export(memoryview(data))
    return found


def crash(fields: Fields) -> JournalCrash:
    found = journal_crash(fields)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES)
def test_export_and_json_hold_the_same_crash(case: str) -> None:
    exported, as_json = crash(record(f"{case}.export")), crash(record(f"{case}.json"))

    assert exported == as_json


@pytest.mark.parametrize("kind", ["export", "json", "info"])
def test_a_record_says_who_died_where_and_of_what(kind: str) -> None:
    found = crash(record(f"kept.{kind}"))

    assert (found.pid, found.signal, found.architecture) == (14751, 11, Architecture.X86_64)
    assert found.seconds == 1795986239
    assert found.fact("executable") == "/opt/cache-demo/cache"
    assert found.fact("command") == (
        "/opt/cache-demo/cache --port 80 --api-key sk-notreal1234567890"
    )
    assert found.fact("user") == "65534"
    assert found.fact("host") == "crashed"
    assert found.fact("slice") == "-.slice"
    assert found.fact("time") == "2026-11-29T21:03:59+00:00"
    assert (found.state, found.core, found.truncated) == (CoreState.FILE, CORE, False)


@pytest.mark.parametrize("kind", ["export", "json", "info"])
def test_the_stacks_of_all_threads_are_read(kind: str) -> None:
    first, second = crash(record(f"kept.{kind}")).threads

    assert [frame.function for frame in first.frames[:3]] == [
        "_ZN5cache10read_blockEPNS_5BlockE",
        "_ZN5cache12execute_stepEPNS_5BlockE",
        "main",
    ]
    assert (first.tid, first.frames[0].offset, first.frames[0].module) == (14751, 0x123A, "cache")
    assert second.frames[3].function is None
    assert second.frames[3].module == "libstdc++.so.6"


def test_a_core_that_was_too_large_is_known_from_one_that_was_not_wanted() -> None:
    truncated, unkept = crash(record("truncated.export")), crash(record("unkept.export"))

    assert (truncated.state, truncated.truncated, truncated.threads) == (CoreState.NONE, True, ())
    assert (unkept.state, unkept.truncated) == (CoreState.NONE, False)
    assert unkept.threads


@pytest.mark.parametrize("name", ["list.txt", "list.json"])
def test_a_list_says_which_crashes_there_were(name: str) -> None:
    found = [crash(fields) for fields in parse_coredumpctl((DATA / name).read_text())]

    assert [entry.pid for entry in found] == [14751, 14772, 14899]
    assert {entry.signal for entry in found} == {11}
    assert [entry.state for entry in found] == [CoreState.FILE, CoreState.NONE, CoreState.NONE]
    assert {entry.fact("executable") for entry in found} == {"/opt/cache-demo/cache"}
    assert all(entry.core is None for entry in found)


def test_a_list_of_large_files_and_missing_ones_is_read_by_its_columns() -> None:
    text = (
        "TIME                           PID  UID  GID SIG     COREFILE EXE          SIZE\n"
        "Tue 2023-05-23 22:10:17 UTC    739    0    0 SIGABRT journal  /usr/bin/a      -\n"
        "Tue 2023-05-23 22:10:18 CEST   747    0    0 SIGSEGV missing  /usr/bin/b c    -\n"
        "Tue 2023-05-23 22:10:19 UTC    763 1000 1000 SIGRTMIN+3 truncated /x/d 53.5K\n"
    )

    found = [crash(fields) for fields in parse_coredumpctl(text)]

    assert [(entry.pid, entry.signal) for entry in found] == [(739, 6), (747, 11), (763, 37)]
    assert [entry.state for entry in found] == [CoreState.JOURNAL, CoreState.FILE, CoreState.FILE]
    assert found[1].fact("executable") == "/usr/bin/b c"
    assert (found[1].seconds, found[2].truncated) == (None, True)


# JSON in its forms.


def json_record(**fields: object) -> bytes:
    whole = {"__CURSOR": "s=1", "MESSAGE_ID": COREDUMP_MESSAGE, "COREDUMP_PID": "7"} | fields
    return json.dumps(whole).encode()


def test_the_forms_of_json_are_all_read() -> None:
    line = (DATA / "kept.json").read_bytes().strip()
    pretty = json.dumps(json.loads(line), indent=8).encode()
    forms = [line + b"\n", b"data: " + line + b"\n\n", b"\x1e" + line + b"\n", pretty + b"\n"]

    for form in forms:
        assert is_journal_export(form[:4096])
        [found] = parse_journal_export(memoryview(form + form.rstrip(b"\n")[:40]))
        assert found["COREDUMP_PID"] == "14751"


def test_values_that_are_bytes_several_or_left_out_are_read_as_such() -> None:
    data = json_record(
        COREDUMP_EXE=[47, 120, 255], COREDUMP_UNIT=["a.service", "b.service"], COREDUMP_CMDLINE=None
    )

    [found] = parse_journal_export(memoryview(data))

    assert found["COREDUMP_EXE"] == "/x\udcff"
    assert found["COREDUMP_UNIT"] == "b.service"
    assert "COREDUMP_CMDLINE" not in found


def test_other_records_are_passed_over_and_damaged_ones_end_alone() -> None:
    data = b'{"__CURSOR":"a","MESSAGE":"hello"}\n{"MESSAGE_ID":"' + COREDUMP_MESSAGE.encode()
    data += b'", broken\n' + json_record() + b"\n[1]\n"

    [found] = parse_journal_export(memoryview(data))

    assert found["COREDUMP_PID"] == "7"


def test_a_core_in_a_json_record_is_passed_over_without_being_read() -> None:
    data = json_record(COREDUMP=[127, 69, 76, 70] * 1000, COREDUMP_COMM="serve")

    for form in (data, data.replace(b'"COREDUMP": [', b'"COREDUMP" : [')):
        [found] = parse_journal_export(memoryview(form))
        assert found["COREDUMP_COMM"] == "serve"
        offset, size = place_of(found, "[")
        assert form[offset : offset + size] == b"127, 69, 76, 70, " * 999 + b"127, 69, 76, 70"


def test_a_core_over_many_lines_of_json_is_passed_over_and_named() -> None:
    record = json.loads(json_record(COREDUMP=[127, 69, 76, 70]))

    [found] = parse_journal_export(memoryview(json.dumps(record, indent=1).encode() + b"\n"))

    assert found["COREDUMP"] == EMBEDDED


def place_of(record: Fields, form: str) -> tuple[int, int]:
    offset, _, size = record["COREDUMP"].removeprefix(EMBEDDED + form).partition("+")
    return int(offset), int(size)


# The export format.


def test_a_core_in_the_journal_is_passed_over_without_being_read() -> None:
    core = b"\x7fELF\n=\n\n" * 1000
    data = b"__CURSOR=a\nMESSAGE_ID=" + COREDUMP_MESSAGE.encode() + b"\nCOREDUMP\n"
    data += len(core).to_bytes(8, "little") + core + b"\nCOREDUMP_PID=7\n\n"

    [found] = parse_journal_export(memoryview(data))

    offset, size = place_of(found, "@")
    assert data[offset : offset + size] == core
    assert crash(found).state is CoreState.JOURNAL
    assert crash(found).member == f"core.7@{offset}+{size}"


def test_a_file_that_was_cut_off_keeps_the_records_before() -> None:
    whole = (DATA / "kept.export").read_bytes()

    found = list(parse_journal_export(memoryview(whole + whole[: len(whole) // 2])))

    assert found[0]["COREDUMP_PID"] == "14751"


def test_a_size_that_lies_ends_the_reading() -> None:
    data = b"__CURSOR=a\nMESSAGE\n" + b"\xff" * 8 + b"x\n\n"

    assert list(parse_journal_export(memoryview(data))) == []


# What is told of the place.


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (f"/system.slice/docker-{DOCKER}.scope", f"docker {DOCKER[:12]}"),
        (f"/docker/{DOCKER}", f"docker {DOCKER[:12]}"),
        (
            "/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/"
            f"cri-containerd-{DOCKER}.scope",
            f"containerd {DOCKER[:12]}, pod 01234567-89ab-cdef-0123-456789abcdef",
        ),
        (
            f"/kubepods/besteffort/pod01234567-89ab-cdef-0123-456789abcdef/{DOCKER}",
            f"kubernetes {DOCKER[:12]}, pod 01234567-89ab-cdef-0123-456789abcdef",
        ),
        (f"/machine.slice/libpod-{DOCKER}.scope", f"podman {DOCKER[:12]}"),
        ("/system.slice/serve.service", None),
    ],
)
def test_a_container_is_told_by_its_control_group(group: str, told: str | None) -> None:
    found = crash({"COREDUMP_PID": "7", "COREDUMP_CGROUP": group})

    assert found.fact("container") == told


def test_a_container_of_another_manager_is_told_by_what_started_it() -> None:
    found = crash({"COREDUMP_PID": "7", "COREDUMP_CONTAINER_CMDLINE": "lxc monitor web"})

    assert found.fact("container") == "started by lxc monitor web"


def test_build_ids_are_taken_from_the_message_and_from_the_package_data() -> None:
    found = crash(
        {
            "COREDUMP_PID": "7",
            "MESSAGE": "Module libx.so with build-id 0123456789abcdef",
            "COREDUMP_PACKAGE_JSON": json.dumps(
                {"elfType": "coredump", "elfArchitecture": "AARCH64", "/opt/a": {"buildId": "aa11"}}
            ),
        }
    )

    assert dict(found.builds) == {"libx.so": "0123456789abcdef", "/opt/a": "aa11"}
    assert found.architecture is Architecture.AARCH64


def test_a_record_without_a_process_is_none() -> None:
    assert journal_crash({"MESSAGE_ID": COREDUMP_MESSAGE}) is None


# Strangers.


@pytest.mark.parametrize(
    "head",
    [
        b"\x7fELF\2\1\1",
        b'{"version": 1}',
        b"MESSAGE=1",
        b"",
        b'{"a":1,"__proto__":"x"}',
        b"hello\n",
        b"PID: 4 (x) and nothing else\n",
    ],
)
def test_what_is_no_journal_is_not_taken_for_one(head: bytes) -> None:
    assert not is_journal_export(head)
    assert not is_coredumpctl(head)


def test_what_coredumpctl_prints_is_known_by_its_first_lines() -> None:
    for name in ["kept.info", "list.txt", "list.json"]:
        assert is_coredumpctl((DATA / name).read_bytes()[:4096])


@given(st.binary(max_size=400), st.text(max_size=400))
def test_nothing_that_is_read_raises(data: bytes, text: str) -> None:
    marked = b"{" + COREDUMP_MESSAGE.encode() + data

    for piece in (data, marked, b"__CURSOR=" + data):
        for fields in parse_journal_export(memoryview(piece)):
            journal_crash(fields)
    for fields in parse_coredumpctl(text):
        journal_crash(fields)
    journal_crash({"COREDUMP_PID": "1", "MESSAGE": text, "COREDUMP_PROC_MAPS": text})
