"""Archives of logs: their members are the logs, and silence is told once."""

import gzip
import zipfile
from pathlib import Path

from vllm_forensics.investigate.sanitizer_logs import read_logs

REPORT = (
    b"==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1 bp 0x2 sp 0x3\n"
    b"READ of size 8 at 0x60 thread T0\n    #0 0x10 in f(int) a.cc:1:2\n"
    b"SUMMARY: AddressSanitizer: heap-use-after-free a.cc:1:2 in f(int)\n"
)


def archive(path: Path, **members: bytes) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return str(path)


def test_the_members_with_reports_are_the_logs_of_an_archive(tmp_path: Path) -> None:
    path = archive(tmp_path / "l.zip", quiet=b"fine\n" * 9, loud=gzip.compress(b"x\n" + REPORT))

    ((name, reading, failure),) = read_logs(path)

    assert (name, failure) == (f"{path}!loud", None)
    assert reading is not None
    assert [(report.kind, report.lines) for report in reading.reports] == [
        ("heap-use-after-free", (2, 5))
    ]


def test_an_archive_without_a_report_is_one_log_without_a_report(tmp_path: Path) -> None:
    path = archive(tmp_path / "l.zip", one=b"fine\n" * 9, two=b"fine\n")

    ((name, reading, failure),) = read_logs(path)

    assert (name, failure) == (path, None)
    assert reading is not None
    assert (reading.lines, reading.size_bytes, reading.reports) == (10, 50, ())


def test_a_damaged_member_is_named_and_its_reports_are_kept(tmp_path: Path) -> None:
    path = archive(tmp_path / "l.zip", cut=gzip.compress(REPORT)[:-9], whole=REPORT)

    (first, second) = read_logs(path)

    assert first[0] == f"{path}!cut"
    assert first[2] is not None
    assert first[1] is not None
    assert len(first[1].reports) == 1
    assert second[0] == f"{path}!whole"
