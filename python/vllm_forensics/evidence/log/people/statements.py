"""What a statement of a program that somebody shows calls or imports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.page import is_fence
from vllm_forensics.model.incident import NativeCall, PythonCall

_PROMPT: Final = lazily(r"\s{0,8}(?:>>> ?|In ?\[\d{1,4}\]: ?|julia> ?|> (?=\w+(?:[.(:]|\s*<-)))")
"""An interpreter's: Python's, IPython's, Julia's or R's."""
_CODE: Final = lazily(
    r"[\s>`]{0,8}(?:>>> |In ?\[\d{1,4}\]: |\.\.\. )?(?P<code>.{1,300}?)`{0,3}\s*$"
)
_IMPORT: Final = lazily(
    r"(?:from (?P<package>[A-Za-z_][\w.]{1,80}) import\b|import (?P<module>[A-Za-z_][\w.]{1,80}))"
)
_NO_CALL: Final = (
    r"(?:print|len|str|int|float|list|dict|set|range|open|type|isinstance|repr|sum|min|max|sorted|abs|"
    r"if|while|for|return|switch|catch|super|sizeof|enumerate|zip|map|exit|quit|cat|echo|main|test|"
    r"(?i:count|distinct|values|varchar|exists|any|coalesce|row_number|over|now|cast|select|where|"
    r"numeric|decimal|char|avg|interval|extract|concat)|"
    r"input|next|iter|and|or|not|in|assert|elif|lambda|def|class|function|self|format|printf)"
)
_CALL: Final = lazily(
    rf"(?<![\w.:$@\"'%-])(?!{_NO_CALL}\(|faulthandler\.|[A-Z_\d]{{2,60}}\()(?P<function>(?:[A-Za-z_]\w{{0,60}}(?:\.|::)){{0,6}}"
    r"[A-Za-z_]\w{1,60})\((?! )"
)
_LOADED: Final = lazily(
    r"(?:[\w.]{1,40}\.)?(?:require|library|import_module|CDLL|LoadLibrary|dlopen|load_library)"
    r"\([\"']?(?P<name>[\w@./-]{2,80})[\"']?\)"
)
_OF_VALUES: Final = (
    ".split", ".join", ".format", ".strip", ".append", ".items", ".keys", ".values", ".get",
)  # fmt: skip
"""Methods of strings, lists and dictionaries."""
_NOTE: Final = lazily(
    r"\s*(?:#|//|--|\"\"\"|%|def |class |@|if |for |while |with |try:|else|"
    r"\d{1,3}[:.)] |at |frame #|==\d|[A-Z]{2,12}: )"
)
"""Comments, beginnings of blocks, and lines that something printed."""
_MODULE: Final = lazily(
    r"(?:[\w./~-]{0,80}/)?python[\d.]{0,4} (?:-[A-Zu] \S{1,40} )?"
    r"(?:-m (?P<module>[A-Za-z_]\w{1,60})(?![\w.])|"
    r"-c [\"'](?P<code>[^\n]{4,300})[\"'])"
)
"""Python's module that is run, or its statement, in a command of the shell."""
_TOOLS: Final = {"pip", "pytest", "venv", "build", "unittest", "pdb", "ipykernel", "torch", "http"}
_MOST: Final = 16
_ABOVE: Final = 4


def place_in(statement: str) -> NativeCall | PythonCall | None:
    """The function that a statement calls first, or what it imports."""
    code = _CODE.match(statement)
    text = code["code"] if code is not None else ""
    imported = _IMPORT.match(text)
    if imported is not None:
        return import_of(imported["package"] or imported["module"])
    if _NOTE.match(text) is not None:
        return None
    if (loaded := loaded_in(text)) is not None:
        return loaded
    call = _CALL.search(text)
    if call is None or call["function"].endswith(_OF_VALUES):
        return None
    return NativeCall(function=call["function"], module=None)


def loaded_in(code: str, start: int = 0) -> NativeCall | None:
    """The library that a call loads: `require("pool")`."""
    loaded = _LOADED.search(code, start)
    return NativeCall(function=None, module=loaded["name"]) if loaded is not None else None


def import_of(module: str) -> PythonCall:
    """The import of a module as a place."""
    return PythonCall(function=f"import {module.rstrip('.')}", file="<stdin>", line=1)


def typed_above(lines: Sequence[str], at: int) -> NativeCall | PythonCall | None:
    """What was typed at an interpreter's prompt right above a line, or given to Python there."""
    above = [line for line in lines[max(0, at - _ABOVE) : at] if line.strip()]
    for line in reversed(above):
        given = _MODULE.search(line)
        if given is not None and given["module"] is not None:
            is_tool = given["module"].partition(".")[0] in _TOOLS
            return None if is_tool else import_of(given["module"])
        if given is not None:
            return _last_of(given["code"].split(";"))
        prompt = _PROMPT.match(line)
        if prompt is not None:
            return _last_of(line[prompt.end() :].split(";"))
    return None


def _last_of(statements: Sequence[str]) -> NativeCall | PythonCall | None:
    places = (place_in(one.strip()) for one in reversed(statements))
    return next((place for place in places if place is not None), None)


def shown_beside(lines: Sequence[str], at: int) -> NativeCall | PythonCall | None:
    """Of a short program in the fence right below a line, or above, what it does last."""
    below = next((one for one in range(at + 1, len(lines)) if lines[one].strip()), at)
    if below != at and is_fence(lines[below]):
        ends = range(below + 1, min(len(lines), below + _MOST))
        end = next((one for one in ends if is_fence(lines[one])), below)
        if (place := _last_of(lines[below + 1 : end])) is not None:
            return place
    above = next((one for one in range(at - 1, -1, -1) if lines[one].strip()), at)
    if above == at or lines[above].strip() != "```":
        return None
    begins = range(above - 1, max(-1, above - _MOST), -1)
    begin = next((one for one in begins if is_fence(lines[one])), above)
    return _last_of(lines[begin + 1 : above])


def is_import(statement: str) -> bool:
    """Is it an import of Python's?"""
    code = _CODE.match(statement)
    return code is not None and _IMPORT.match(code["code"]) is not None
