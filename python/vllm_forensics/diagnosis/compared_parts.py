"""Holds the parts of two signatures against each other: for reports and for crashes alike."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.sanitizer_sieve import SIGNATURE, signature_key
from vllm_forensics.model.sanitizer_why import Compared, Why, WhySide
from vllm_forensics.model.signature import SignaturePart

MAX_NAMED: Final = 4


def aligned(
    one: tuple[SignaturePart, ...], other: tuple[SignaturePart, ...]
) -> tuple[Compared, ...]:
    """Parts by name; of a name that comes several times (leaks, locks), by value."""
    pairs = []
    for name in dict.fromkeys(part.name for part in (*one, *other)):
        ours = [part.value for part in one if part.name == name]
        theirs = [part.value for part in other if part.name == name]
        if len(ours) <= 1 and len(theirs) <= 1:
            ours_, theirs_ = next(iter(ours), None), next(iter(theirs), None)
            pairs.append(Compared(name=name, one=ours_, other=theirs_))
            continue
        for value in dict.fromkeys((*ours, *theirs)):
            pairs.append(
                Compared(
                    name=name,
                    one=value if value in ours else None,
                    other=value if value in theirs else None,
                )
            )
    return tuple(pairs)


def verdict(parts: tuple[Compared, ...], differing_kinds: tuple[str, ...], *, same: bool) -> str:
    """One sentence or two; `differing_kinds` name what differs without counting."""
    if same:
        sentence = f"One bug by the signature: all {len(parts)} parts agree."
        if differing_kinds:
            sentence += f" What differs does not count: {listed(differing_kinds)}."
        return sentence
    differing = [pair for pair in parts if not pair.agrees]
    said = "; ".join(
        f"{pair.name}: {pair.one or 'none'} in the first, {pair.other or 'none'} in the second"
        for pair in differing[:MAX_NAMED]
    )
    more = f"; {len(differing) - MAX_NAMED} more" if len(differing) > MAX_NAMED else ""
    return (
        f"Two bugs by the signature: {len(differing)} of {len(parts)} parts differ ({said}{more})."
    )


def listed(names: tuple[str, ...]) -> str:
    """The first few, and how many more."""
    more = f", {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def why_signatures(one: WhySide, other: WhySide, *, ask: str) -> Why:
    """At least one of the two is only a signature: it keeps no parts, only a hash of them.

    `ask` says how to learn more.
    """
    pieces = [SIGNATURE.fullmatch(side.signature) for side in (one, other)]
    groups = [piece.groupdict() if piece is not None else {} for piece in pieces]
    parts = tuple(
        Compared(name=name, one=groups[0].get(name), other=groups[1].get(name))
        for name in ("version", "kind", "name", "hash")
    )
    same = signature_key(one.signature) == signature_key(other.signature)
    if not parts[0].agrees:
        said = "The signatures are of different versions: they cannot be compared."
    elif same:
        said = "One bug: the hashes, which cover every part, are equal."
    else:
        said = f"Two bugs: the hashes differ. A signature alone does not say by which part: {ask}"
    return Why(one=one, other=other, same=same, parts=parts, dropped=(), explanation=said)
