"""Reads one stack frame in every form that a runtime, a symbolizer or a platform prints it.

The forms, with an example each, are in tests/py/evidence/sanitizer/test_frames.py.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from vllm_forensics.model.sanitizer import PrintedFrame

_FRAME: Final = re.compile(r"#(\d{1,4})(?:\.\d+)?:?[ \t]+(?:(?:pc )?(0x[0-9a-fA-F]+)(?:[ \t]+|$))?")
_ANDROID: Final = re.compile(
    r"#(\d{1,4})[ \t]+pc ([0-9a-f]{6,16})[ \t]+(\S+)(?: \(offset 0x[0-9a-f]+\))?"
    r"(?: \((?!BuildId: )(.*?)(?:\+\d+)?\))?"
    r"(?: \(BuildId: ([0-9a-fA-F]+)\))?$"
)
_BUILD_ID: Final = re.compile(r"\(BuildId: ([0-9a-fA-F-]+)\)$")
_CUT_BUILD_ID: Final = re.compile(r" \(BuildId:? ?[0-9a-fA-F]{0,64}$")
_MODULE: Final = re.compile(r"\(([^()]*(?:\([^()]*\)[^()]*)*?)\+(0x[0-9a-fA-F]+)\)$")
_MODULE_ARCHITECTURE: Final = re.compile(
    r":(?:x86_64h?|i386|arm64e?|armv7s?k?|arm64_32|aarch64|unknown)$"
)
_FUCHSIA_MODULE: Final = re.compile(r"[ \t]<([^<>]+)>\+(0x[0-9a-fA-F]+)(?: sp 0x[0-9a-fA-F]+)?$")
_GLIBC: Final = re.compile(r"(\S+?)\(([^()+]*)(?:\+(0x[0-9a-fA-F]+))?\)[ \t]*\[(0x[0-9a-fA-F]+)\]$")
_BARE_PC: Final = re.compile(r"\[(0x[0-9a-fA-F]+)\]$")
_UNKNOWN_MODULE: Final = re.compile(r"\(<unknown module>\)$")
_PLACE: Final = re.compile(r":(\d{1,9}|\?)(?::(\d{1,9}))?$")
_MSVC_PLACE: Final = re.compile(r"\((\d{1,9})(?:,(\d{1,9}))?\)$")
_NO_PLACE: Final = re.compile(
    r"[ \t](?:<null>|:\?|<compiler-generated>(?::0)?|\?\?(?::(?:0|\?)(?::0)?)?)$"
)
_REMARK: Final = re.compile(r" \((?:discriminator \d+|inlined by)\)$|, r0=-?\d+$")
"""What addr2line, and a symbolizer of a program's own, write behind a place."""
_DEBUGGER: Final = re.compile(
    r" \((?:\w+=.*)?\)(?: (?:at|from) .*)?$| \(.*\) (?:at \S.*:\d+|from /\S.*)$"
)
"""gdb's frames part the name from its arguments by a blank; no runtime's symbolizer does."""
_MODULE_ALONE: Final = re.compile(r"[\w.+-]+\.(?:so(?:\.[\d.]+)?|dylib|dll)")
_PREPOSITION: Final = re.compile(r" (?:in|at)$")
_PARENTHESIS: Final = re.compile(r"\([^()]*\)")
_FUNCTION_OFFSET: Final = re.compile(r"\+0x[0-9a-fA-F]+$")
_ABSOLUTE: Final = re.compile(r"[ \t](?=/[^ \t(&=/]|[A-Za-z]:[\\/]|\\\\[^\\ ])")
_FILE_NAME: Final = re.compile(r"[^ \t()<>]*\.[A-Za-z0-9_+]{1,12}$|[^ \t()<>]*[\\/][^ \t()<>]*$")
_AFTER_ARGUMENTS: Final = re.compile(
    r"\)(?: (?:const|volatile|noexcept|&&?)| ?\[[^\]]*\]| ?\(\.[\w.]+\)|\.[\w.]+)*[ \t]+(?=[^ \t(])"
)
_OPERATOR: Final = re.compile(r"operator(?:->\*?|<=>|<<=?|>>=?|<=|>=|<|>)|->")


@lru_cache(maxsize=8192)
def parse_frame(text: str) -> PrintedFrame | None:
    """One frame out of a stripped line, or None where the line is no frame."""
    match = _FRAME.match(text)
    if match is None:
        return None
    index, pc, rest = int(match[1]), match[2], text[match.end() :].rstrip()
    if " (" in rest:
        if _is_of_a_debugger(rest):
            return None
        if "(core dumped)" in rest:  # the shell's words cut the frame off
            rest = ""
    return _with_pc(index, pc, rest) if pc is not None else _without_pc(index, text, rest)


def _with_pc(index: int, pc: str, rest: str) -> PrintedFrame | None:
    if rest.startswith("in "):
        rest = rest[3:].lstrip()
    elif rest and not rest.startswith(("(", "<", "[")):
        # A place without a function, a custom stack_trace_format ("#%n %p %f %S"), or no frame.
        if _is_place(rest):
            return _named(index, pc, rest, has_function=False)
        if not _looks_named(rest):
            return None
    else:
        rest = " " + rest
    return _named(index, pc, rest)


def _is_of_a_debugger(rest: str) -> bool:
    return _DEBUGGER.search(rest) is not None and _MODULE.search(rest) is None


def _is_place(rest: str) -> bool:
    place = _PLACE.search(_MODULE.sub("", _BUILD_ID.sub("", rest).rstrip()).rstrip())
    if place is None or place[1] == "?":
        return False
    file = place.string[: place.start()]
    return file.startswith("/") or (" " not in file and _FILE_NAME.fullmatch(file) is not None)


