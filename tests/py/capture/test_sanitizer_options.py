"""Options as the runtimes' own parser takes them apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.capture.sanitizer_options import options_text, parse_options
from vllm_forensics.errors import UsageError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("detect_leaks=0:abort_on_error=1", {"detect_leaks": "0", "abort_on_error": "1"}),
        ("a=1 b=2,c=3\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("log_path='/a b:c/r':x=1", {"log_path": "/a b:c/r", "x": "1"}),
        ('log_path="/it\'s"', {"log_path": "/it's"}),
        ("a=1:a=2", {"a": "2"}),
        ("a=x=y", {"a": "x=y"}),
        ("novalue:a=1", {"a": "1"}),
        ("a='unfinished", {"a": "unfinished"}),
    ],
)
def test_options_are_told_apart(text: str, options: dict[str, str]) -> None:
    assert parse_options(text) == options


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]+", fullmatch=True),
        st.text(st.characters(exclude_characters='"\x00', exclude_categories=["Cs"])),
    )
)
def test_what_is_written_reads_back(options: dict[str, str]) -> None:
    assert parse_options(options_text(options)) == options


def test_a_path_with_both_quotes_cannot_be_said() -> None:
    with pytest.raises(UsageError, match="no escape for both"):
        options_text({"log_path": "/a'b\"c"})


@given(st.text())
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    options = parse_options(text)

    assert all("=" not in name for name in options)
