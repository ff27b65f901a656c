"""Exceptions that ended a program of another language than Python, with the calls that raised them.

Each is known by what only an interpreter writes that gives up: Node's last line, R's `Execution
halted`, PHP's `Fatal error`. They are asked for where nothing else tells of a death: who waited for
such a program, or an error that it survived, is read without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.lines import LogLine, log_lines, plain
from vllm_forensics.evidence.log.phrases import clue_at, shortened
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall
from vllm_forensics.model.record import dataclass

_REACH: Final = 80
"""So far from each other the words, the calls and the last line of one exception stand."""
_BETWEEN: Final = 5
"""So many lines of source, marks and headings stand before the first call."""
_MAX: Final = 4
_SCRIPT: Final = re.compile(r"(?:.{0,400}[/\\])?(?P<name>[\w.+-]{1,80}\.(?:rb|pl|lua|exs|tcl))")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    language: str
    needle: str
    """It stands in the line by which the end is known."""
    anchor: re.Pattern[str]
    words: re.Pattern[str] | None = None
    """The line above it that says what was raised; None: it says so itself."""
    frame: re.Pattern[str] | None = None
    name: str | None = None
    """What runs such scripts, where neither the words nor the outermost call name the program."""
    is_sure: bool = True
    """Does nobody write so but who ends?"""


_CALLED_AT: Final = lazily(
    r"  (?P<function>\S{1,120}), called at (?P<file>[^\s:]{1,240}):(?P<line>\d{1,9}):\d"
)
"""Haskell's calls."""
_FORMS: Final = (
    _Form(
        language="Node",
        needle="Node.js v",
        anchor=lazily(r"Node\.js v\d{1,3}\.\d{1,3}\.\d{1,3}$"),
        words=lazily(
            r"(?:Uncaught )?\[?(?P<detail>[A-Z]\w{0,60}(?:Error|Exception|Rejection|Fault)?"
            r"(?: \[\w{1,60}\])?(?:: .{0,300}|$))"
        ),
        frame=lazily(
            r"\s{2,8}at (?:(?:async |new )?(?P<function>[^()\s][^()]{0,200}?)"
            r"(?: \[as [^\]]{1,80}\])? \()?(?:file://)?(?P<file>[^()\s][^()]{0,300}?):(?P<line>\d{1,9}):\d{1,9}\)?"
        ),
        name="node",
    ),
    _Form(
        language="Ruby",
        needle=":in ",
        anchor=lazily(
            r"(?P<file>[^\s:]{1,240}):(?P<line>\d{1,9}):in [`'](?P<function>[^']{1,120})': "
            r"(?P<detail>.{1,300} \([A-Z][\w:]{2,80}\))$"
        ),
        frame=lazily(
            r"(?:\t| {1,8})from (?P<file>[^\s:]{1,240}):(?P<line>\d{1,9}):in "
            r"[`'](?P<function>[^']{1,120})'"
        ),
        name="ruby",
    ),
    _Form(
        language="PHP",
        needle="Fatal error:",
        anchor=lazily(
            r"(?:PHP )?Fatal error: {1,2}(?P<detail>.{1,400}?) in (?P<file>/?\S{1,240}?\.\w{2,5})"
            r"(?: on line |:)(?P<line>\d{1,9})$"
        ),
        frame=lazily(
            r"#\d{1,4} (?P<file>[^()]{1,240})\((?P<line>\d{1,9})\): (?P<function>[^()]{1,160})\("
        ),
        name="php",
        is_sure=False,  # of a server only the request ends
    ),
    _Form(
        language="Perl",
        needle=" line ",
        anchor=lazily(
            r"(?P<detail>(?:Can't (?:call method|locate|use|modify|find|coerce)|"
            r"Undefined subroutine|Not an? [A-Z]{4,6} reference|Illegal (?:division|modulus)|"
            r"Modification of a read-only|Attempt to (?:reload|bless|access))\b.{1,300}?) "
            r"at (?P<file>\S{1,240}) line (?P<line>\d{1,9})\.$"
        ),
        name="perl",
        is_sure=False,
    ),
    _Form(
        language="Lua",
        needle=": ",
        anchor=lazily(
            r"(?P<name>lua(?:jit)?[\d.]{0,8}): (?P<file>[^\s:]{1,240}):(?P<line>\d{1,9}): "
            r"(?P<detail>.{1,300})$"
        ),
        frame=lazily(
            r"\t(?P<file>[^\s:]{1,240}):(?P<line>\d{1,9}): in (?:[a-z]{3,8} )?"
            r"[<']?(?P<function>[^'>]{1,120})"
        ),
    ),
    _Form(
        language="Haskell",
        needle="CallStack (from HasCallStack):",
        anchor=lazily(r"CallStack \(from HasCallStack\):$"),
        words=lazily(r"(?P<name>[\w.-]{1,80}): (?P<detail>\S.{1,300})$"),
        frame=_CALLED_AT,
    ),
    _Form(
        language="Haskell",
        needle=": Prelude.",
        anchor=lazily(
            r"(?P<name>[\w.-]{1,80}): (?P<detail>(?P<function>Prelude\.[\w!.]{1,40}): .{1,300})$"
        ),
        frame=_CALLED_AT,
    ),
    _Form(
        language="Fortran",
        needle="Fortran runtime error: ",
        anchor=lazily(r"(?P<detail>Fortran runtime error: .{1,300})$"),
        words=lazily(r"(?P<detail>At line (?P<line>\d{1,9}) of file (?P<file>\S{1,240}))"),
    ),
    _Form(
        language="R",
        needle="Execution halted",
        anchor=lazily(r"Execution halted$"),
        words=lazily(
            r"(?P<detail>Error(?: in (?:(?P<function>[\w.:]{1,80})\()?.{0,200}?)?"
            r"(?: :|: ).{0,300})$"
        ),
        name="R",
    ),
    _Form(
        language="Elixir",
        needle="** (",
        anchor=lazily(r"(?P<detail>\*\* \([A-Z][\w.]{2,80}\) .{1,300})$"),
        frame=lazily(
            r" {4}(?:\([\w ]{1,60} [\d.]{1,12}\) )?(?P<file>[\w./-]{1,200}\.(?:exs?|erl)):"
            r"(?P<line>\d{1,9}): (?P<function>\S{1,200})"
        ),
        is_sure=False,  # a process of many
    ),
    _Form(
        language="Tcl",
        needle='    (file "',
        anchor=lazily(r' {4}\(file "(?P<file>[^"]{1,240})" line (?P<line>\d{1,9})\)$'),
        words=lazily(r"(?P<detail>(?! )(?!invoked from|\").{3,300})$"),
    ),
    _Form(
        language="Java",
        needle='Exception in thread "',
        anchor=lazily(
            r"(?P<detail>Exception in thread \"[^\"]{1,120}\" [\w.$]{3,200}.{0,300})$"
        ),
        frame=lazily(
            r"\s{1,8}at (?:[\w.]{1,60}/)?(?P<function>[\w.$<>/]{3,240})\((?P<file>[\w.-]{1,120}):"
            r"(?P<line>\d{1,9})\)"
        ),
        is_sure=False,  # the others go on
    ),
    _Form(
        language="Deno",
        needle="error: Uncaught ",
        anchor=lazily(r"error: (?P<detail>Uncaught .{1,300})$"),
        frame=lazily(
            r"\s{2,8}at (?:(?:async |new )?(?P<function>[^()\s][^()]{0,200}?) \()?"
            r"(?:file://)?(?P<file>[^()\s][^()]{0,300}?):(?P<line>\d{1,9}):\d{1,9}\)?"
        ),
        name="deno",
    ),
)  # fmt: skip
_INNER: Final = re.compile(r"(?:node:|internal/|ext:|native\b|<)")
"""The runtime's own sources."""
_COMMON: Final = {": ", " line ", ":in "}
"""What stands in many lines says nothing: other words of such a text are looked for."""
NEEDLES: Final = (
    *(form.needle.encode() for form in _FORMS if form.needle not in _COMMON),
    b"stack traceback:",
    b"\tfrom ",
    b" at ",
)
_TOP: Final = {"<main>", "main chunk", "{main}", "Object.<anonymous>", "?"}