def _without_pc(index: int, text: str, rest: str) -> PrintedFrame | None:
    """ThreadSanitizer's form, Android's, glibc's backtrace; anything else is no frame."""
    android = _ANDROID.match(text)
    if android is not None:
        return PrintedFrame(
            index=index,
            function=android[4] or None,
            module=android[3],
            offset=f"0x{int(android[2], 16):x}",
            build_id=android[5],
        )
    glibc = _GLIBC.fullmatch(rest)
    if glibc is not None:
        function = glibc[2] or None
        return PrintedFrame(
            index=index,
            pc=glibc[4],
            function=function,
            module=glibc[1],
            offset=glibc[3] if function is None else None,
            is_return_address=function is None and glibc[3] is not None,
        )
    if rest.startswith("in "):
        rest = rest[3:].lstrip()
    if not _looks_named(rest):
        return None
    return _named(index, None, rest)


def _looks_named(rest: str) -> bool:
    """Does a name with a place or a module stand here? `#3 0.2 Step 1/4` of a build does not."""
    without_id = _BUILD_ID.sub("", rest).rstrip()
    return bool(
        _MODULE.search(without_id)
        or _NO_PLACE.search(without_id)
        or _UNKNOWN_MODULE.search(without_id)
        or _FUCHSIA_MODULE.search(without_id)
        or (_PLACE.search(without_id) and not rest[:1].isdigit() and " " in rest)
    )


def _named(index: int, pc: str | None, rest: str, *, has_function: bool = True) -> PrintedFrame:
    build_id = module = offset = None
    match = _BUILD_ID.search(rest)
    if match is not None:
        build_id, rest = match[1], rest[: match.start()].rstrip()
    elif " (B" in rest:
        rest = _CUT_BUILD_ID.sub("", rest)
    if ", r0=" in rest or " (d" in rest or " (i" in rest:
        rest = _REMARK.sub("", rest)
    match = _MODULE.search(rest)
    if match is not None and match[1] != "":
        module, offset = _MODULE_ARCHITECTURE.sub("", match[1]), match[2]
        rest = rest[: match.start()]
    elif (match := _FUCHSIA_MODULE.search(rest)) is not None:
        module, offset, rest = match[1], match[2], rest[: match.start()]
    elif (match := _UNKNOWN_MODULE.search(rest)) is not None or (
        match := _BARE_PC.search(rest)
    ) is not None:
        rest = rest[: match.start()]
    # Behind a placeholder, what follows is the place, blanks and all.
    rest = rest.rstrip() if has_function else f"<null> {rest.strip()}"
    function, file, line, column = _split_place(rest)
    if function is not None and module is None and _MODULE_ALONE.fullmatch(function):
        function, module = None, function  # ClusterFuzz names no more than the module
    if function is not None and function.endswith((" in", " at")):
        function = _PREPOSITION.sub("", function)
    if function is not None and (file is None or module is not None):
        function = _FUNCTION_OFFSET.sub("", function)
    return PrintedFrame(
        index=index,
        pc=pc,
        function=function if function not in {"", "<null>", "??", "<unknown>"} else None,
        file=file,
        line=line,
        column=column,
        module=module,
        offset=offset,
        build_id=build_id,
    )


def _split_place(text: str) -> tuple[str | None, str | None, int | None, int | None]:
    """Function, file, line, column. Either may hold blanks; see `_split_name`."""
    match = _NO_PLACE.search(text)
    if match is not None:
        return text[: match.start()].strip() or None, None, None, None
    match = _PLACE.search(text)
    if match is None and text.endswith(")"):
        match = _MSVC_PLACE.search(text)
        if match and not _FILE_NAME.fullmatch(text[: match.start()].rpartition(" ")[2]):
            match = None
    if match is None:
        function, file = _split_name(text)
        if file is not None and _FILE_NAME.fullmatch(file):
            return function, file, None, None
        return text.strip() or None, None, None, None
    line = int(match[1]) if match[1] != "?" else None
    column = int(match[2]) if match[2] else None
    function, file = _split_name(text[: match.start()])
    if file in {"??", "<null>", "<invalid>", None}:
        return function, None, None, None
    return function, file, line or None, column or None


def _split_name(text: str) -> tuple[str | None, str | None]:
    """A function and a file, at the most likely of the blanks between them.

    An absolute path starts at its root; a name with arguments ends at their parenthesis; else the
    last blank outside of template arguments separates.
    """
    text = text.strip()
    absolute = _ABSOLUTE.search(text)
    if absolute is not None and (
        _balanced(text[: absolute.start()]) or text[absolute.end() : absolute.end() + 2][1:] == ":"
    ):
        return text[: absolute.start()].strip() or None, text[absolute.end() :].strip()
    head, blank, tail = text.rpartition(" ")
    if not blank:
        return text or None, None
    if not _balanced(head):
        return text, None
    if ") " in head:
        found = list(_AFTER_ARGUMENTS.finditer(text))
        last = found[-1] if found else None
        if last is not None and _balanced(text[: last.end()].rstrip()):
            function = text[: last.end()].rstrip()
            return function, text[last.end() :].strip() or None
    return head.rstrip(), tail


def _balanced(name: str) -> bool:
    if name.count("(") != name.count(")"):
        return False
    if "<" not in name and ">" not in name:
        return True
    plain = _OPERATOR.sub("", name)
    if plain.count("<") == plain.count(">"):
        return True
    while (shorter := _PARENTHESIS.sub("", plain)) != plain:  # f<(4 > 3)>()
        plain = shorter
    return plain.count("<") == plain.count(">")
