"""The quick look that spares cleaning misses nothing, and secrets do not come out of a report."""

import dataclasses
from enum import Enum
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import (
    ExplainedLog,
    ExplainedReport,
    PrintedFrame,
    SanitizerAnswer,
)
from vllm_forensics.render import clean as cleaning
from vllm_forensics.render.clean import escape, is_clean, mask_secrets, may_hold_secret
from vllm_forensics.render.sanitizer_clean import clean_answer

REPORT = b"""\
==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x55 T0
READ of size 4 at 0x602000000010 thread T0
    #0 0x55d1a in use(int*) /src/cache.cpp:10:3 (/bin/app+0x11d1a)
0x602000000010 is located 0 bytes inside of 4-byte region [0x602000000010,0x602000000014)
freed by thread T0 here:
    #0 0x55d1b in drop(int*) /src/cache.cpp:20:3 (/bin/app+0x11d1b)
SUMMARY: AddressSanitizer: heap-use-after-free /src/cache.cpp:10:3 in use(int*)
==1==ABORTING
"""
CANARY = "c4n4ry-Th1s-must-never-show"
DIGITS = {"pc", "offset", "build_id"}
PIECES = (
    *("token", "Secret", "PASSWD", "passphrase", "api_key", "access-key", "privatekey", "auth"),
    *("credential", "=", ": ", " ", "--", "bearer ", "Basic\t", "basic\n", "http://a:", "@", "/"),
    *("hf_", "hf-", "ghp_", "gho-", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "pk_", "rk-"),
    *("xoxb-", "npm_", "pypi-", "AKIA", "ASIA", "ABCDEFGHIJKLMNOP", "eyJ", "abcdefghijklmnop", "."),
    *("-----BEGIN PRIVATE KEY-----", "\u017f", "\u0131", "\u212a", "\x1b", "\u202e", "x", "\n"),
)
MIXED = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


def answer_of(report: ExplainedReport) -> SanitizerAnswer:
    log = ExplainedLog(path="log", size_bytes=1, lines=1, truncated=False, reports=(report,))
    return SanitizerAnswer(logs=(log,), groups=(), failures=())


def a_report() -> ExplainedReport:
    (printed,) = parse_sanitizer_log([REPORT]).reports
    return explain_report(printed)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Where a log's own text stands in a model."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return [path]
    if isinstance(value, tuple):
        return [place for at, item in enumerate(value) for place in places(item, (*path, at))]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        skipped = DIGITS if isinstance(value, PrintedFrame) else set()
        return [
            place
            for field in dataclasses.fields(value)
            if field.name not in skipped
            for place in places(getattr(value, field.name), (*path, field.name))
        ]
    return []


def with_text(value: object, path: tuple[object, ...], text: str) -> object:
    """A copy with one string of it replaced."""
    if not path:
        return text
    if isinstance(value, tuple):
        at = cast("int", path[0])
        return (*value[:at], with_text(value[at], path[1:], text), *value[at + 1 :])
    name = str(path[0])
    inner = with_text(getattr(value, name), path[1:], text)
    return dataclasses.replace(value, **{name: inner})  # type: ignore[type-var]


@pytest.mark.parametrize("dirt", [f"TOKEN={CANARY}", f"a \x1b[31m{CANARY}\u202e", f"hf_{CANARY}"])
def test_dirt_in_any_string_of_a_report_is_found(dirt: str) -> None:
    report = a_report()
    found = places(report)

    for place in found:
        dirty = cast("ExplainedReport", with_text(report, place, dirt))
        (log,) = clean_answer(answer_of(dirty), include_secrets=False).logs
        text = repr(log.reports)

        assert dirt not in text, place
        assert "\\x1b[" not in text.replace("\\\\x1b[", ""), place
    assert len(found) > 20


def test_a_clean_report_is_handed_on_as_it_is() -> None:
    report = a_report()

    (log,) = clean_answer(answer_of(report), include_secrets=False).logs

    assert log.reports[0] is report


@settings(max_examples=1000)
@given(MIXED)
def test_what_may_hold_no_secret_holds_none(text: str) -> None:
    masked = text
    for pattern, replacement in cleaning._secrets():
        masked = pattern.sub(replacement, masked)

    assert may_hold_secret(text) or masked == text


@settings(max_examples=1000)
@given(MIXED, MIXED)
def test_the_parts_of_a_clean_text_are_clean(text: str, more: str) -> None:
    whole = f"{text}\n{more}"

    assert not is_clean(whole) or mask_secrets(escape(text)) == text
