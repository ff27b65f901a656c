"""SARIF, GitHub's and GitLab's lists, JUnit's XML and Markdown: valid, relative, escaped."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.evidence.sanitizer.exam import EXPECTED
from tests.py.render.sarif_schema import SCHEMA
from tests.py.render.test_sanitizer import answer_of

from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer import ExplainedLog, SanitizerAnswer, SanitizerGroup
from vllm_forensics.render.entries import entries, to_place
from vllm_forensics.render.github import render_github
from vllm_forensics.render.gitlab import render_gitlab
from vllm_forensics.render.junit import render_junit
from vllm_forensics.render.markdown import render_markdown
from vllm_forensics.render.sanitizer_clean import clean_answer
from vllm_forensics.render.sarif import render_sarif

ROOT = "/build/samples"
NAMES = tuple(name.removesuffix(".txt") for name in EXPECTED)


def cleaned(name: str) -> SanitizerAnswer:
    return clean_answer(answer_of(name), include_secrets=False)


def answer_about(text: str) -> SanitizerAnswer:
    reading = parse_sanitizer_log([text.encode("utf-8", "surrogateescape")])
    reports = tuple(explain_report(report) for report in reading.reports)
    log = ExplainedLog(path="a log", size_bytes=1, lines=9, truncated=False, reports=reports)
    names = dict.fromkeys(report.signature for report in reports)
    answer = SanitizerAnswer(
        logs=(log,),
        groups=tuple(SanitizerGroup(signature=name, count=1) for name in names),
        failures=(),
    )
    return clean_answer(answer, include_secrets=False)


def hostile(name: str, file: str = "/w/q.cc") -> SanitizerAnswer:
    return answer_about(
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1 bp 0x2\n"
        f"READ of size 8 at 0x60 thread T0\n    #0 0x10 in {name} {file}:88:3\n\n"
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_is_valid_in_every_format(name: str) -> None:
    answer = cleaned(name)

    sarif = json.loads(render_sarif(answer, ROOT, "0.1.0"))
    issues = json.loads(render_gitlab(answer, ROOT))
    suite = ElementTree.fromstring(render_junit(answer, ROOT))  # noqa: S314 - our own

    jsonschema.validate(sarif, SCHEMA)
    found = entries(answer, ROOT)
    results = sarif["runs"][0]["results"]
    assert bool(found) == bool(answer.groups)
    assert len(results) == len(issues) == len(found) == len(list(suite.iter("failure")))
    rules = sarif["runs"][0]["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in results)
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]
    assert len(set(prints)) == len(prints)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert len(render_github(answer, ROOT).splitlines()) == len(found)
    assert render_markdown(answer, ROOT).count("<details") == min(20, len(found))


def test_the_flow_is_the_chain_in_order_of_time() -> None:
    sarif = json.loads(render_sarif(cleaned("asan_gcc_heap_uaf_threads"), None, "0.1.0"))

    (result,) = sarif["runs"][0]["results"]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    events = [step for step in steps if step["importance"] == "essential"]
    assert [step["location"]["message"]["text"] for step in events] == [
        "allocate in T1: t_alloc",
        "free in T2: t_free",
        "use in T3: t_use",
    ]
    assert [step["executionOrder"] for step in steps] == list(range(1, len(steps) + 1))
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "src/asan_cases.cpp", "uriBaseId": "%SRCROOT%"}
    assert place["region"]["startLine"] == 30


def test_severity_and_weakness_are_the_rules() -> None:
    sarif = json.loads(render_sarif(cleaned("asan_gcc_heap_uaf_threads"), None, "0.1.0"))

    (rule,) = sarif["runs"][0]["tool"]["driver"]["rules"]
    assert rule["id"] == "AddressSanitizer/heap-use-after-free"
    assert rule["properties"]["tags"] == ["security", "external/cwe/cwe-416"]
    assert float(rule["properties"]["security-severity"]) >= 7
    assert rule["defaultConfiguration"]["level"] == "error"


def test_each_leak_is_a_bug_of_its_own() -> None:
    found = entries(cleaned("lsan_gcc_leaks"), None)

    assert [(entry.function, entry.count) for entry in found] == [
        ("lose_buf()", 1),
        ("make_tree(int)", 7),
    ]
    assert "168 bytes in 7 leak records (direct and indirect)" in found[1].text


def test_a_report_without_a_source_line_stands_in_its_log() -> None:
    sarif = json.loads(render_sarif(cleaned("asan_gcc_unsym_uaf"), None, "0.1.0"))

    (result,) = sarif["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "asan_gcc_unsym_uaf"
    assert "codeFlows" not in result


@pytest.mark.parametrize(
    ("file", "path", "inside"),
    [
        ("/repo/src/a.cc", "src/a.cc", True),
        ("/repo/src/../b.cc", "b.cc", True),
        ("./src/a.cc", "src/a.cc", True),
        ("../other/a.cc", "../other/a.cc", False),
        ("/elsewhere/a.cc", "/elsewhere/a.cc", False),
        ("/repository/a.cc", "/repository/a.cc", False),
        ("C:\\src\\a.cc", "C:/src/a.cc", False),
    ],
)
def test_paths_are_relative_to_the_repository(file: str, path: str, *, inside: bool) -> None:
    place = to_place(file, 3, "/repo")

    assert (place.path, place.in_repository) == (path, inside)


def test_a_place_in_the_repository_is_preferred() -> None:
    answer = answer_about(
        "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x1 bp 0x2\n"
        "READ of size 8 at 0x60 thread T0\n    #0 0x10 in lib::copy(int) /other/lib.cc:88:3\n"
        "    #1 0x11 in q::go() /repo/src/q.cc:7:1\n\n"
    )

    (entry,) = entries(answer, "/repo")

    assert (entry.place.path, entry.place.line) == ("src/q.cc", 7)


def test_github_commands_are_escaped() -> None:
    answer = hostile("q::f(100%,a::b)", "/w/a,b:c.cc")
    failing = replace(
        answer, failures=(Failure(path="x", error="50% gone\n::error::no", remedy=""),)
    )

    lines = render_github(failing, "/w").splitlines()

    assert len(lines) == 2
    assert lines[0].startswith("::error file=a%2Cb%3Ac.cc,line=88,")
    assert lines[1] == "::warning title=forensics asan::x 50%25 gone%0A::error::no"


def test_markdown_holds_no_markup_of_the_log() -> None:
    answer = hostile("q::f<script>(int, @someone, `x`, [a](b), $x$, #1)")

    text = render_markdown(answer, None)
    outside = re.sub(r"(?s)(`{3,})text\n.*?\n\1", "", text)
    outside = re.sub(r"(`+)[^`].*?\1(?!`)", "", outside)

    assert "<script>" not in outside
    assert "@someone" not in outside
    assert not re.search(r"(?<!\\)\$", outside)


def test_a_fence_is_longer_than_any_in_the_log() -> None:
    answer = answer_about(
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1 bp 0x2\n"
        "READ of size 8 at 0x60 thread T0\n    #0 0x10 in q::f`````(int) /w/q.cc:88:3\n"
    )

    assert "\n``````text\n" in render_markdown(answer, None)


@settings(deadline=None)  # the first example imports and compiles
@given(name=st.text(min_size=1, max_size=40), file=st.text(min_size=1, max_size=40))
def test_no_text_breaks_a_format(name: str, file: str) -> None:
    name, file = (" ".join(text.split()) or "x" for text in (name, file))
    answer = hostile(f"q::{name}", f"/w/{file}")

    jsonschema.validate(json.loads(render_sarif(answer, "/w", "0.1.0")), SCHEMA)
    json.loads(render_gitlab(answer, "/w"))
    ElementTree.fromstring(render_junit(answer, "/w").encode())  # noqa: S314 - our own
    assert all(line.startswith("::") for line in render_github(answer, "/w").splitlines())
    assert render_markdown(answer, "/w").count("<details") == len(answer.groups)


def test_junit_tells_passed_failed_and_unread_logs_apart() -> None:
    answer = replace(
        cleaned("asan_gcc_heap_uaf_read"),
        failures=(Failure(path="gone.log", error="could not be read", remedy="ls"),),
        complete=False,
    )
    clean = ExplainedLog(path="fine.log", size_bytes=1, lines=1, truncated=False, reports=())

    suite = ElementTree.fromstring(  # noqa: S314 - our own
        render_junit(replace(answer, logs=(*answer.logs, clean)), None)
    )

    cases = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert cases["fine.log"] == []
    assert cases["gone.log"] == ["error"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
