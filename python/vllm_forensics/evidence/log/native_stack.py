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
    # backtrace_symbols, UCX, Open MPI: /lib/libucs.so.0(f+0x2dc) [0x7f1be0001234] ns::f(),
    # with a process's arguments behind its name, or file and line at the end
    re.compile(
        r"\s*(?:\d{1,3}:?\s+|\[ ?\d{1,3}\] ?|\[bt\] \(\d{1,3}\) )?(?P<module>(?!0x)[\w./+-]{1,240})"
        r"(?: [\w./+-]{0,200})?\((?P<symbol>[^()+]{0,400})"
        r"\+?(?P<offset>0x[0-9a-f]+)?\) ?\[0x[0-9a-f]+\]"
        r"(?: (?!\(?\S{1,240}:\d{1,9}\)?$)(?P<function>\S.{0,400}))?"
    ),
    # the same of a program without symbols: /usr/bin/node[0x5581c0de]
    re.compile(r"\s*(?P<module>[\w./+-]{1,240})\[0x[0-9a-f]{5,16}\]$"),
    # Godot: [2] ns::f(int) (/src/f.cpp:12)
    re.compile(
        r"\s*\[\d{1,3}\] (?P<function>[A-Za-z_~][^/]{0,400}?\)(?: const)?) "
        r"\((?:[^()]{1,240}:\d{1,6})\)$"
    ),
    # Swift: 1 [ra] 0x00005581c0de1234 f(int) + 49 in serve
    re.compile(
        r"\s*\d{1,3}(?: \[\w{1,10}\])*\s{1,8}0x[0-9a-f]{8,16} (?P<function>\S.{0,400}?)"
        r"(?: \+ \d{1,9})? in (?P<module>[\w./+-]{1,240})(?: at .{1,240})?$"
    ),
    # Android: #00 pc 000000000001e020  /data/app/lib/libexample.so (f+32), below logcat's prefix
    re.compile(
        r"(?:.{0,80}?\s)?#\d{2,3}\s{1,4}pc [0-9a-f]{8,16}\s{1,4}(?P<module>\S{1,240})"
        r"(?: \(offset 0x[0-9a-f]{1,16}\))?(?: \((?!BuildId)"
        r"(?P<function>[^+]{1,400}?)(?:\+\d{1,9})?\)(?: .{0,100})?)?$"
    ),
    # Unity: #1  0x005581c0de1234 in f
    re.compile(r"\s*#\d{1,3}\s+0x[0-9a-f]{8,16} in (?P<function>[A-Za-z_][\w:~]{1,300})$"),
    # UCX:  4 0x0000000000012345 f()  /src/f.c:12
    re.compile(r"\s*\d{1,3} 0x[0-9a-f]{6,16} (?P<function>[\w:~<>]{1,200})\(\)\s"),
    # systemd-coredump: #0  0x00007f1be0001234 n/a (libexample.so + 0x1234)
    re.compile(
        r"\s*#\d{1,3}\s+0x[0-9a-f]+ (?P<function>\S{1,400}) \((?P<module>[^()\s]{1,240}) \+ "
        r"(?P<offset>0x[0-9a-f]+)\)"
    ),
    # LLVM:  #4 0x00005581c0de1234 f(int) (/usr/bin/opt+0x1234), or f(int) /src/f.cpp:12:3
    re.compile(
        r"\s*#\d{1,3} 0x[0-9a-f]{8,16} (?:(?P<function>[^/\s][^/]{0,600}?)? ?"
        r"(?:/\S{1,240}:\d{1,6}:\d{1,6} )?\((?P<module>[^()\s]{1,240}?)\+"
        r"(?P<offset>0x[0-9a-f]+)\))"
    ),
    re.compile(r"\s*#\d{1,3} 0x[0-9a-f]{8,16} (?P<function>[^/\s][^/]{0,600}?) /\S{1,240}:\d"),
    # macOS: 5   _C.so    0x0000000104e95123 f(int) + 687 (LLVM there: without tabs)
    re.compile(
        r"\s*\d{1,3}\s{1,8}(?P<module>\S(?:[^\t]{0,80}?\S)?)\s{1,40}0x[0-9a-f]{6,16} "
        r"(?P<function>\S.{0,400}?) \+ \d{1,12}\b"
    ),
    # TensorRT-LLM: 4   0x7f1be0001234 ns::f() + 204, or … /lib/libx.so(+0x1234) [0x7f1be0001234]
    re.compile(
        r"\s*\d{1,3}\s{1,8}0x[0-9a-f]{6,16} (?:(?P<function>[^/\s].{0,400}?) \+ \d{1,9}$|"
        r"(?P<module>/[^()]{1,240})\(\+(?P<offset>0x[0-9a-f]+)\))"
    ),
    # LLDB:   * frame #0: 0x00000001038b1019 libexample.dylib`f + 25
    re.compile(
        r"\s*(?:\* )?frame #\d{1,4}: 0x[0-9a-f]{6,16} (?P<module>[^`\s]{1,240})`"
        r"(?P<function>\S.{0,400}?)(?: \+ \d{1,9}| at \S{1,240}|$)"
    ),
    # Java's machine: of native code "C  [libexample.so+0x1234]  f(int)+0x51" behind a #,
    # of its own "J 112 c1 example.Pool.take(I)V"
    re.compile(
        r"(?:\d{1,9}#)?[\\#>\s]{0,8}[CVv]\s{1,3}\[(?P<module>[^\]+\s]{1,240})\+(?P<offset>0x[0-9a-f]+)\]"
        r"(?:\s{1,4}(?P<function>\S.{0,400}?)(?:\+0x[0-9a-f]+)?)?\s*$"
    ),
    re.compile(
        r"(?:\d{1,9}#)?[\\#>\s]{0,8}[Jj]\s{1,3}(?:\d{1,9} (?:c[12] )?)?"
        r"(?P<function>[\w$/]+\.[\w$./<>]+)\("
    ),
    # Node:  1: 0x5581c0de node::Abort() [node]
    re.compile(
        r"\s*\d{1,3}: 0x[0-9a-f]{4,16} (?P<function>\S.{0,400}?)?\s?\[(?P<module>[^\[\]]{1,240})\]"
    ),
    # Boost, which numbers frames as "1# ns::f(int) in /lib/libexample.so"
    re.compile(
        r"\s*\d{1,3}# (?P<function>\S.{0,400}?) "
        r"(?:in (?P<module>/?\S{1,240})|at \S{1,240}:\d{1,6})$"
    ),
    # valgrind: ==42==    by 0x4C3: f (in /lib/libexample.so)
    re.compile(
        r"(?:==\d{1,9}==)?\s+(?:at|by) 0x[0-9A-F]{4,16}: (?P<function>\S.{0,400}?) "
        r"\((?:in (?P<module>[^()]{1,240})|[^()]{1,240}:\d{1,6})\)"
    ),
    # gdb: #0  0x00007f1be0001234 in f (a=1) from /lib/libexample.so
    re.compile(
        r"\s*(?:#\d{1,3}\s+(?:0x[0-9a-f]+ in )?|0x[0-9a-f]{8,16} in )"
        r"(?P<function>(?:\(anonymous namespace\)::)?[\w~?][^(]{0,400}?) ?\([^\n]{0,800}?\)"
        r"(?: from (?P<module>\S{1,240})| at \S{1,240}| *$)"
    ),
    # the same, its arguments broken over lines
    re.compile(
        r"\s*#\d{1,3}\s+(?:0x[0-9a-f]+ in )?(?P<function>(?:\(anonymous namespace\)::)?"
        r"[\w~?][^(]{0,400}?) ?\((?:\s*$|[\w.]{1,60}=)"
    ),
    # and its template broken where the terminal ended
    re.compile(r"\s*#\d{1,3}\s+(?:0x[0-9a-f]+ in )?(?P<function>[\w:~]{3,300})<[^()\n]{60,600}$"),
    # tvm-ffi:   File "src/f.cc", line 12, in ns::f()
    re.compile(rf"\s*File \"{_NATIVE_FILE}\", line \d{{1,9}}, in (?P<function>\S.{{0,400}})"),
    # Rust:    4: ns::f
    re.compile(r"\s{0,4}\d{1,3}: +(?:0x[0-9a-f]+ - )?(?P<function>[\w<][\w:<>{}, &*'#-]{2,400})$"),
    # Go, main.f with its arguments in hexadecimal
    re.compile(r"(?P<function>[\w./-]{1,200}\.[\w.()*]{1,120})\([^()]{0,200}\)$"),
)
# backward-cpp: #1    Object "/lib/libexample.so", at 0x7f1be0001234, in ns::f(int)
_LAST_FIRST: Final = re.compile(
    r"\s*#\d{1,3}\s+(?:Object|Source) \"(?P<module>[^\"]{1,240})\", (?:at 0x[0-9a-f]{1,16}|line "
    r"\d{1,6}), in ?(?P<function>.{0,400})"
)
# Julia: f at /src/f.c:12 [inlined], f at /lib/libexample.so (unknown line)
_JULIA: Final = re.compile(
    r"(?P<function>[\w#!@.~<>:{}]{1,400}) at (?P<module>[\w/.~\\-][^:()]{0,300}?)"
    r"(?::\d{1,6}| \(unknown line\))(?: \[inlined\])?\s*$"
)
# Paddle: 5   paddle::framework::Run(phi::Place const&), the innermost call last
_PADDLE: Final = re.compile(r"\d{1,3} {2,4}(?P<function>[A-Za-z_]\S{1,400}(?:\(.{0,400})?)$")
# R: 1: .Call("take", pool), 1: pool::take(12); of its own functions the innermost counts
_R: Final = re.compile(
    r"\s{0,4}1: (?:\.(?:C|Call|External2?|Fortran)\([\"']?(?P<symbol>[\w.]{1,120})|"
    r"(?:(?P<module>[\w.]{1,80}):::?)?(?P<function>[A-Za-z.][\w.]{0,120})\()"
)
# Apple's JSON: the frames of one thread stand on one line
_TRIGGERED: Final = '"triggered":true'
_FRAMES: Final = '"frames":['
_SYMBOL: Final = re.compile(r"\"symbol\" ?: ?\"(?P<function>[^\"]{1,400})\"")
_MAX_THREAD: Final = 40_000
_CRASHED: Final = re.compile(r"\s*Thread \d{1,5}(?: \"[^\"]{0,80}\")? crashed:")
"""Swift: the threads above it were asleep."""
_LIBRARY: Final = re.compile(r".*\.(?:so|dylib|dll)[\d.]*")
_HANDLED: Final = "<signal handler called>"
"""gdb: what stands above was called by the kernel."""
_GAVE_UP: Final = re.compile(
    r"(?:__GI_)?(?:raise|abort)\b|_*pthread_kill|__kmp_abort|gsignal$|node::Abort|Py_FatalError|"
    r"fatal_error"
)
_TOP: Final = 12
"""So deep in a stack a call of abort still is its reason."""
_LONE: Final = (
    # gdb's and LLDB's innermost frames, macOS's and backward-cpp's headings
    re.compile(r"\s*#0 {1,3}(?:0x[0-9a-f]{6,16} in )?[\w~?<(][^(]{0,400}\("),
    re.compile(r"\s*(?:\* )?frame #0: 0x[0-9a-f]{6,16} \S{1,240}`"),
)
_FROM: Final = re.compile(r"\s*from (?P<module>/\S{1,240})$")
"""gdb breaks long frames: the library stands on the next line."""
_WHAT: Final = re.compile(r"\s*what\(\): {1,4}(?P<what>.{1,300})")
_NO_NAME: Final = {"(unknown)", "<unknown function>", "<unknown>", "n/a", "??", ""}
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
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


