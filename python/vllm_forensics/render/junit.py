"""JUnit's XML, as CI servers read it: a bug is a failure, an unreadable log an error.

There is no norm; the elements are those of Ant's junit task, which Jenkins, GitLab and Azure read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer import SanitizerAnswer
from vllm_forensics.render.entries import LARGEST, Entry, entries

_ILLEGAL: Final = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # XML 1.0, section 2.2
)
_MAX_RAW: Final = 20_000


def render_junit(answer: SanitizerAnswer, root: str | None) -> str:
    """The answer as XML. A log without a report is a test that passed."""
    found = entries(answer, root)[:LARGEST]
    failed = {failure.path for failure in answer.failures} if not answer.complete else set()
    clean = [log.path for log in answer.logs if not log.reports and log.path not in failed]
    failures = [failure for failure in answer.failures if failure.path not in clean]
    count = len(found) + len(failures) + len(clean)
    head = f'tests="{count}" failures="{len(found)}" errors="{len(failures)}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {head}>",
        f'  <testsuite name="forensics asan" {head} skipped="0">',
        *(line for entry in found for line in _case(entry)),
        *(line for failure in failures for line in _error(failure)),
        *(f'    <testcase classname="forensics.asan" name={_quoted(path)}/>' for path in clean),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(entry: Entry) -> Iterator[str]:
    place = f'file={_quoted(entry.place.path)} line="{entry.place.line}"'
    name = f"{entry.title} [{entry.signature}]"
    yield f"    <testcase classname={_quoted(entry.report.printed.sanitizer)} " + (
        f"name={_quoted(name)} {place}>"
    )
    kind = _quoted(entry.report.printed.kind)
    yield f"      <failure type={kind} message={_quoted(entry.text)}>{_body(entry)}</failure>"
    yield "    </testcase>"


def _body(entry: Entry) -> str:
    steps = "\n".join(f"next: {step}" for step in entry.report.next_steps)
    return _text(f"{entry.text}\n{steps}\n\n{entry.report.printed.raw[:_MAX_RAW]}")


def _error(failure: Failure) -> Iterator[str]:
    yield f'    <testcase classname="forensics.asan" name={_quoted(failure.path)}>'
    message = f"{failure.error}: {failure.remedy or ''}".rstrip(": ")
    yield f"      <error message={_quoted(message)}/>"
    yield "    </testcase>"


def _text(text: str) -> str:
    return escape(_ILLEGAL.sub("\ufffd", text))


def _quoted(text: str) -> str:
    return quoteattr(_ILLEGAL.sub("\ufffd", text))
