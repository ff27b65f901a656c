"""Who speaks in a text, and to whom: of himself, to a reader, or of what may happen to anybody.

Only words of grammar are asked for, pronouns and conjunctions, of which a language has few and
makes no new ones. What a text is about does not matter here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.model.record import dataclass


class Persons(NamedTuple):
    """How often a text speaks in which way."""

    first: int
    """Of him who writes."""
    reader: int
    """To him who reads."""
    supposed: int
    """Of what is so if, when, or may be so."""
    general: int
    """Of what usually is so, or for example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    known_by: re.Pattern[str]
    """Its commonest words, that stand in every paragraph."""
    first: re.Pattern[str]
    reader: re.Pattern[str]
    supposed: re.Pattern[str]
    general: re.Pattern[str]


def _of(known_by: str, first: str, reader: str, supposed: str, general: str) -> _Language:
    return _Language(
        known_by=lazily(known_by, re.IGNORECASE),
        first=lazily(first, re.IGNORECASE),
        reader=lazily(reader, re.IGNORECASE),
        supposed=lazily(supposed, re.IGNORECASE),
        general=lazily(general, re.IGNORECASE),
    )


_NEVER: Final = r"(?!)"
_LANGUAGES: Final = {
    "English": _of(
        r"\b(?:the|and|is|of|to|in)\b",
        _NEVER,  # they say I in lessons as well: the verb decides, see lessons.py
        r"\b(?:you|your|let's)\b",
        r"\b(?:(?:if|when|whenever)(?! (?:I|we|my|our)\b)|can|may|might|could|should|must)\b",
        r"\b(?:usually|typically|commonly|often|frequently|generally|for example|means that)\b",
    ),
    "German": _of(
        r"\b(?:der|die|das|und|ist|ein|eine|nicht|zu)\b",
        r"\b(?:ich|mir|mich|mein\w{0,2}|bei uns)\b",
        r"(?<=[a-z\u00df-\u00ff,] )(?-i:Sie|Ihnen|Ihr\w{0,2})\b|\b(?:du|dein\w{0,2}|man)\b",
        r"\b(?:wenn|falls|sobald|kann|können|muss|sollten?)\b",
        r"\b(?:meist(?:ens)?|normalerweise|typischerweise|zum beispiel|z\. ?b\.|bedeutet)",
    ),
    "French": _of(
        r"\b(?:les?|la|et|est|une?|des|pas|que)\b",
        r"\b(?:je|mon|mes|moi)\b|\bj['\u2019]",
        r"\b(?:vous|votre|vos)\b|\bon (?:peut|doit|ne)\b",
        r"\b(?:si|lorsque|quand|peut|peuvent|doit|devez|pouvez)\b|\b(?:lorsqu|s)['\u2019]",
        r"\b(?:généralement|souvent|habituellement|par exemple|signifie)\b",
    ),
    "Spanish": _of(
        r"\b(?:el|los|las|que|una?|es|del|por|y)\b",
        r"\b(?:yo|mis?|tengo|estoy|me (?:sale|aparece|da))\b",
        r"\b(?:usted(?:es)?|tus?|puedes|podemos)\b",
        r"\b(?:si|cuando|pueden?|deben?|puedes)\b",
        r"\b(?:generalmente|normalmente|por ejemplo|significa)\b",
    ),
    "Portuguese": _of(
        r"\b(?:os|as|que|uma?|não|do|da|é|em)\b",
        r"\b(?:eu|meus?|minhas?|estou|tenho)\b",
        r"\b(?:vocês?|seus?|suas?)\b",
        r"\b(?:se|quando|podem?|devem?)\b",
        r"\b(?:geralmente|normalmente|por exemplo|significa)\b",
    ),
    "Russian": _of(
        r"\b(?:и|в|не|на|что|это|\u0441|для|к|за|по|он|как|из|\u0430)\b",
        r"\b(?:я|меня|мне|мой|моя|моего|моё)\b",
        r"\b(?:вы|вас|вам|ваш\w{0,3})\b",
        r"\b(?:если|когда|может|могут|можно|нужно|следует)\b",
        r"\b(?:обычно|часто|например|означает)\b",
    ),
    "Chinese": _of(
        r"[的了是在和与或]",
        r"我(?!们|将|会|来)|请问|求助|本人",
        r"[你您]|我们|咱们",
        r"如果|若|当[^,\uff0c。]{1,20}时|的时候|可以|可能|会|应该|需要",
        r"通常|一般|例如|比如|表示|意味着|指的是",
    ),
    "Japanese": _of(
        r"[はがのをに]",
        r"私|僕|当方|教えて|困って|しまい|でしょうか",
        r"ください|ましょう|あなた|ます。",
        r"場合|とき|すると|できます|可能性|べき|なければ",
        r"通常|一般|例えば|たとえば|よくある|意味",
    ),
    "Korean": _of(
        r"[\uac00-\ud7a3](?:\uc740|\ub294|\uc774|\uac00|\uc744|\ub97c)(?![\uac00-\ud7a3])",
        r"저는|제가|저도|저희|도와",
        r"하세요|십시오|합시다|보세요|(?<![았었했였됐])습니다|[합됩입]니다|예요|데요",
        r"경우|할 때|하면|수 있|해야",
        r"보통|일반적|대개|예를 들|의미",
    ),
}  # fmt: skip
_ENOUGH: Final = 3
"""So many of its commonest words stand in a text that is written in a language."""
_KANA: Final = lazily(r"[\u3040-\u30ff]")


def persons_in(prose: Sequence[str]) -> Persons:
    """In which way the lines that people wrote speak, whatever their languages."""
    text = "\n".join(prose)
    seen = {name: len(one.known_by.findall(text)) for name, one in _LANGUAGES.items()}
    if _KANA.search(text) is not None:
        seen["Chinese"] = 0
    best = max(seen.values())
    spoken = [
        _LANGUAGES[name] for name, count in seen.items() if count >= _ENOUGH and 2 * count > best
    ]
    return Persons(
        first=sum(len(one.first.findall(text)) for one in spoken),
        reader=sum(len(one.reader.findall(text)) for one in spoken),
        supposed=sum(len(one.supposed.findall(text)) for one in spoken),
        general=sum(len(one.general.findall(text)) for one in spoken),
    )