def uncaught(raw: bytes, line: int) -> list[Clue]:
    """The exceptions that ended programs, in a stretch of a log that begins with that line."""
    if not any(needle in raw for needle in NEEDLES):
        return []
    pieces = enumerate(raw.split(b"\n"), start=line)
    lines = [one for at, piece in pieces for one in log_lines(plain(piece), at)]
    found: list[Clue] = []
    for at, one in enumerate(lines):
        told = (_read(form, lines, at) for form in _FORMS if form.needle in one.text)
        found += [clue for clue in told if clue is not None][:1]
        if len(found) >= _MAX:
            break
    return found


def _read(form: _Form, lines: Sequence[LogLine], at: int) -> Clue | None:
    anchor = form.anchor.match(lines[at].text)
    if anchor is None:
        return None
    told = anchor.groupdict()
    head = at
    if form.words is not None:
        above = _above(form, lines, at)
        if above is None:
            return None
        head, words = above
        told = {**words, **{name: text for name, text in told.items() if text is not None}}
    calls = list(_calls(form, lines, head if form.language == "Node" else at))
    if form.language == "Node" and not calls:
        return None
    own = _call(told)
    # in some the words name the innermost call, and not in those whose calls begin with it
    is_first = own is not None and (own.file, own.line) not in {
        (None, None) if calls else (),
        *((call.file, call.line) for call in calls[:1]),
    }
    if own is not None and is_first:
        calls.insert(0, own)
    if form.language == "PHP" and len(calls) > 1:
        calls = _shifted(calls)
    detail = (told.get("detail") or lines[head].text).strip()
    if form.frame is None and own is not None and own.file is not None and form.words is not None:
        detail = f"{detail} ({own.file}:{own.line})"
    scripts = (_SCRIPT.fullmatch(call.file or "") for call in reversed(calls))
    outer = next(filter(None, scripts), None)
    is_top = bool(calls) and calls[-1].function in _TOP
    is_main = form.language == "Java" and _is_main(told, is_top=is_top)
    return clue_at(
        lines[head],
        ClueKind.ABORT,
        form.language if form.language == "R" else "a language runtime",
        name=told.get("name") or (outer["name"] if outer is not None else form.name),
        detail=shortened(detail),
        native=tuple(one for one in calls if one.function or one.file),
        is_caught=not form.is_sure and not is_main,
    )


