"""RECORD is rewritten line by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.wheel_record import new_hash, recorded_hashes, rewrite_record

RECORD = 'a/x.so,sha256=old,10\r\n"b,c.so",sha256=other,5\nx-1.dist-info/RECORD,,\n'


def test_only_the_changed_line_changes() -> None:
    text = rewrite_record(RECORD, {"a/x.so": ("sha256=new", 7)})

    assert text == RECORD.replace("sha256=old,10", "sha256=new,7")


def test_a_name_with_a_comma_keeps_its_quotes() -> None:
    text = rewrite_record(RECORD, {"b,c.so": ("sha256=new", 7)})

    assert '"b,c.so",sha256=new,7\n' in text
    assert recorded_hashes(text)["b,c.so"] == "sha256=new"


def test_a_file_that_is_not_listed_is_refused() -> None:
    with pytest.raises(EvidenceError, match="does not list"):
        rewrite_record(RECORD, {"other.so": ("sha256=new", 7)})


@pytest.mark.parametrize("recorded", ["", "md5=abc", "nothing"])
def test_a_hash_that_wheels_may_not_use_is_refused(recorded: str) -> None:
    with pytest.raises(EvidenceError):
        new_hash(recorded)


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    assert rewrite_record(text, {}) == text
    assert isinstance(recorded_hashes(text), dict)
