"""What the fields of crash reports hold: how it ended, who, and where."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import Final

from vllm_forensics.evidence.log.phrases import base_name, signal_in
from vllm_forensics.evidence.log.prompts import program_of_command
from vllm_forensics.evidence.log.writers.exit_statuses import WINDOWS_STATUSES
from vllm_forensics.model.incident import ClueKind, NativeCall

_COMMANDS: Final = {"cmdline", "proccmdline", "commandline"}
WHO: Final = {
    "executablepath": 0, "executable": 0, "applicationfile": 0, "applicationpath": 0, "exe": 0,
    "exepath": 0, "processpath": 0, "faultingapplicationpath": 0, "programpath": 0, "path": 0,
    "processname": 1, "process": 1, "app": 1, "appname": 1, "application": 1,
    "applicationname": 1, "faultingapplicationname": 1, "program": 1, "programname": 1,
    "binary": 1, "imagepath": 1, "executablename": 1, "exename": 1,
    "cmdline": 2, "proccmdline": 2, "commandline": 2,
    "modulename": 3, "accessviolation": 4, "segmentationfault": 4,
}  # fmt: skip
"""Labels of a program, and which says it surest."""
_FATAL: Final = {"accessviolation": "SIGSEGV", "segmentationfault": "SIGSEGV"}
"""Labels that tell the end themselves."""
PIDS: Final = {"pid", "processid", "faultingprocessid", "proccessid"}
CAUSES: Final = frozenset(
    {
        "signal", "signalnumber", "signo", "exception", "exceptioncode", "exceptionnumber",
        "exceptiontype", "exceptionclass", "exceptionname", "exceptionmessage", "crashreason",
        "reason", "type", "message", "errorcode", "error", "errortype", "errormessage", "code",
        "terminationreason", "faultcode", "crashtype", "exceptioncodestr", "exceptionreason",
        "bugcheck", "bugcheckstr", "unhandledexception", "fault", "crash", *_FATAL,
    }
)  # fmt: skip
PLACES: Final = {
    "crashfunction": 0, "faultingip": 0, "symbolname": 0, "faultingfunction": 0, "crashedin": 0,
    "function": 1, "signature": 1, "exceptionlocation": 1, "exceptionaddress": 1, "address": 1,
    "faultmodulename": 2, "faultingmodulename": 2, "faultmodule": 2, "faultingmodule": 2,
    "crashmodule": 2, "crashedmodule": 2, "exceptionmodule": 2, "module": 3, "modulename": 3,
    "imagename": 4,
}  # fmt: skip
"""Labels of a place, and which says most."""
MAY_BE_PLACES: Final = CAUSES
_CODE: Final = re.compile(r"(?<![0-9A-Za-z])(?:0x)?(?P<code>[c48eCE][0-9a-fA-F]{7})(?![0-9A-Za-z])")
_NAMES: Final[tuple[tuple[str, ClueKind, str | None], ...]] = (
    (r"EXC_BAD_ACCESS", ClueKind.SIGNAL, "SIGSEGV"),
    (r"EXC_CRASH", ClueKind.SIGNAL, "SIGABRT"),
    (r"EXC_BAD_INSTRUCTION|ILLEGAL_INSTRUCTION|\bEPrivilege\b", ClueKind.SIGNAL, "SIGILL"),
    (r"EXC_BREAKPOINT|(?:EXCEPTION|STATUS)_BREAKPOINT", ClueKind.SIGNAL, "SIGTRAP"),
    (r"EXC_ARITHMETIC|INT(?:EGER)?_DIVIDE_BY_ZERO|\bEDivByZero\b", ClueKind.SIGNAL, "SIGFPE"),
    (r"IN_PAGE_ERROR", ClueKind.SIGNAL, "SIGBUS"),
    (r"STACK_OVERFLOW|\bEStackOverflow\b", ClueKind.SIGNAL, "SIGSEGV"),
    (r"HEAP_CORRUPTION|\bEInvalidPointer\b", ClueKind.HEAP, None),
    (
        r"ACCESS_VIOLATION|\b[Aa]ccess [Vv]iolation|\bEAccessViol(?:ation)?\b|"
        r"AccessViolationException|[Ss]egmentation (?:[Ff]ault|[Vv]iolation)",
        ClueKind.SIGNAL,
        "SIGSEGV",
    ),
)
_KINDS: Final = tuple((re.compile(pattern), kind, signal) for pattern, kind, signal in _NAMES)
_SIGNAL: Final = re.compile(r"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP|SYS)\b")
_NUMBER: Final = re.compile(r"\W{0,3}(?P<number>4|5|6|7|8|11|31)\b(?!\.)")
_OF_NUMBER: Final = {"signal", "signalnumber", "signo"}
_CHECK: Final = re.compile(
    r"[A-Z][A-Z0-9_]{4,90} \([0-9a-f]{1,8}\)|0x[0-9A-Fa-f]{1,8}(?:_\w{1,60})?"
)
_TOKEN: Final = re.compile(
    r"[\"'`]?(?P<name>[A-Za-z][\w.+-]{1,60})[\"'`]?(?= v?\d| ?[\[(,]|\W{0,3}$)"
)
_PATH: Final = re.compile(
    r"[\"'`]?(?:[A-Z]:)?(?:[^\\/\"'`\n]{0,100}[\\/]){1,20}(?P<name>[\w.+-]{1,60}"
    r"(?: [\w.+-]{1,40}){0,4}?)[\"'`]?(?= ?[\[(,]|\W{0,3}$| -|(?<=\.exe)\b)"
)
_EXE: Final = re.compile(r"[\"'`]?(?P<name>[\w.+ -]{1,60}\.exe)\b", re.IGNORECASE)
_BESIDE: Final = re.compile(r"[\[(](?:pid[ =:]{1,2})?(?P<pid>\d{1,9})[\])]")
_ALONE: Final = re.compile(r"(?P<hex>0x[0-9A-Fa-f]{1,8})\b|(?P<pid>\d{1,9})\b")
_SYMBOL: Final = re.compile(
    r"[^!]{0,60}?\b(?P<module>[\w.-]{1,80})!(?P<function>[A-Za-z_~?@][^+\s()\[\]]{0,200})"
    r"(?:\+(?:0x)?[0-9a-f]{1,8}\b)?"
)
_FUNCTION: Final = re.compile(
    r"(?:\[@ )?(?P<function>[A-Za-z_~][\w:~<>.@$-]{1,200})(?:\(|\W{0,3}$)"
)
_OF_DELPHI: Final = re.compile(
    r"(?:.{0,60}\{(?P<module>[\w .+-]{1,60}\.\w{3})\} )?\[[0-9A-F]{8,16}\] "
    r"(?P<function>[A-Za-z@_][\w.$@<>]{2,200})"
)
_FILE: Final = re.compile(
    r"[\"'`]?(?:[^\\/\"'`\n]{0,100}[\\/]){0,20}"
    r"(?P<module>[\w+-][\w.+-]{0,80}?\.(?:dll|exe|sys|so(?:\.\d{1,4}){0,3}|dylib|bpl|ocx))\b",
    re.IGNORECASE,
)
_IN_MODULE: Final = re.compile(
    r"[\"'`\u201c\u00ab](?P<module>[\w .+-]{1,60}\.(?:exe|dll|bpl|ocx|sys))[\"'`\u201d\u00bb]"
)
_ADDRESSES: Final = {"address", "exceptionaddress", "exceptionlocation"}
_NO_PLACES: Final = {"unknown", "none", "null", "n/a", "true", "false"}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a form says that it ended."""

    kind: ClueKind
    signal: str | None
    detail: str | None
    _: KW_ONLY
    has_code: bool
    """Is it told by a code, a signal's name or a class, as a machine writes it?"""


