"""Real reports of Valgrind in both its forms, GWP-ASan, Scudo and UBSan's minimal runtime."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.evidence.sanitizer.test_samples import PREFIXES
from tests.py.support.steps import steps

from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.evidence.sanitizer.valgrind_xml import parse_valgrind_xml
from vllm_forensics.model.sanitizer import PrintedFrame, PrintedReport

FOLDER = Path(__file__).parents[2] / "data" / "sanitizer" / "others"
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads(
    (FOLDER / "expected.json").read_text(encoding="utf-8")
)["files"]
XML = sorted(name for name in EXPECTED if name.endswith(".xml"))
RUNTIME_MODULES = ("vgpreload", "clang_rt")


def read(name: str) -> bytes:
    return (FOLDER / "raw" / name).read_bytes()


def name_of(frame: PrintedFrame) -> str | None:
    if frame.function is not None or frame.module is None:
        return frame.function
    return f"{frame.module.rpartition('/')[2]}+{frame.offset}"


def said(report: PrintedReport) -> dict[str, Any]:
    region, access = report.region, report.access
    return {
        "sanitizer": report.sanitizer,
        "kind": report.kind,
        "pid": report.pid,
        "line": report.lines[0],
        "access": [access.type, access.size] if access else None,
        "address": report.address,
        "region": [region.kind, region.size, region.offset, region.relation, region.name]
        if region
        else None,
        "stacks": [
            [
                event.role,
                [
                    name_of(frame)
                    for frame in event.frames
                    if not any(part in (frame.module or "") for part in RUNTIME_MODULES)
                ][:2],
            ]
            for event in report.chain
        ],
        "leaks": [[leak.direct, leak.size, leak.objects] for leak in report.leaks],
    }


def without_line(reports: tuple[PrintedReport, ...]) -> list[dict[str, Any]]:
    return [{**said(report), "line": None} for report in reports]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_report_is_read_wholly_right(name: str) -> None:
    reading = parse_sanitizer_log([read(name)])

    assert [said(report) for report in reading.reports] == EXPECTED[name]


@pytest.mark.parametrize("kind", PREFIXES)
def test_a_prefix_changes_nothing(kind: str) -> None:
    wrong = []
    for name in EXPECTED:
        if kind == "docker json" and b"<valgrindoutput" in read(name):
            continue  # Docker writes < as \\u003c
        lines = read(name).decode().splitlines()
        log = "".join(PREFIXES[kind](at, line) + "\n" for at, line in enumerate(lines))

        found = [said(report) for report in parse_sanitizer_log([log.encode()]).reports]

        if found != EXPECTED[name]:
            wrong.append(name)
    assert wrong == []


def test_the_pieces_of_a_log_may_end_anywhere() -> None:
    log = b"noise\n" * 30 + read("valgrind_helgrind.txt") + read("valgrind_two_documents.txt")
    whole = parse_sanitizer_log([log])

    for size in (1, 7, 64, 1000, 4097):
        pieces = (log[at : at + size] for at in range(0, len(log), size))

        assert parse_sanitizer_log(pieces) == whole


def test_two_processes_that_write_at_once_are_told_apart() -> None:
    reports = parse_sanitizer_log([read("valgrind_fork.txt")]).reports

    assert [report.region.size for report in reports if report.region] == [24, 40]


@pytest.mark.parametrize("name", XML)
def test_xml_and_text_say_the_same(name: str) -> None:
    xml = parse_valgrind_xml([read(name)])
    text = parse_sanitizer_log([read(name.replace(".xml", ".txt"))]).reports

    assert [(one.kind, one.access) for one in xml] == [(one.kind, one.access) for one in text]
    if "helgrind" not in name:  # whose XML leaves out half of what a lock's order is
        assert [one.region for one in xml] == [one.region for one in text]
        assert [[event.role for event in one.chain] for one in xml] == [
            [event.role for event in one.chain] for one in text
        ]


@pytest.mark.parametrize("name", XML)
def test_xml_is_read_the_same_whole_in_pieces_and_in_a_log(name: str) -> None:
    data = read(name)
    whole = parse_valgrind_xml([data])

    assert parse_valgrind_xml(data[at : at + 5] for at in range(0, len(data), 5)) == whole
    assert parse_sanitizer_log([data]).reports == whole
    assert [said(report) for report in whole] == EXPECTED[name]


def test_xml_without_newlines_is_read() -> None:
    data = read("valgrind_bad.xml").replace(b"\n", b"")

    assert [report.kind for report in parse_valgrind_xml([data])] == ["bad-free", "bad-free"]


def test_several_documents_may_follow_one_another() -> None:
    names = ["valgrind_uaf.xml", "valgrind_bad.xml", "valgrind_helgrind.xml"]

    reports = parse_valgrind_xml([b"".join(read(name) for name in names)])

    assert without_line(reports) == [
        {**one, "line": None} for name in names for one in EXPECTED[name]
    ]


@pytest.mark.parametrize("name", ["valgrind_bad.xml", "valgrind_helgrind.xml", "valgrind_leak.xml"])
def test_xml_cut_off_anywhere_keeps_what_came_before(name: str) -> None:
    data, whole = read(name), parse_valgrind_xml([read(name)])
    for at in range(0, len(data), 97):
        kept = parse_valgrind_xml([data[:at]])

        done = data[:at].count(b"</error>") + data[:at].count(b"</fatal_signal>")
        assert without_line(kept)[:done] == without_line(whole)[:done]
        assert len(kept) <= done + 1
        assert all(report.truncated for report in kept[done:])


def test_damage_costs_one_error_and_no_more() -> None:
    data = read("valgrind_bad.xml")
    at = data.index(b"<what>")

    reports = parse_valgrind_xml([data[:at] + b"<& \xff broken" + data[at:]])

    assert [report.address for report in reports] == ["0x10c070"]


def test_a_program_may_write_between_the_lines_of_the_xml() -> None:
    lines = read("valgrind_bad.xml").splitlines(keepends=True)
    log = b"".join(part for line in lines for part in (line, b"a & b, x < 3; 100%\n"))

    assert without_line(parse_sanitizer_log([log]).reports) == [
        {**one, "line": None} for one in EXPECTED["valgrind_bad.xml"]
    ]


ENTITIES = b"""<?xml version="1.0"?>
<!DOCTYPE valgrindoutput [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;">]>
<valgrindoutput><error><unique>0x0</unique><kind>InvalidRead</kind><what>&c;</what></error>
</valgrindoutput>
"""


def test_entities_are_never_expanded() -> None:
    for report in parse_valgrind_xml([ENTITIES]):
        assert "aaaa" not in (report.message or "")


def test_nesting_has_a_bound() -> None:
    data = b"<valgrindoutput>" + b"<a>" * 100_000

    assert parse_valgrind_xml([data]) == ()


def test_the_counts_of_a_document_are_its_reports_occurrences() -> None:
    data = read("valgrind_uaf.xml").replace(b"<count>1</count>", b"<count>17</count>")

    (report,) = parse_valgrind_xml([data])

    assert report.occurrences == 17


def test_a_kind_that_no_table_knows_keeps_its_name() -> None:
    data = read("valgrind_uaf.xml").replace(b"InvalidRead", b"NewlyMadeErr")
    data = data.replace(b"Invalid read of size 8", b"Something that nobody foresaw")

    (report,) = parse_valgrind_xml([data])

    assert (report.kind, report.message) == ("newly-made-err", "Something that nobody foresaw")
    assert [event.role for event in report.chain] == ["allocate", "free", "use"]


@given(st.data())
def test_no_document_makes_the_reader_raise(data: st.DataObject) -> None:
    log = bytearray(read(data.draw(st.sampled_from(XML)))[:6000])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(0, len(log) - 1)))
        log[at : at + data.draw(st.integers(0, 30))] = data.draw(
            st.binary(max_size=6) | st.sampled_from([b"<error>", b"</error>", b"<stack>", b"&x;"])
        )

    parse_valgrind_xml([bytes(log)])
    parse_sanitizer_log([bytes(log)])


HOSTILE = {
    "valgrind": b"==%d== Invalid read of size 8\n==%d==    at 0x1: f (a.c:1)\n",
    "valgrind's frames": b"==1==    at 0x1: f (a.c:1)\n",
    "documents": b"<valgrindoutput>\n",
    "errors": b"<error><unique>%d</unique><what>Invalid read of size 8</what></error>\n",
    "kernel": b"BUG: KASAN: use-after-free in f\n f+0x1/0x2\n",
    "tombstones": b"*** *** *** *** ***\npid: 1, tid: 2, name: x  >>> x <<<\n",
    "go": b"WARNING: DATA RACE\n",
    "minimal": b"ubsan: mul-overflow by 0x%d\n",
    "markup": b"{{{mmap:0x%d:0x1:load:0:rx:0x0}}}\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_work_grows_with_size_only(kind: str) -> None:
    def log(count: int) -> bytes:
        lines = (HOSTILE[kind].replace(b"%d", b"%d" % at) for at in range(count))
        return b"<valgrindoutput>\n" * (kind == "errors") + b"".join(lines)

    small, large = log(300), log(2400)
    parse_sanitizer_log([small])

    few = steps(lambda: parse_sanitizer_log([small]))
    many = steps(lambda: parse_sanitizer_log([large]))

    assert many < 8 * few * 1.6 + 2000
