"""What a file is, by how it begins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.source_kind import answer_in, kind_of
from vllm_forensics.model.joined import SourceKind

TRACED = b'7 1768464765.1 read(3, "", 1) = 0\n7 1768464765.2 +++ exited with 0 +++\n'
CASES = {
    "a log": (b"INFO 01-15 08:12:45 all is well\n", SourceKind.LOG),
    "nothing": (b"", SourceKind.LOG),
    "a trace": (TRACED, SourceKind.STRACE),
    "a trace with the time of day": (b"7 08:12:45.123456 close(3) = 0\n", SourceKind.STRACE),
    "a trace without times": (
        b'7 execve("/a", ["a"]) = 0\n7 read(3,  <unfinished ...>\n8 <... read resumed>"")  = 0\n',
        SourceKind.STRACE,
    ),
    "numbered calls of no trace": (b"7 take(3) took 5 ms\n8 give(4) took 6 ms\n", SourceKind.LOG),
    "a supervisor's log": (
        b'{"event": "start", "pid": 7, "command": "x"}\n',
        SourceKind.SUPERVISOR,
    ),
    "a sandbox's events": (b'{"step":1,"kind":"free","block":3}\n', SourceKind.SANDBOX),
    "a sandbox's recording": (
        b'{"kind":"run","schema":"forensics.sandbox_events/1"}\n{"kind":"step","step":1}\n',
        SourceKind.SANDBOX,
    ),
    "a log in JSON": (b'{"level": "info", "kind": "free"}\n', SourceKind.LOG),
    "JSON lines about events": (b'{"event": "start", "user": 7}\n', SourceKind.LOG),
    "UTF-16": ("Aborted\r\n".encode("utf-16"), SourceKind.LOG),
    "UTF-16 without its mark": ("Aborted\r\n".encode("utf-16-be") * 9, SourceKind.LOG),
    "UTF-32": ("Aborted\r\n".encode("utf-32"), SourceKind.LOG),
    "a log with a hole": (b"Aborted\n" + bytes(8000) + b"ready\n", SourceKind.LOG),
    "colours": (b"\x1b[31mFatal Python error\x1b[0m\n", SourceKind.LOG),
    "a few zeros": (b"Segmentation fault\n\0\0\0\n", SourceKind.LOG),
    "an archive of logs": (b"PK\x03\x04" + bytes(30), SourceKind.LOG),
    "a program": (b"\x7fELF" + bytes(60), None),
    "zeros": (bytes(4096), None),
    "noise": (bytes(range(256)) * 16, None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_beginning_tells_the_kind(name: str) -> None:
    head, kind = CASES[name]

    assert kind_of(head) is kind


def test_an_answer_of_this_tool_is_known() -> None:
    assert answer_in(b'{\n  "schema": "forensics.incident/1",\n') == "forensics.incident/1"
    assert answer_in(b'{"schema": "other/1"}') is None
    for text in (
        "━━ SIGSEGV · f read address 0x8 ━━━━\n",
        "━━ \x1b[0mworker 42 died first · native fault ━━\n",
        "\x1b[1;31m━━ SIGABRT · abort in f\n",
        "42 cores · 6 different crashes\n",
        "3 sources: 1 core · 2 logs\n",
        "1 report in 162 lines\n",
        "1 incident in 22 lines\n",
        "3 incidents · 1 bug · 3 cores\n",
        "! core pattern     core, a file such as core\n",
        "## Worker 42 died first · native fault · SIGSEGV\n",
        "## 1 bug in 77 lines of sanitizer logs\n",
        '{"$schema": "x", "version": "2.1.0", "runs": [{"tool": {"driver": {"name": '
        '"vllm-forensics", "rules": [',
        '<?xml version="1.0"?>\n<testsuites tests="1">\n  <testsuite name="forensics asan" a="',
        "Nothing crashed; the status was 0.\n",
    ):
        assert answer_in(text.encode()) is not None, text
    for text in (
        "3 sources of error\n",
        "1 core dumped\n",
        "2 reports in total\n",
        "━━━ test ━━━\n",
        "3 incidents of a kind\n",
        "## Nobody died first\n",
        '{"runs": [{"tool": {"driver": {"name": "another"}}}]}',
    ):
        assert answer_in(text.encode()) is None, text


@given(st.binary(max_size=2000))
def test_no_bytes_make_it_fail(head: bytes) -> None:
    kind_of(head)
    kind_of(b"{" + head)
