"""All that comes out of a core was chosen by somebody else: made harmless, secrets masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

_MASK: Final = "********"
_WORD: Final = r"[A-Za-z0-9_.\-]"
_SECRET_NAME: Final = (
    rf"(?<!{_WORD})(?={_WORD}*?(?:token(?!i[sz])|secret|passw(?:or)?d|passphrase|api[_-]?key|"
    rf"access[_-]?key|private[_-]?key|credential|auth(?!or(?!i[sz])))){_WORD}++"
)
"""Neither a tokenizer nor an author is one. A whole word, looked through once: what is masked may
be chosen to make backtracking explode."""
_NO_COUNT: Final = r"(?:(?<!tokens)|(?![\"']?[\s=:]+[\"']?\d{1,9}(?:[\s\"',;&})\]]|$)))"
"""`--max-num-batched-tokens 8192` says how many, and is no secret."""

_WITHOUT_ANY_NO_SECRET: Final = (
    *("token", "secret", "passw", "passphrase", "key", "credential", "auth", "bearer"),
    *("://", "akia", "asia", "eyj", "-----begin "),
)
_BASIC: Final = re.compile(r"basic\s")
# The dash stands first: then few places of a text are looked at.
_KEY: Final = re.compile(r"[-_](?<=(?:hf|[spr]k|h[pors]|at|x[abprs]|pm|pi)[-_])[a-z0-9_-]{12}")
# C0 and C1 controls but tab and newline; bidirectional overrides and isolates; line and paragraph
# separators; zero-width characters; byte order mark.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)

_SHORT: Final = 512
_NUMBERS: Final = frozenset(
    f"{kind}{none}" for kind in ("int", "bool", "float", "Address") for none in ("", " | None")
)
"""Types as they are annotated, of fields that hold no text."""
_FIELDS_WITH_TEXT: Final[dict[type[Any], tuple[str, ...]]] = {}
_SAFE_ASCII: Final = bytes(code for code in range(128) if not _UNSAFE.match(chr(code)))


@cache
def _secrets() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What a secret looks like, and what stands for it; compiled when a text may hold one."""
    return (
        # NAME=value, NAME: value, --name value, "name": "value"
        (
            re.compile(
                rf"(?i)({_SECRET_NAME}{_NO_COUNT}[\"']?(?:\s*[=:]\s*|\s+)[\"']?)"
                r"((?!-|(?:bearer|basic)\s)[^\s\"',;&]{4,})"
            ),
            rf"\1{_MASK}",
        ),
        (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{8,}"), rf"\1 {_MASK}"),
        (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://[^/\s:@]+:)[^@\s/]+@"), rf"\1{_MASK}@"),
        (
            re.compile(
                r"\b(?:hf|ghp|gho|ghs|ghr|github_pat|glpat|sk|pk|rk|xox[abprs]|npm|pypi)"
                r"[-_][A-Za-z0-9_\-]{12,}"
            ),
            _MASK,
        ),
        (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), _MASK),
        (re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), _MASK),
        (
            re.compile(
                r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
                re.DOTALL,
            ),
            _MASK,
        ),
    )


def mask_secrets(text: str) -> str:
    """Replace what looks like a password, key or token; the name beside it stays."""
    if not may_hold_secret(text):
        return text
    for pattern, replacement in _secrets():
        text = pattern.sub(replacement, text)
    return text


def may_hold_secret(text: str) -> bool:
    """False where no secret can be: much cheaper than to search for each kind of them."""
    if not text.isascii():  # letters of other alphabets count as s, k and i where case does not
        return True
    low = text.lower()
    for word in _WITHOUT_ANY_NO_SECRET:
        if word in low:
            return True
    return _KEY.search(low) is not None or ("basic" in low and _BASIC.search(low) is not None)


def is_clean(text: str) -> bool:
    """True where `clean` would surely give the text back as it is, and each part of it too."""
    if text.isascii():  # the same question, at a tenth of the cost
        is_safe = not text.encode().translate(None, _SAFE_ASCII)
    else:
        is_safe = _UNSAFE.search(text) is None
    return is_safe and not may_hold_secret(text)


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Mask the values of options such as --token, whole: a password may hold blanks and quotes."""
    masked, option = [], ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if equals and value and _is_secret(name, value):
            masked.append(f"{name}={_MASK}")
        elif option and not argument.startswith("-") and _is_secret(option, argument):
            masked.append(_MASK)
        else:
            masked.append(mask_secrets(argument))
        option = argument if argument.startswith("-") else ""
    return tuple(masked)


def _is_secret(name: str, value: str) -> bool:
    counts = name.lower().endswith("tokens") and value.isdecimal() and len(value) < 10
    return not counts and re.fullmatch(rf"(?i){_SECRET_NAME}", name) is not None


def escape(text: str) -> str:
    r"""Show control characters, bidirectional marks and undecodable bytes as `\x1b`, `\u202e`."""
    return _UNSAFE.sub(_visible, text)


def clean(value: T, *, include_secrets: bool = False) -> T:
    """A copy of a model value with every string escaped, and masked unless told otherwise."""
    return map_strings(value, escape if include_secrets else _escaped_and_masked)


def _escaped_and_masked(text: str) -> str:
    return _known_text(text) if len(text) <= _SHORT else _treated(text)


def _treated(text: str) -> str:
    masked = mask_secrets(text)
    escaped = escape(masked)
    # Once more at the end: `token=` and a control character is a name and a value only then.
    return escaped if escaped == text else mask_secrets(escaped)


_known_text: Final = lru_cache(maxsize=16_384)(_treated)
"""Many cores of one program have the same paths and functions."""


def map_strings(value: T, treat: Callable[[str], str]) -> T:
    """A copy of a model value with every string treated; the value itself where nothing changes."""
    # Every branch below gives back the type that it was given; mypy cannot follow that.
    return cast("T", _map_strings(value, treat))


def _map_strings(value: Any, treat: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return value if isinstance(value, Enum) else treat(value)
    if isinstance(value, tuple):
        return tuple([_map_strings(item, treat) for item in value])
    changes = {}
    for name in _fields_with_text(type(value)):
        before = getattr(value, name)
        after = _map_strings(before, treat)
        if after is not before and after != before:
            changes[name] = after
    return replace(value, **changes) if changes else value


def _fields_with_text(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a dataclass that may hold strings; none of anything else."""
    found = _FIELDS_WITH_TEXT.get(kind)
    if found is None:
        every = fields(kind) if is_dataclass(kind) else ()
        found = tuple(field.name for field in every if field.type not in _NUMBERS)
        _FIELDS_WITH_TEXT[kind] = found
    return found


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: the byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
