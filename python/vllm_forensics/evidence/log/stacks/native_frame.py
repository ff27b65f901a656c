"""Reads one line as a native frame: only the forms that may fit its beginning are tried."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from typing import Final, NamedTuple

from vllm_forensics.evidence.demangle import demangle, unescape
from vllm_forensics.evidence.log.phrases import base_name
from vllm_forensics.evidence.log.stacks.any_frame import any_frame, without_prefix
from vllm_forensics.evidence.log.stacks.frame_form import Form
from vllm_forensics.evidence.log.stacks.native_forms import FORMS
from vllm_forensics.model.incident import NativeCall

_NO_NAME: Final = {
    "???",
    "()",
    "Unknown",
    "Unknown symbol",
    "UnknownFunction",
    "(function-name not available)",
    "?",
    "(unknown)",
    "<unknown function>",
    "<unknown>",
    "<unavailable>",
    "Symbols not available",  # Blender's
    "n/a",
    "at",
    "from",
    "in",  # KDE's debugger: `#5 0x… in  () at /lib/libpool.so`
    "??",
    "",
}
_PROGRAMS: Final = re.compile(r"^/(?:[\w.+-]{1,80}/){0,12}(?:s?bin|libexec)/[\w+-]{1,60}$")
_LLDBS_PROGRAM: Final = re.compile(r"(?!dyld)[a-z][\w+-]{1,60}")
"""Of macOS's modules libraries have a suffix, and frameworks a capital."""
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_BEFORE: Final = re.compile(r"0x[0-9a-f]{6,16}(?: (?:in\b)?|$)|<unknown>(?=[\w~])")
"""What some write before a name, and it is no part of it."""
_LARGEST: Final = 1 << 20
"""No function has so many bytes: what lies further in is of another one, which has no symbol."""
_LARGEST_MAIN: Final = 1 << 16
"""A stripped program keeps this one symbol, and everything seems to be in it."""
_NO_FUNCTION: Final = (
    "___lldb_unnamed_symbol",
    "vtable for ",
    "typeinfo for ",
    "typeinfo name for ",
    "guard variable for ",
)
"""What else has a symbol."""


_CUT_PATH: Final = re.compile(r"/(?:site|dist)-packages/(?:[^/]{1,100}/){0,8}[^/.]{1,80}$")
"""The folder in which a page broke the path of an extension of Python's."""
_OF_PYTHON: Final = re.compile(r"\) at (?:\S{0,200}/)?(?:Objects|Python)/\w{1,40}\.c:\d")
"""A debugger names the interpreter's own sources, and no module: those are the program's."""
_PYTHON: Final = "python"


_BELOW: Final = ("at ", "from /", "/")
_FROM: Final = re.compile(r"\s*from (?P<module>/\S{1,240})$")
"""gdb breaks long frames: the library stands on the next line."""
_ARGUMENTS: Final = re.compile(r"^\s{4,20}[A-Za-z_]\w{0,60}(?:@entry)?=.{0,600}\) (?=at \S|from /)")
_SOURCE: Final = re.compile(
    r"\s{4,20}at (?P<file>\S{1,240}?):(?P<line>\d{1,7})(?::\d{1,6})?$|"
    r"\s{1,12}(?P<go>[\w/.@~:\\-]{1,240}\.go):(?P<at>\d{1,7})(?: \+0x[0-9a-f]+)?$"
)
"""Rust and Go write a frame's source below it, and gdb where the frame is long."""
ANYBODYS: Final = Form(writer="anybody", example="", pattern="", begins="", holds="")
"""The form of a frame that was read by what all frames have in common."""


class Frame(NamedTuple):
    """A line that is a frame."""

    call: NativeCall
    form: Form


