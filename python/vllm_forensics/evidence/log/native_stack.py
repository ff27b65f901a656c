"""Native stacks as logs hold them: one regular expression a writer, each with its example."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.demangle import demangle
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import base_name
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall

_MAX_FRAMES: Final = 48
_PATIENCE: Final = 24
"""So many lines without a frame may stand before and between a stack's frames."""
_MAX_WHAT: Final = 300
_NATIVE_FILE: Final = r"(?:<unknown>|[^\"]{1,240}\.(?:c|cc|cpp|cxx|cu|h|hpp|cuh|rs|S))"
FORMS: Final = (
    # abseil, glog:     @     0x7f1be0001234        192  ns::f()
    re.compile(
        r"\s*(?:PC: )?@\s+0x[0-9a-f]+\s+(?:(?:\(unknown\)|\d{1,9})\s+)?(?P<function>\S.{0,400})"
    ),
    # c10: frame #3: ns::f() + 0x57 (0x7f1be0001234 in /opt/lib/libc10.so)
    re.compile(
        r"\s*frame #\d{1,3}: (?P<function>.{0,600}?) ?\+ (?P<offset>0x[0-9a-f]+) "
        r"\((?:0x[0-9a-f]+ in )?(?P<module>[^()]{1,240})\)"
    ),
    # backtrace_symbols, UCX, Open MPI: /lib/libucs.so.0(f+0x2dc) [0x7f1be0001234] ns::f()
    re.compile(
        r"\s*(?:\d{1,3}:?\s+|\[ ?\d{1,3}\] ?)?(?P<module>[\w./+-]{1,240})\("
        r"(?P<symbol>[^()+]{0,400})"
        r"\+?(?P<offset>0x[0-9a-f]+)?\) ?\[0x[0-9a-f]+\](?: (?P<function>\S.{0,400}))?"
    ),
    # UCX:  4 0x0000000000012345 f()  /src/f.c:12
    re.compile(r"\s*\d{1,3} 0x[0-9a-f]{6,16} (?P<function>[\w:~<>]{1,200})\(\)\s"),
    # systemd-coredump: #0  0x00007f1be0001234 n/a (libexample.so + 0x1234)
    re.compile(
        r"\s*#\d{1,3}\s+0x[0-9a-f]+ (?P<function>\S{1,400}) \((?P<module>[^()\s]{1,240}) \+ "
        r"(?P<offset>0x[0-9a-f]+)\)"
    ),
    # gdb: #0  0x00007f1be0001234 in f (a=1) from /lib/libexample.so
    re.compile(
        r"\s*(?:#\d{1,3}\s+(?:0x[0-9a-f]+ in )?|0x[0-9a-f]{8,16} in )"
        r"(?P<function>[\w~][^(]{0,400}?) ?\([^\n]{0,800}?\)"
        r"(?: from (?P<module>\S{1,240})| at \S{1,240}| *$)"
    ),
    # tvm-ffi:   File "src/f.cc", line 12, in ns::f()
    re.compile(rf"\s*File \"{_NATIVE_FILE}\", line \d{{1,9}}, in (?P<function>\S.{{0,400}})"),
    # Rust:    4: ns::f
    re.compile(r"\s{1,4}\d{1,3}: +(?:0x[0-9a-f]+ - )?(?P<function>[\w<][\w:<>{}, &*'#-]{2,400})$"),
    # Go, main.f with its arguments in hexadecimal
    re.compile(r"(?P<function>[\w./-]{1,200}\.[\w.()*]{1,120})\([^()]{0,200}\)$"),
)
_FROM: Final = re.compile(r"\s*from (?P<module>/\S{1,240})$")
"""gdb breaks long frames: the library stands on the next line."""
_WHAT: Final = re.compile(r"\s*what\(\): {1,4}(?P<what>.{1,300})")
_NO_NAME: Final = {"(unknown)", "<unknown function>", "<unknown>", "n/a", "??", ""}
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-f]+")
_NOT_FRAMES: Final = ("Extension modules", "INFO", "WARN")


def native_call(text: str) -> NativeCall | None:
    """The frame that a line holds."""
    for form in FORMS:
        match = form.match(text)
        if match is not None:
            return _call(match.groupdict())
    return None


def _call(groups: dict[str, str | None]) -> NativeCall:
    name = (groups.get("function") or groups.get("symbol") or "").strip()
    function = None if name in _NO_NAME or _HEXADECIMAL.fullmatch(name) else name
    if function is not None and function.startswith("_Z"):
        function = demangle(function) or function
    return NativeCall(
        function=function, module=base_name(groups.get("module")), offset=groups.get("offset")
    )


class NativeBlock:
    """A line that tells a death, and the native stack that may follow it."""

    def __init__(self, clue: Clue) -> None:
        """Begin with the line."""
        self._clue = clue
        self._calls: list[NativeCall] = []
        self._silent = 0
        self._detail = clue.detail
        self._waits_for_what = clue.kind is ClueKind.ABORT

    def feed(self, line: LogLine) -> bool:
        """Take the line in, where it is a frame or a message; False where it is not."""
        text = line.text
        if self._waits_for_what and "what()" in text:
            match = _WHAT.match(text)
            if match is not None:
                self._waits_for_what = False
                kind = f"{self._detail}: " if self._detail else ""
                self._detail = f"{kind}{match['what'].strip()}"[:_MAX_WHAT]
                return True
        if self._calls and self._calls[-1].module is None and text.lstrip().startswith("from /"):
            match = _FROM.match(text)
            if match is not None:
                self._calls[-1] = replace(self._calls[-1], module=base_name(match["module"]))
                return True
        if self._waits_for_what and (self._detail or "").endswith(":") and text.strip():
            self._waits_for_what = False  # Rust: the message stands on the line below
            self._detail = f"{self._detail} {text.strip()}"[:_MAX_WHAT]
            return True
        call = native_call(text) if len(text) > 6 and not text.startswith(_NOT_FRAMES) else None
        if call is None:
            self._silent += 1
            return False
        self._silent = 0
        if len(self._calls) < _MAX_FRAMES:
            self._calls.append(call)
        return True

    @property
    def done(self) -> bool:
        """Has it waited long enough for another frame?"""
        return self._silent > _PATIENCE

    def close(self) -> Clue:
        """The clue with all that came."""
        return replace(
            self._clue,
            native=(*self._clue.native, *self._calls),
            detail=self._detail,
        )
