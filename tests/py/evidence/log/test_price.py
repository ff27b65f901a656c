"""What a line may cost: the steps of a backtracking matcher, counted, on lines that mean harm."""

import re

import pytest
from tests.py.support.regex_steps import TooDearError, search_steps

from vllm_forensics.evidence.log.book import FAMILIES
from vllm_forensics.evidence.log.phrases import Family, Phrase

BEFORE, BEHIND = 400, 200
PER_LETTER = 300
"""So often a pattern looks at each letter at the most: as often as its longest word has letters."""


def hostile(phrase: Phrase) -> dict[str, str]:
    """Lines with the needle that the pattern wants to match, for long, and does not."""
    needle = phrase.needle
    lines = {
        f"{letter!r} around it": letter * BEFORE + needle + letter * BEHIND
        for letter in ("a", "1", ": ")
    }
    lines["over and over"] = f"{needle} " * (1 + (BEFORE + BEHIND) // len(needle))
    return {name: line[: BEFORE + BEHIND + len(needle)] for name, line in lines.items()}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.source)
def test_no_line_makes_a_phrase_dear(family: Family) -> None:
    dear = []
    for phrase in family.phrases:
        for name, line in hostile(phrase).items():
            try:
                search_steps(phrase.pattern, line, PER_LETTER * len(line))
            except TooDearError:
                dear.append((phrase.needle, name))

    assert dear == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.source)
def test_the_counting_matcher_finds_what_pythons_finds(family: Family) -> None:
    for phrase in family.phrases:
        found, _ = search_steps(phrase.pattern, phrase.example, 1_000_000)

        assert found is (re.search(phrase.pattern, phrase.example) is not None)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(?:a|aa)+$", r"\w{1,200}\w{1,200}: x"])
def test_a_catastrophic_pattern_is_found_out(pattern: str) -> None:
    line = "a" * (BEFORE + BEHIND) + "!"

    with pytest.raises(TooDearError):
        search_steps(pattern, line, PER_LETTER * len(line))