def _is_main(told: dict[str, str | None], *, is_top: bool) -> bool:
    return is_top or '"main"' in (told.get("detail") or "")


def _above(
    form: _Form, lines: Sequence[LogLine], at: int
) -> tuple[int, dict[str, str | None]] | None:
    """The words above the last line: the nearest, or of Tcl's the first of the block."""
    found = None
    for near in range(at - 1, max(-1, at - _REACH), -1):
        match = form.words.match(lines[near].text) if form.words is not None else None
        if match is not None:
            found = (near, match.groupdict())
            if form.language != "Tcl":
                break
        elif form.language == "Tcl" and found is not None and not lines[near].text.strip():
            break
    return found


def _calls(form: _Form, lines: Sequence[LogLine], head: int) -> Iterator[NativeCall]:
    """The calls below the words, without the runtime's own."""
    if form.frame is None:
        return
    is_begun = False
    for number, line in enumerate(lines[head + 1 : head + 1 + _REACH]):
        match = form.frame.match(line.text)
        if match is None:
            if is_begun or number > _BETWEEN:
                return
            continue
        is_begun = True
        call = _call(match.groupdict())
        if call is not None and _INNER.match(call.file or "") is None:
            yield call


def _shifted(calls: Sequence[NativeCall]) -> list[NativeCall]:
    """PHP puts the place of a call beside what was called there."""
    names = (*(call.function for call in calls[1:]), "{main}")
    return [
        NativeCall(function=name, module=None, file=call.file, line=call.line)
        for name, call in zip(names, calls, strict=True)
    ]


def _call(told: dict[str, str | None]) -> NativeCall | None:
    file, line, function = told.get("file"), told.get("line"), told.get("function")
    if file is None and function is None:
        return None
    return NativeCall(
        function=function, module=None, file=file, line=int(line) if line is not None else None
    )
