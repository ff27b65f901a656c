"""Suppression files, and lines that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.suppressions import parse_suppressions


def test_rules_come_in_order_with_their_lines() -> None:
    text = "# known\n\n  leak:libfoo  \nrace:^q::f$\r\nsignature:v1:*:f:*\n"

    rules, unread = parse_suppressions(text)

    assert [(rule.text, rule.line) for rule in rules] == [
        ("leak:libfoo", 3),
        ("race:^q::f$", 4),
        ("signature:v1:*:f:*", 5),
    ]
    assert unread == ()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("foo", "TYPE:PATTERN"),
        ("raze:foo", "no sanitizer has"),
        ("fun:foo", "ignorelist"),
        ("[address]", "TYPE:PATTERN"),
        ("leak:", "empty"),
        ("leak:" + "x" * 5000, "too long"),
    ],
)
def test_a_line_that_is_no_rule_says_why(line: str, why: str) -> None:
    rules, unread = parse_suppressions(f"leak:a\n{line}\nleak:b\n")

    assert [rule.line for rule in rules] == [1, 3]
    assert [(one.line, why in one.why) for one in unread] == [(2, True)]


@given(st.text())
def test_no_text_raises(text: str) -> None:
    rules, unread = parse_suppressions(text)

    assert len(rules) + len(unread) <= text.count("\n") + 1
