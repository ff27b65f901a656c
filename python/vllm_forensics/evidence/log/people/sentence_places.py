"""Where a sentence says that a crash was: in a function or in a library."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.sentence_names import names_a_process
from vllm_forensics.evidence.log.people.statements import loaded_in
from vllm_forensics.model.incident import NativeCall, PythonCall

_LIBRARY: Final = r"[\w.+-]{1,80}?\.(?:so(?:\.\d{1,6}){0,3}|dll|dylib|pyd)\b"
_FUNCTION: Final = (
    r"(?:[A-Za-z_~]\w{0,60}(?:<[\w:, ]{1,60}>)?::){1,6}~?\w{1,80}|"  # ns::take
    # as it is called, also on what another call returned
    r"(?:[A-Za-z_]\w{0,60}(?:\(\))?\.){0,6}[A-Za-z_]\w{0,80}(?=\([\w=\"'., \[\]]{0,80}\)(?!\.\w))|"
    r"_{1,2}[A-Za-z]\w{2,80}(?![\w.])|"  # _take
    r"(?-i:[a-z]{1,20}(?:[A-Z][a-z0-9]{1,20}){2,8})(?![\w./-])|"  # takeBlockFast
    r"(?!x86_)[A-Za-z][A-Za-z0-9]{0,30}(?:_[A-Za-z0-9]{1,30}){1,8}(?![\w./=-])|"  # take_block
    r"[A-Za-z]\w{2,60}(?=[`'\"]? (?:function|method|API|class|constructor|operator)\b)|"
    r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){1,6}(?![\w.])"  # pool.take
)
_FILE: Final = lazily(
    r"(?:[\w./-]{1,120}\.(?:c|cc|cpp|cxx|h|hpp|py|rs|go|js|ts|java|md|txt|cu|sh|yml|yaml|json|toml|"
    r"mk|in|am|cmake|log|xml|html|conf|cfg|ini|lock|ipynb|csv|parquet|h5|pkl|onnx|pt|jar|zip|gz|"
    r"gguf|bin|exe|com|org|net|io)|v?\d[\w.]{0,20}|(?:i|e)\.\w\.?|(?:vs|No)\.)$"
)
_NAMED: Final = lazily(
    rf"[`\"']?(?:(?:[\w.~-]{{0,60}}/){{0,12}}(?P<library>{_LIBRARY})|(?P<function>{_FUNCTION}))"
)
_CALL: Final = lazily(r"[\w.]{1,80}\([^()]{1,80}\)")
_MACRO: Final = lazily(r"(?:[A-Z\d]{1,20}_){1,4}(?:ASSERT|CHECK)(?:_\w{1,20})?$")
"""By which a program checks itself, and may stand anywhere."""
_PLACE: Final = lazily(
    r"(?i)\b(?:in|at|inside|within|during|when|calling|call(?:s|ed)? to|from|of|by|related to|"
    r"due to|using|executing|with|running|function|method|module|on(?! \w*(?:x86|arm|linux|win))) "
    r"(?:the |an? |function |method |module )?"
)
"""Behind such a word of the same sentence the place stands."""
_BEHIND: Final = lazily(r"[^.;\n]{0,80}(?:\.(?=\w)[^.;\n]{0,40}){0,3}")
_NO_MODULE: Final = (
    r"(?!(?:from|of|to|in|an?|the|error|and|or|is|into|time|fail\w*|as|with|for|when|on|function\w*|"
    r"statements?)\b)"
)
_IMPORTED: Final = lazily(
    r"(?<![\w.])(?:from (?P<package>[a-z][\w.]{1,60}) import\b|"
    rf"import (?P<module>{_NO_MODULE}[a-z][\w.]{{1,60}})(?![\w-])|"
    r"(?<![\w./-])(?P<passive>[a-z]\w{1,40}) (?:is|was|gets|got) imported\b|"
    r"importing (?:(?P<quote>[`'\"])(?P<quoted>[a-z][\w.]{1,60})(?P=quote)|"
    r"(?P<known>[a-z]\w{0,40}[._][\w.]{1,40}|[a-z]\w{1,40}(?= (?:module|package|library)\b))))"
)
"""`import pool` as what crashed, or at what it did; who imports files says no module's name."""
_MODULES: Final = ("package", "module", "quoted", "known", "passive")
_NEAR: Final = 40
"""So far before a crash the package with a version stands that crashes."""
_CALLED: Final = lazily(
    r"[`\"']?(?:[\w.:~<>]|\(\)(?=\.)){1,200}(?:\([\w=\"'., \[\]]{0,80}\))?[`\"']? "
    r"(?:\w{1,12} )?(?:(?:an?|to) )?[`\"']?$"
)


_PINNED: Final = lazily(r"(?<![\w./-])(?P<library>[A-Za-z][\w.-]{1,60})==\d[\w.+]{0,30}")
"""A package with its version, as pip is asked for it."""


def place_named(text: str, start: int, end: int) -> NativeCall | None:
    """The function or library that a sentence says the crash between start and end was in."""
    behind = _BEHIND.match(text, end)
    stop = behind.end() if behind is not None else end
    found = [_NAMED.match(text, one.end()) for one in _PLACE.finditer(text, end, stop)]
    subject = _CALLED.search(text[:start])
    if subject is not None:
        found.append(_NAMED.match(text[:start], subject.start()))
    for match in filter(None, found):
        library, function = match["library"], match["function"]
        is_none = function is not None and (
            _FILE.match(function) or _MACRO.match(function) or names_a_process(function)
        )
        if not is_none:
            called = _CALL.match(match.string, match.start("function")) if function else None
            if called is not None and (loaded := loaded_in(called[0])) is not None:
                return loaded
            name = function.replace("()", "") if function is not None else None
            return NativeCall(function=name.rstrip(":") if name else name, module=library)
    pinned = _PINNED.search(text, max(0, start - _NEAR), start)
    return NativeCall(function=None, module=pinned["library"]) if pinned is not None else None


def import_named(text: str, start: int, end: int) -> PythonCall | None:
    """The import at which a sentence says the crash between start and end was."""
    found = _IMPORTED.search(text, end) or _IMPORTED.search(text, 0, start)
    if found is None:
        return None
    module = next(found[name] for name in _MODULES if found[name] is not None)
    return PythonCall(function=f"import {module}", file="<stdin>", line=1)
