"""Everything that a core brings in is made harmless, and secrets do not come out."""

import dataclasses
import faulthandler
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.support.reports import a_report

from vllm_forensics.model.answer import Gap
from vllm_forensics.model.report import Failure, Report
from vllm_forensics.render.clean import clean, escape, mask_secrets

CANARY = "c4n4ry-Th1s-must-never-show"
UNSAFE = {
    *range(0x09),
    0x0B,
    *range(0x0C, 0x20),
    *range(0x7F, 0xA0),
    0x200E,
    0x202E,
    0x2028,
    0xFEFF,
}
LONG = 50_000


@pytest.fixture
def _ends() -> Iterator[None]:
    """A function that does not come to an end is killed, with its stack."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize(
    "text",
    [
        f"HF_TOKEN={CANARY}", f"--api-key {CANARY}", f"--api-key={CANARY}", f"password: {CANARY}",
        f'{{"secret": "{CANARY}"}}', f"AWS_SECRET_ACCESS_KEY={CANARY}", f"x.authToken={CANARY}",
        f"Authorization: Bearer {CANARY}", f"postgres://me:{CANARY}@host/db", f"hf_{CANARY}",
        f"ghp_{CANARY}", f"PASSWD='{CANARY}'", f"curl --token {CANARY} http://x",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}", f"https://x.org/?access_key={CANARY}&a=b",
    ],
)  # fmt: skip
def test_a_secret_is_masked(text: str) -> None:
    assert CANARY not in mask_secrets(text)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnop --port 80", "HF_TOKEN=******** --port 80"),
        ("--token abcdef --verbose", "--token ******** --verbose"),
        ("AKIAABCDEFGHIJKLMNOP", "********"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abc-def", "********"),
    ],
)
def test_the_name_beside_it_stays(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --port 8000", "/usr/bin/python3.11", "std::vector<int>::at",
        "http://localhost:8000/v1", "vllm::PagedKVCache::copy_blocks", "--tokenizer --verbose",
        "max_tokens=16", "token: 3", "a tokenizer", "0x7ffd0000 rsp",
        "skip_tokenizer_init=False, tokenizer='org/model'", "author: somebody", "authority=example",
    ],
)  # fmt: skip
def test_an_ordinary_text_is_kept(text: str) -> None:
    assert escape(mask_secrets(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"), ("a\x00b", r"a\x00b"), ("\u202etxt", r"\u202etxt"),
        ("caf\udce9", r"caf\xe9"), ("a\rb", r"a\x0db"), ("\u2028", r"\u2028"), ("\x9b", r"\x9b"),
        ("\ud800", r"\ud800"),
    ],
)  # fmt: skip
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert escape(text) == shown


@pytest.mark.parametrize("text", ["tab\tand\nline", "déjà vu ✔ 你好", "[bold]markup[/bold]"])
def test_ordinary_letters_are_not_escaped(text: str) -> None:
    assert escape(text) == text


def test_every_string_of_a_report_is_cleaned() -> None:
    dirty = _with_every_string(a_report(), f"\x1b\u202eTOKEN={CANARY}")

    cleaned = clean(dirty)

    for text in _strings(cleaned):
        assert CANARY not in text
        assert not UNSAFE & {ord(character) for character in text}


def test_secrets_are_shown_where_that_was_asked_for() -> None:
    dirty = _with_every_string(a_report(), f"\x1bTOKEN={CANARY}")

    cleaned = clean(dirty, include_secrets=True)

    assert rf"\x1bTOKEN={CANARY}" in _strings(cleaned)


def test_a_clean_report_is_left_as_it_is() -> None:
    assert clean(a_report()) == a_report()


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=80))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean(Failure(path=text, error=f"token={text}", remedy=""))

    assert clean(once) == once
    assert not UNSAFE & {ord(character) for character in once.path + once.error}


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.characters(categories=["L", "N", "P"]), max_size=40))
def test_letters_digits_and_punctuation_are_kept(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(
    "unit",
    ["a=", "token", "token-", "token.x", "token=", "token ", "a-", "a.", "auth", "eyJaaaaaaaa-",
     "eyJaaaaaaaa.", "a://", "a+", "http://a:", "bearer ", "-----BEGIN ", "sk-", "\x1b", '"token"',
     "-----BEGIN PRIVATE KEY-----"],
)  # fmt: skip
@pytest.mark.usefixtures("_ends")
def test_the_time_grows_with_the_length(unit: str) -> None:
    text = (unit * LONG)[:LONG]

    clean(Gap(what=text))


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, dict):
        return []  # register names are the decoder's
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [t for f in dataclasses.fields(value) for t in _strings(getattr(value, f.name))]
    return []


def _with_every_string(report: Report, text: str) -> Report:
    replaced = _replace_strings(report, text)
    assert isinstance(replaced, Report)
    return replaced


def _replace_strings(value: object, text: str) -> object:
    if type(value) is str:
        return text
    if isinstance(value, tuple):
        return tuple(_replace_strings(item, text) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {
            field.name: _replace_strings(getattr(value, field.name), text)
            for field in dataclasses.fields(value)
        }
        return type(value)(**changes)
    return value
