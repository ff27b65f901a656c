"""The search finds what a plain search for each word finds, and counts the lines before it."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.sanitizer.needles import Search, words

WORDS = (b"Sanitizer", b"runtime error:", b"*** ***", b"ubsan: ", b"==  at", b"qqq")
PARTS = (
    *WORDS,
    *(b"\n", b"S", b"Sz", b"um:", b"***", b"noise ", b"anitizer", b"q", b"x" * 20_000),
    b"line of 40 bytes with nothing to find..\n" * 900,
)


def plainly(data: bytes, position: int) -> int:
    found = [at for word in WORDS if (at := data.find(word, position)) >= 0]
    return min(found, default=len(data))


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PARTS), max_size=30).map(b"".join))
@example(b"x" * 20_000 + b"Sanitizer")
def test_every_word_is_found_in_order(data: bytes) -> None:
    search, position = Search(data, words(WORDS)), 0

    while position < len(data):
        skipped = search.skip(position)

        assert skipped.position == plainly(data, position)
        assert skipped.lines == data.count(b"\n", position, skipped.position)
        position = data.find(b"\n", skipped.position) + 1 or len(data)


def test_a_word_without_a_rare_letter_is_found_too() -> None:
    data = b"p\n" * 50_000 + b"qqq"

    assert Search(data, words(WORDS)).skip(0).position == 100_000