def begins_lone_stack(text: str) -> bool:
    """Is it the innermost frame of a debugger's stack?"""
    return any(form.match(text) for form in _LONE) and native_call(text) is not None


def _julia_call(text: str) -> NativeCall | None:
    match = _JULIA.match(text)
    if match is None:
        return None
    module = base_name(match["module"])
    is_library = _LIBRARY.fullmatch(module or "") is not None
    return _call({"function": match["function"], "module": module if is_library else None})


def _apple_calls(text: str) -> list[NativeCall]:
    """The frames of the thread that died."""
    start = text.find(_FRAMES, text.find(_TRIGGERED))
    if start < 0:
        return []
    end = text.find("}]", start, start + _MAX_THREAD)
    frames = text[start : end if end > 0 else start + _MAX_THREAD]
    return [_call(match.groupdict()) for match in _SYMBOL.finditer(frames)][:_MAX_FRAMES]


class NativeBlock:
    """A line that tells a death, and the native stack that may follow it."""

    def __init__(self, clue: Clue) -> None:
        """Begin with the line."""
        self._clue = clue
        self._calls: list[NativeCall] = []
        self._silent = 0
        self._detail = clue.detail
        self._waits_for_what = clue.kind is ClueKind.ABORT
        self._last_first = clue.source == "Paddle"

    def feed(self, line: LogLine) -> bool:
        """Take the line in, where it is a frame or a message; False where it is not."""
        if self._is_message(line.text) or self._is_frame(line.text):
            return True
        self._silent += 1
        return False

    def _is_message(self, text: str) -> bool:
        if not self._waits_for_what:
            return False
        match = _WHAT.match(text) if "what()" in text else None
        if match is not None:
            kind = f"{self._detail}: " if self._detail else ""
            self._detail = f"{kind}{match['what'].strip()}"[:_MAX_WHAT]
        elif (self._detail or "").endswith(":") and text.strip():
            # Rust: the message stands on the line below
            self._detail = f"{self._detail} {text.strip()}"[:_MAX_WHAT]
        else:
            return False
        self._waits_for_what = False
        return True

    def _is_frame(self, text: str) -> bool:
        if _HANDLED in text or _CRASHED.match(text) is not None:
            self._calls.clear()
            return True
        if self._clue.source == "macOS" and _TRIGGERED in text and not self._calls:
            self._calls = _apple_calls(text)
            return True
        if self._calls and self._calls[-1].module is None and text.lstrip().startswith("from /"):
            match = _FROM.match(text)
            if match is not None:
                self._calls[-1] = replace(self._calls[-1], module=base_name(match["module"]))
                return True
        reverse = _LAST_FIRST.match(text)
        if reverse is None and self._last_first:
            reverse = _PADDLE.match(text)
        if reverse is not None:
            self._calls.insert(0, _call(reverse.groupdict()))
            del self._calls[_MAX_FRAMES:]
            return True
        call = self._frame(text)
        if call is None:
            return False
        self._silent = 0
        if len(self._calls) < _MAX_FRAMES:
            self._calls.append(call)
        return True

    def _frame(self, text: str) -> NativeCall | None:
        if len(text) <= 6 or text.startswith(_NOT_FRAMES):
            return None
        call = native_call(text)
        if call is None and self._clue.source == "Julia":
            return _julia_call(text)
        if call is None and self._clue.source == "R" and not self._calls:
            innermost = _R.match(text)
            return _call(innermost.groupdict()) if innermost is not None else None
        return call

    def goes_on(self, text: str) -> bool:
        """Is it a frame of this stack, and not the beginning of another?"""
        few = 0 if self._clue.kind is ClueKind.STACK else 1
        is_other = len(self._calls) > few and begins_lone_stack(text)
        return not is_other and self._frame(text) is not None

    @property
    def source(self) -> str:
        """Who wrote the line."""
        return self._clue.source

    @property
    def done(self) -> bool:
        """Has it waited long enough for another frame?"""
        return self._silent > _PATIENCE

    def close(self) -> Clue | None:
        """The clue with all that came; None for a frame alone: debuggers show it at each stop."""
        calls = (*self._clue.native, *self._calls)
        if self._clue.kind is ClueKind.STACK and len(calls) < (1 if self._last_first else 2):
            return None
        signal = self._clue.signal
        if signal is None and self._clue.kind in {ClueKind.SIGNAL, ClueKind.STACK}:
            names = [call.function for call in calls[:_TOP] if call.function]
            signal = "SIGABRT" if any(_GAVE_UP.match(name) for name in names) else None
        return replace(self._clue, native=calls, detail=self._detail, signal=signal)
