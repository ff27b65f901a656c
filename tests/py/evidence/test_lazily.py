"""A pattern that is compiled when it is first used reads what a compiled one reads."""

import re

import pytest

from vllm_forensics.evidence.lazily import lazily


def test_it_reads_what_a_compiled_one_reads() -> None:
    pattern = lazily(r"(?P<number>\d{1,3})(?i: KiB)")

    match = pattern.search("it took 12 kib")

    assert match is not None
    assert match["number"] == "12"
    assert pattern.match("it took 12 kib") is None
    assert pattern.pattern == r"(?P<number>\d{1,3})(?i: KiB)"
    assert [one[0] for one in pattern.finditer("1 KiB, 2 kib")] == ["1 KiB", "2 kib"]


def test_nothing_is_compiled_before_it_is_asked() -> None:
    broken = lazily("(")

    with pytest.raises(re.error):
        broken.search("")
