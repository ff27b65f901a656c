"""Frames in forms that no table knows: a number or an address, and a name that can be a function's.

Only what stands below a death's message is read so.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.lazily import lazily

_MAX: Final = 1_200
_NAME: Final = r"(?:\(anonymous namespace\)::)?[A-Za-z_~$?@][\w:~<>.$@*&`'-]{0,300}"
_MARK: Final = lazily(
    r"[\s>*|\"-]{0,12}(?:\[?(?i:call ?stack|stack|bt|frame|trace)\]?[ :]{1,3})?"
    r"(?P<number>(?:[#\[(]{1,2}\d{1,3}[\]):.]{0,2}|\d{1,3}[#\]):.]{1,2}|\d{1,3}(?= ))\s{1,8})?"
    r"(?P<address>[\[(]?(?:0x[0-9a-fA-F]{5,16}|[0-9a-fA-F]{8,16}(?![\w-]))[\])]?[: ]\s{0,8}"
    r"(?:- |in |@ )?)?"
)
_SOURCE: Final = r"(?:[^\s()\[\]]{0,240}\.\w{1,5}|[^\s()\[\]]{0,240}/include/[a-z_]{2,30})"
_SHAPES: Final = (
    # serve(ns::f(int) const+0x12) [0x5581c0de1234]
    lazily(
        r"(?P<module>[\w./+-]{1,240})\((?P<function>[^\[]{1,600}?)\+(?P<offset>0x[0-9a-fA-F]+)"
        r"\) ?\[0x"
    ),
    # src/f.c:12 f, /src/f.c:12:3 in f
    lazily(rf"(?P<source>{_SOURCE}):\d{{1,6}}(?::\d{{1,5}})?:? (?:in |- )?(?P<function>{_NAME})"),
    # (module) ns::f
    lazily(rf"\((?P<module>[\w.-]{{1,80}})\) (?P<function>{_NAME})"),
    # module!ns::f(int) + 0x12 [src/f.cpp:12]
    lazily(
        r"(?P<module>[^\s!()]{1,240})!(?P<function>[^\s\[+(][^\[+(]{0,300})(?:\(|\[|\+| \[|\s|$)"
    ),
    # /lib/libexample.so(ns::f(int)+0x12), /lib/libexample.so(+0x12), (/lib/libexample.so)
    lazily(
        r"\(?(?P<module>[\w./+-]{0,200}(?:\.so|\.dll|\.dylib|\.exe|/)[\w./-]{0,120})"
        r"(?:\((?P<function>[^+()]{0,300}[^+]{0,200}?)?(?:\+(?P<offset>0x[0-9a-f]+))?\)|"
        r" ?\+ ?(?P<plus>0x[0-9a-f]+)\)?|\))"
    ),
    # ns::f(int, char const*) + 12 in /lib/libexample.so
    lazily(
        rf"(?P<function>(?:[\w:<>*& ]{{0,60}} )?{_NAME}(?:<[^()]{{0,400}}>)?(?:::{_NAME})?"
        r"(?:\((?P<arguments>[^()]{0,400}(?:\([^()]{0,80}\)[^()]{0,200}){0,4})\)(?: const)?)?)"
        r"(?: ?\+ ?(?:0x[0-9a-f]+|\d{1,9})(?:/0x[0-9a-f]+)?)?"
        r"(?: ?@ ?0x[0-9a-f]{4,16})?"
        r"(?P<end>(?: in| from)? \(?(?P<module>/?[\w./+-]{2,240}?)[)+]| (?:in|from) "
        r"(?P<within>[\w./+-]{1,240})| at \S| \(\S{1,240}:\d| \[| - |:\d|\s*$)"
    ),
)
_NOT_NAMES: Final = lazily(
    r"(?i)(?:unknown|pc|build ?id|n/a|null|nil|none|missing|no symbols?|inlined|the|an?|is|in|to)$"
)
_RANGE: Final = lazily(r"\s*(?:0x)?[0-9a-fA-F]{4,16} ?- {1,16}(?:0x)?[0-9a-fA-F]{4,16}\b")
"""Where a library or a mapping begins and ends: a list of them is no stack."""
_MASK: Final = lazily(r"\d+|[0-9a-f]{8,16}")
_PREFIX: Final = 200
_ENDS: Final = ("] ", ": ", "> ", "| ", ") ", "- ", "# ")


_CODE: Final = lazily(
    r"(?:[0-9a-f]{2} ){0,15}\s{0,40}(?:lock |rep[nze]{0,3} )?"
    r"(?:[a-z][a-z0-9]{1,8}(?:\.\w{1,4})?\s{2,}\S|"
    r"(?:v?mov|lea|call|j[a-z]{1,3}|cmp|test|push|pop|ret|nop|add|sub|xor|and|or|inc|dec|int3?|hlt|ud2|"
    r"ldr|str|ldp|stp|bl|blr|cbz|cbnz|svc|brk)[a-z]{0,4}(?:\s|$)(?! ?\())"
)
"""An instruction, as a disassembler shows it behind its address."""


def any_frame(text: str) -> dict[str, str | None] | None:
    """Function, module and offset of a frame in whatever form; None where it is none."""
    text = text[:_MAX]
    mark = _MARK.match(text) if _RANGE.match(text) is None else None
    if mark is None or not (mark["number"] or mark["address"]):
        return None
    is_sure = mark["address"] is not None
    if is_sure and _CODE.match(text, mark.end()) is not None:
        return None
    if not is_sure and mark["number"].strip().isdecimal() and "0x" not in text:
        return None
    for shape in _SHAPES:
        match = shape.match(text, mark.end())
        if match is not None:
            found = match.groupdict()
            name = found.get("function")
            if not is_sure and not _is_calllike(found, text):
                continue
            if name is not None and _NOT_NAMES.match(name.strip()):
                name = None
            module = found.get("module") or found.get("within")
            if name is None and module is None:
                continue
            return {
                "function": name.strip() if name else None,
                "module": module,
                "offset": found.get("offset") or found.get("plus"),
            }
    return None


def _is_calllike(found: dict[str, str | None], text: str) -> bool:
    """Without an address a list's item is a frame where it names a call, a place or a library."""
    if found.get("source") or found.get("offset") or found.get("plus"):
        return True
    if found.get("arguments") is not None:
        return True
    name = found.get("function") or ""
    return "::" in name or ("!" in text and found.get("module") is not None) or " 0x" in text


def without_prefix(anchor: str, text: str) -> str | None:
    """The line without what a logger put before both lines alike, but for the numbers in it."""
    one, other = _MASK.sub("0", anchor[:_PREFIX]), _MASK.sub("0", text[:_PREFIX])
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if same is None:
        return None
    end = max(one.rfind(mark, 0, same) + len(mark) if mark in one[:same] else 0 for mark in _ENDS)
    if end == 0:
        return None
    return text[_unmasked(text, end) :]


def _unmasked(text: str, length: int) -> int:
    """Where in the text so many letters of its masked form end."""
    masked, position = 0, 0
    for match in _MASK.finditer(text[: 2 * _PREFIX]):
        plain = match.start() - position
        if masked + plain >= length:
            break
        masked += plain + 1
        position = match.end()
    return position + length - masked