def ending_of(key: str, value: str) -> Ending | None:
    """What a field tells of how it ended; None where it is nothing fatal."""
    if key.startswith("bugcheck"):
        is_stop = _CHECK.match(value) is not None
        return Ending(ClueKind.SIGNAL, None, value, has_code=True) if is_stop else None
    if key in _FATAL:
        return Ending(ClueKind.SIGNAL, _FATAL[key], value[:200], has_code=False)
    return _of_signal(key, value) or _of_code(value) or _of_words(value)


def _of_signal(key: str, value: str) -> Ending | None:
    named = _SIGNAL.search(value)
    number = _NUMBER.match(value) if key in _OF_NUMBER else None
    signal = named[0] if named else signal_in(number["number"]) if number else None
    return Ending(ClueKind.SIGNAL, signal, None, has_code=True) if signal is not None else None


def _of_code(value: str) -> Ending | None:
    code = _CODE.search(value)
    status = WINDOWS_STATUSES.get(int(code["code"], 16)) if code is not None else None
    if status is None:
        return None
    kind, signal, detail = status
    kind = ClueKind.SIGNAL if kind is ClueKind.CHILD else kind
    return Ending(kind, signal, detail, has_code=True)


def _of_words(value: str) -> Ending | None:
    for pattern, kind, signal in _KINDS:
        found = pattern.search(value)
        if found is not None:
            is_class = "_" in found[0] or found[0][:1] == "E"
            return Ending(kind, signal, value[:200], has_code=is_class)
    return None


def name_of(key: str, value: str) -> str | None:
    """The program that a field names, without its folder and version."""
    if key in _COMMANDS:
        return program_of_command(value)
    value = value.strip("()")
    path = _PATH.match(value) or _EXE.match(value)
    if key == "modulename":
        return base_name(path["name"]) if path and path["name"].lower().endswith(".exe") else None
    if path is not None:
        return base_name(path["name"].strip())
    token = _TOKEN.match(value)
    return token["name"] if token is not None and token["name"].lower() not in _NO_PLACES else None


def number_of(value: str, *, is_alone: bool) -> int | None:
    """The process's number, in a field of its own or beside its name."""
    if not is_alone:
        beside = _BESIDE.search(value)
        return int(beside["pid"]) if beside is not None else None
    match = _ALONE.match(value)
    if match is None:
        return None
    return int(match["hex"], 16) if match["hex"] else int(match["pid"])


def place_of(key: str, value: str) -> NativeCall | None:
    """The function or library that a field tells."""
    delphis = _OF_DELPHI.match(value)
    symbol = delphis or (_SYMBOL.match(value) if "!" in value else None)
    if symbol is not None:
        return NativeCall(function=symbol["function"], module=symbol["module"])
    quoted = _IN_MODULE.search(value)
    if quoted is not None or key in CAUSES:
        return NativeCall(function=None, module=quoted["module"]) if quoted is not None else None
    file = _FILE.match(value)
    if file is not None:
        return NativeCall(function=None, module=file["module"])
    is_name = PLACES[key] <= 1 and key not in _ADDRESSES
    function = _FUNCTION.match(value) if is_name else None
    if function is None or function["function"].lower() in _NO_PLACES:
        return None
    return NativeCall(function=function["function"], module=None)