def frame_in(text: str, source: str = "") -> Frame | None:
    """The frame that a line holds, in the forms of everybody and of the stack's own source."""
    for form, pattern in _forms(text.lstrip()[:1], source):
        if form.holds in text:
            match = pattern.match(text)
            if match is not None:
                call = call_of(match.groupdict())
                if form.names_program and _LLDBS_PROGRAM.fullmatch(call.module or ""):
                    call = replace(call, is_program=True)
                is_python = call.module is None and _OF_PYTHON.search(text) is not None
                return Frame(replace(call, module=_PYTHON) if is_python else call, form)
    return None


def frame_of_anybody(text: str, death: str) -> Frame | None:
    """The same in no known form, or behind a logger's prefix that the death's own line has too."""
    groups = any_frame(text)
    if groups is None and (own := without_prefix(death, text)) is not None:
        frame = frame_in(own)
        if frame is not None:
            return frame
        groups = any_frame(own)
    return Frame(call_of(groups), ANYBODYS) if groups is not None else None


@lru_cache(maxsize=1024)
def _forms(first: str, source: str) -> tuple[tuple[Form, re.Pattern[str]], ...]:
    return tuple(
        (form, _compiled(form.pattern))
        for form in FORMS
        if form.source in {None, source} and re.match(form.begins, first) is not None
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def call_of(groups: dict[str, str | None]) -> NativeCall:
    """The call that a form's groups tell."""
    name = (groups.get("function") or groups.get("symbol") or "").strip()
    offset, pc = groups.get("offset"), groups.get("pc")
    name = _BEFORE.sub("", name).strip()
    name = name.removeprefix("__GI_")  # glibc's own name for a function of the same name
    hexadecimal = offset if groups.get("symbol") else None
    within = int(hexadecimal or "0", 16) or int(groups.get("within") or 0)
    name = "" if name.startswith(_NO_FUNCTION) or _lies_behind(name, within) else name
    is_none = name in _NO_NAME or _NUMBER.fullmatch(name) or not name.strip("_")
    function = None if is_none else name
    if function is not None and function.startswith(("_Z", "_RN", "_RI")):
        function = demangle(function) or function
    function = unescape(function) if function is not None else None
    program = groups.get("program")
    module = (program or groups.get("module") or "").strip() or None
    if module is not None and _CUT_PATH.search(module) is not None:
        module = None
    if pc is not None and function is None:  # within its library
        offset = hex(int(pc, 16))
    file, line = groups.get("file"), int(groups.get("line") or 0)
    has_source = file is not None and file not in _NO_NAME and line > 0
    return NativeCall(
        function=function,
        module=None if _is_nameless(module) else base_name(module),
        offset=offset,
        file=file if has_source else None,
        line=line if has_source else None,
        is_program=program is not None or _PROGRAMS.search(module or "") is not None,
    )


def _lies_behind(name: str, within: int) -> bool:
    """Is the place too far from the beginning of the nearest symbol to be within it?"""
    return within >= (_LARGEST_MAIN if name == "main" else _LARGEST)


def _is_nameless(module: str | None) -> bool:
    """Is there no module, or one of which somebody left the folder alone?"""
    return module is None or module in _NO_NAME or module.endswith("/") or module.startswith("+")


def completed(call: NativeCall, text: str) -> NativeCall | None:
    """The call with what the line below it tells: its library or its source; None: nothing."""
    if not text[:1].isspace():
        return None
    # its arguments took more lines
    text = _ARGUMENTS.sub("    ", text, count=1) if text.startswith("    ") else text
    if not (text.lstrip().startswith(_BELOW) or ".go:" in text):
        return None
    if call.module is None and (told := _FROM.match(text)) is not None:
        return replace(call, module=base_name(told["module"]))
    source = _SOURCE.match(text) if call.file is None else None
    if source is None:
        return None
    file, line = source["file"] or source["go"], int(source["line"] or source["at"])
    module = _PYTHON if call.module is None and _OF_PYTHON.search(f") at {file}:{line}") else None
    return replace(call, file=file, line=line, module=call.module or module)
