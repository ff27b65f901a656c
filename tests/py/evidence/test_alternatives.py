"""What a text's first letter rules out, and that it never rules out what would have matched."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.alternatives import Alternative, Alternatives
from vllm_forensics.evidence.log.lines import LOGGERS
from vllm_forensics.evidence.sanitizer.prefixes import AFTER_A_DATE, PREFIXES

ALL = [*PREFIXES.all(), *AFTER_A_DATE.all(), *LOGGERS.all()]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.pattern[:24])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_text_that_a_pattern_matches_is_held_back(one: Alternative, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(rf"\A(?:{one.pattern})")))

    assert re.match(one.begins, text[:1]) is not None


def test_the_first_that_matches_decides() -> None:
    found = Alternatives(
        {
            "word": (Alternative("[a-z]", "ab"), Alternative("[a-z]", "abc")),
            "letter": (Alternative(r"\w", r"\w"),),
        }
    )

    matches = [found[text[:1]](text) for text in ("abc", "xbc", "ébc", "--", "")]

    assert [match and (match[0], match.lastgroup) for match in matches] == [
        ("ab", "word"), ("x", "letter"), ("é", "letter"), None, None,
    ]  # fmt: skip


def test_a_text_is_read_from_a_position_on() -> None:
    found = Alternatives({"digit": (Alternative(r"\d", r"\d+"),)})

    match = found["1"]("ab12", 2)

    assert match is not None
    assert match[0] == "12"


def test_letters_beyond_ascii_share_one_pattern() -> None:
    found = Alternatives({"word": (Alternative(r"\w", r"\w+"),)})

    matches = {found[letter] for letter in "éüñ字"}

    assert len(matches) == 1
