"""Where in a text a clue stands: in source code, in a list of changes, in a lesson, or in a log.

A line that was printed by what died and the same line in a manual look alike; the lines around it
do not. Only the beginning of a text is kept for this: what is longer is a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from vllm_forensics.evidence.log.people.changes import is_all_changes, is_list_of_changes, is_manual
from vllm_forensics.evidence.log.people.lessons import (
    Lessons,
    count_of_witnesses,
    is_expected,
    is_name,
    is_of_a_lesson,
    is_of_another_report,
    is_possible,
    is_provoked,
    is_term,
    is_wished,
    lessons_in,
)
from vllm_forensics.evidence.log.people.literals import literal_lines
from vllm_forensics.evidence.log.people.of_messages import Telling
from vllm_forensics.evidence.log.people.orders import Orders
from vllm_forensics.evidence.log.people.page import Page, is_answer, is_fence
from vllm_forensics.evidence.log.people.prose import is_comment
from vllm_forensics.evidence.log.people.rollouts import Rollouts
from vllm_forensics.evidence.log.people.tables import is_cell, is_of_catalogue, is_row_of_codes
from vllm_forensics.evidence.log.people.titles import title_of
from vllm_forensics.evidence.log.people.verdicts import Verdicts, passed_parts
from vllm_forensics.evidence.log.people.works import is_maintainers, is_of_work
from vllm_forensics.evidence.sanitizer.lines import without_colors
from vllm_forensics.model.incident import Clue, ClueKind

_PANICKED: Final = " panicked at "
"""What a thread of Rust's says of itself."""
_MANY: Final = 400
"""Nobody writes of so many deaths: that is a log."""
_KEPT: Final = 1 << 16
_WINDOW: Final = 30
_REACH: Final = 120
_ENDS: Final = 4
"""So many lines at its beginning and end tell source code from a script with its output."""
_MAX_LINE: Final = 1_000
_FORM: Final = 300
"""So much of a line shows whether it is source code."""
_DUMP: Final = re.compile(
    r"\s*(?:File \"|(?:Current )?[Tt]hread |#|Traceback|\[\s?\d{1,3}\]|@ +0x|frame #|"
    r"at [\w/.]{1,200}:\d|$)"
)
"""Lines of a stack, and comments, are neither code nor none."""
_MEMBER: Final = re.compile(r"\s*\"[\w.-]{1,60}\" ?: ")
"""Of a document, which may be a program's, or be printed by one."""
_STATEMENT: Final = re.compile(
    # Python
    r"\s*(?:(?:async )?def \w|class \w{1,80}[(:]|import \w[\w., ]{0,200}$|from [\w.]{1,99} import |"
    r"return\b|raise \w|assert\b|(?:el)?if .{1,200}:$|else:$|try:$|except\b.{0,120}:$|finally:$|"
    r"for .{1,120} in .{1,120}:$|while .{1,200}:$|with .{1,200}:$|@[\w.]{1,80}(?:\(.{0,200})?$|"
    r"pass$|self\.\w|print\(|yield\b|[rfb]{0,2}(?:\"\"\"|''')|"
    r"[\w.]{1,60}(?:: [\w\[\]., |]{1,60})? [-+|]?= [\w.\"'\[({&*-]|"
    # C, C++, Rust, Go, JavaScript
    r"#\s?(?:include|define|ifn?def|endif|pragma|undef)\b|(?:static|const|void|int|char|unsigned|"
    r"struct|public|private|template|typedef|using|namespace|auto|bool|double|size_t|extern)\b"
    r".{0,200}[;{(,)]$|(?:pub |async |export )?"
    r"(?:fn|func|function|impl|mod|let|const|var|package|use|trait) [\w<(:*]|"
    # shell
    r"if \[|fi$|then$|done$|do$|esac$|echo [\"'$]|export \w{1,60}=|"
    r"[A-Z_]{3,40}=[\"'(]|local \w{1,60}=|trap )"
)
_ENDING: Final = re.compile(
    r".{0,300}(?:[;{}]|\)[;,]|\\|\() *$|\s*[)}\]]{1,4}[,;)]{0,4}$|\s*(?://(?!#)|/\*|\*/|\* \w)|"
    r"\s{1,40}(?:>>>|\.\.\.) |.{0,200}(?:2>/dev/null|\| grep -|&& \w)|"
    r"\s*[\w.]{1,80}\((?![+\d]).{0,200}\)[,;]?$|"
    r"\s*[rfb]?\"(?:[^\"\\]|\\.){0,200}\",?$|\s*[rfb]?'(?:[^'\\]|\\.){0,200}',$"
)
"""How only source code ends, and what only stands in it."""
_LOGGED: Final = re.compile(
    r"[$>] |\S{1,40}@\S{1,40}[:~]|"
    r"\s*(?:\(\w{1,60} pid=|\[?\d{4}-\d\d-\d\d|\{\"|\w{1,20} \d\d-\d\d \d\d:|"
    # llama.cpp: load_model: n_ctx = 512, n_batch = 8
    r"\w{1,60}: {1,4}(?:[\w ]{1,40} = [^,=]{1,60}, ){1,3}\w{1,40} = |"
    r"\w{1,60}: {1,20}[\w ]{1,60}= {1,8}[\d.]{1,16} [KMG]iB\b)"
)
_STOPS: Final = re.compile(
    rb"(?:^|[\s:\]-])(?:(?:[Rr]eceived|[Gg]ot|[Cc]aught) (?:SIG(?:TERM|INT)|signal (?:15|2)\b)|"
    rb"Shutting down\b(?! Ray distributed executor)|[Gg]racefully stopping|"
    rb"waiting for .{1,60} to stop|Stopping \S{1,60}\.\.\.)|"
    rb"(?i:shutting down (?:gracefully|normally))"
)
"""Somebody asked for an end."""
_SUCCEEDS: Final = re.compile(
    rb"(?i)\b(?:exit(?:ed)? (?:with )?(?:code|status):? ?0\b|(?:finished|completed) successfully)"
)
_LAST: Final = 1_000
_ATTACHES: Final = re.compile(
    r"Attaching to process \d|.{0,80}\bgdb (?:-p|--pid)|.{0,40}\(gdb\) attach |.{0,40}\bpstack \d"
)
_HANGS: Final = re.compile(
    r"(?i)\b(?:hangs?|hung|hanging|stuck|deadlock\w{0,3}|freez\w{1,4}|frozen)\b"
)
_GOES_ON: Final = re.compile(
    r"\bWARN(?:ING)?\b.*\b(?i:fall(?:s|ing)? back|retry(?:ing)?|rebuild(?:ing)?|ignor(?:ed|ing)|"
    r"skipp(?:ed|ing)|instead|continuing|will use)\b|^Exception ignored (?:in|on)\b"
)
_ISSUE: Final = re.compile(r"[\w.-]{1,60}/[\w.-]{1,80} \u00b7 issue #\d")
"""What a tracker puts above an issue."""
_RAISED: Final = {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT}
_FAR: Final = 300
_RECORD: Final = 12
_COMMENTS: Final = 3
_TOP: Final = 3
"""A line so near to a text's beginning may be its title, and no comment."""
_COMMAND: Final = re.compile(r"(?:[$>] )?[a-z][\w./-]{0,40} (?:.{0,200} )?(?:-{1,2}[A-Za-z]|\| \w)")
"""A command with an option, or into another."""
_MARKED: Final = re.compile(
    r"(?://)?#\s{0,2}(?:A fatal error has been|JRE version|Java VM|Problematic frame|"
    r"Fatal error in|(?:Debug c|C)heck failed|Fatal JavaScript|"
    r"\d{1,3}:? \S{1,240}\([^()]{0,400}\) \[0x)"
)
"""Java's machine, V8 and some crash handlers begin each line with the mark of a comment."""
_WAITS: Final = re.compile(
    r"_{0,2}(?:GI_{1,3})?(?:internal_)?(?:futex_|do_futex_wait|syscall_cancel|poll\b|ppoll\b|select\b|"
    r"epoll_wait|(?:clock_)?nanosleep|pthread_cond_|(?:new_)?sem_wait|lll_lock|wait4|waitpid)"
)
"""A debugger that is attached to a living process finds its threads in these."""


class _Kind(Enum):
    CODE = auto()
    OTHER = auto()
    MEMBER = auto()
    NEITHER = auto()
    FENCE = auto()


class Setting:
    """The beginning of a text."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._head = bytearray()
        self._verdicts = Verdicts()
        self._rollouts = Rollouts()
        self._orders = Orders()
        self.teaches = False
        """Known once `printed` was asked: is what died in the text, if anything, an example?"""

    def feed(self, piece: bytes) -> None:
        """Keep what is near the text's beginning, and what test runs say of themselves."""
        self._verdicts.feed(piece)
        self._rollouts.feed(piece)
        self._orders.feed(piece)
        if len(self._head) < _KEPT:
            self._head += piece[: _KEPT - len(self._head)]

    def stopped(self, clues: Sequence[Clue]) -> int | None:
        """The first line that announces an orderly stop, where anything else is told at all."""
        if not clues:
            return None
        lines = enumerate(self._head.split(b"\n"), start=1)
        return next((number for number, line in lines if _STOPS.search(line) is not None), None)

    def succeeded(self, size: int) -> bool:
        """Do the last lines of a text of that size say that all went well?"""
        if size > len(self._head):
            return False
        last = [line for line in self._head[-_LAST:].split(b"\n") if line.strip()][-2:]
        return any(_SUCCEEDS.search(line) is not None for line in last)

    def lines(self, most: int = _KEPT) -> list[str]:
        """The beginning's lines."""
        lines = self._head.split(b"\n", most)[:most]
        cut = (line[: 3 * _MAX_LINE].decode("utf-8", "replace") for line in lines)
        return [without_colors(line)[:_MAX_LINE].rstrip() for line in cut]

    def printed(self, clues: Sequence[Clue]) -> list[Clue]:
        """The clues without those that the text only shows."""
        clues = self._without_what_was_meant(clues) if clues else clues
        if not clues or len(clues) > _MANY:
            return list(clues)
        lines = self.lines()
        short = [line[:_FORM] for line in lines]
        kinds = [_kind(line, above) for line, above in zip(short, ["", *short[:-1]], strict=True)]
        page = Page(lines)
        if is_manual(page.head) or is_all_changes(lines) or _is_source(kinds):
            return []
        lessons = lessons_in(page)
        is_issue = bool(lines) and _ISSUE.match(lines[0]) is not None
        if lessons is Lessons.ALL:  # but whoever opened an issue reports, whatever others explain
            return [one for one in clues if is_issue and _is_title(one)]
        self.teaches = lessons is Lessons.SOME
        is_change = any(map(is_maintainers, page.head))
        telling = Telling(title_of(lines).text, lines, is_change=is_change)
        is_wish = any(line.startswith("# ") and is_of_work(line[2:]) for line in lines[:_TOP])
        is_of_nobody = count_of_witnesses(page.head, of_thread=not is_change) == 0
        passed, literal = passed_parts(lines), literal_lines(lines)
        resting = _stacks_of_the_living(clues, lines)
        heard: list[Clue] = []
        for clue in telling.without_samples(clues, page):
            at = clue.line - 1
            if at in literal or at in resting or any(at in part for part in passed):
                continue
            if at >= len(lines):
                heard.append(clue)
                continue
            is_report = is_issue and _is_title(clue)
            is_lessons = clue.kind is ClueKind.HEARSAY or is_name(page, at)
            if lessons is Lessons.SOME and is_lessons and not is_report:
                continue
            is_handled = clue.kind in _RAISED and _is_handled(lines, at)
            is_handled = is_handled or (is_wish and is_wished(page, at))
            if is_handled or is_row_of_codes(lines, at, clue):
                continue
            if not (_is_shown(page, kinds, at) or (is_of_nobody and is_of_a_lesson(page, at))):
                is_told = lessons is Lessons.SOME or is_wished(page, at) or is_provoked(page, at)
                is_told = is_told or (is_of_nobody and is_possible(page, at))
                is_told = is_told or is_answer(page, at)
                heard.append(replace(clue, is_told=is_told or clue.is_told))
        return heard

    def _without_what_was_meant(self, clues: Sequence[Clue]) -> Sequence[Clue]:
        """Without what tests, a trainer's samples and a service manager only tell of."""
        clues = self._rollouts.without_samples(list(self._without_tests(clues)))
        return self._orders.without_stopped(clues)

    def _without_tests(self, clues: Sequence[Clue]) -> Sequence[Clue]:
        """Without what died in test runs that passed, and what one that ended had caught."""
        passed, ended = self._verdicts.passed(), self._verdicts.ended()
        if not passed and not ended:
            return clues
        return [
            clue
            for clue in clues
            if not any(clue.line - 1 in part for part in passed)
            and not (
                (clue.kind is ClueKind.EXCEPTION or _PANICKED in clue.text)
                and any(clue.line - 1 in part for part in ended)
            )
        ]


def _is_title(clue: Clue) -> bool:
    """Does somebody report a crash in the title?"""
    return clue.kind is ClueKind.HEARSAY and clue.line <= _TOP


def _is_handled(lines: Sequence[str], at: int) -> bool:
    """Does the warning above an exception's traceback say how it went on without?"""
    above = range(at, max(0, at - _REACH), -1)
    begin = next((near for near in above if "Traceback (most recent" in lines[near]), 0)
    return any(_GOES_ON.search(line) is not None for line in lines[max(0, begin - 1) : begin + 1])


def _stacks_of_the_living(clues: Sequence[Clue], lines: Sequence[str]) -> set[int]:
    """Where stacks begin of a process that somebody only looked at, and nobody says that it hangs.

    A debugger was attached; or its threads wait, and none of them was asked to give up.
    """
    stacks = [clue for clue in clues if clue.kind is ClueKind.STACK]
    if not stacks:
        return set()
    attached = [at for at, line in enumerate(lines) if _ATTACHES.match(line) is not None]
    living = {
        clue.line - 1
        for clue in stacks
        if _is_asleep(clue) or any(0 <= clue.line - 1 - at <= _FAR for at in attached[:_MANY])
    }
    if living and any(_HANGS.search(line) is not None for line in lines):
        return set()
    return living


def _is_asleep(clue: Clue) -> bool:
    innermost = clue.native[0].function if clue.native else None
    return clue.signal is None and _WAITS.match(innermost or "") is not None


def _is_shown(page: Page, kinds: Sequence[_Kind], at: int) -> bool:
    lines = page.lines
    return (
        is_comment(lines[at])
        or is_term(lines[at])
        or is_cell(lines, at)
        or is_of_catalogue(lines, at)
        or is_of_another_report(lines, at)
        or is_expected(page, at)
        or _is_comment_of_code(page, kinds, at)
        or _is_within_code(kinds, at)
        or is_list_of_changes(lines, at)
        or page.is_of_patch(at)
    )


def _is_comment_of_code(page: Page, kinds: Sequence[_Kind], at: int) -> bool:
    """Does the line begin with the mark of a comment or title, and code stand next to it?"""
    lines = page.lines
    if not lines[at].startswith("# "):
        return False
    near_by = lines[max(0, at - _RECORD) : at + _RECORD]
    is_record = any(_MARKED.match(line) is not None for line in near_by)
    if page.is_fenced(at) and not is_record:
        return True
    if at > _TOP and _COMMAND.match(lines[at + 1] if at + 1 < len(lines) else "") is not None:
        return True
    length = -1
    for step in (-1, 1):
        near = at
        while 0 <= near < len(lines) and lines[near].startswith("#"):
            near += step
            length += 1
        if 0 <= near < len(lines) and kinds[near] is _Kind.CODE:
            return True
    return length >= _COMMENTS and not is_record  # titles stand alone


def _kind(line: str, above: str) -> _Kind:
    if is_fence(line):
        return _Kind.FENCE
    # The source that a traceback quotes is none of this text.
    is_quoted = (line.startswith("    ") and above.lstrip().startswith('File "')) or (
        above.startswith('File "') and '", line ' in above  # it lost its indentation
    )
    if is_quoted or _DUMP.match(line) is not None:
        return _Kind.NEITHER
    if _LOGGED.match(line) is not None:
        return _Kind.OTHER
    if _MEMBER.match(line) is not None:
        return _Kind.MEMBER
    is_code = (_STATEMENT.match(line) or _ENDING.match(line)) is not None
    return _Kind.CODE if is_code else _Kind.OTHER


def _is_source(kinds: Sequence[_Kind]) -> bool:
    """Is the whole text a file of source code, from its first lines to its last?"""
    own = [kind for kind in kinds if kind is not _Kind.NEITHER]
    if _Kind.FENCE in own or len(own) < 2 * _ENDS:
        return False
    if not all(_Kind.CODE in end for end in (own[: _ENDS // 2], own[-_ENDS:])):
        return False
    code = own.count(_Kind.CODE)
    return 5 * code >= 2 * len(own) and code > 2 * own.count(_Kind.MEMBER)


def _is_within_code(kinds: Sequence[_Kind], at: int) -> bool:
    """Does source code stand above and below, in the same block, and no document around it?"""
    if set(kinds[max(0, at - 1) : at + 2]) == {_Kind.MEMBER}:
        return False
    code, other = _counted(reversed(kinds[max(0, at - _REACH) : at]))
    if code < 2 or code < other:
        return False
    below, rest = _counted(kinds[at + 1 : at + _REACH])
    if below + rest == 0:  # the last line of a file
        return code >= 2 * other and kinds[at] is _Kind.CODE
    return below > 0 and 2 * below >= rest


def _counted(kinds: Iterable[_Kind]) -> tuple[int, int]:
    """How many of the nearest lines are source code, and how many are none, up to a fence."""
    code = other = 0
    for kind in kinds:
        if kind is _Kind.FENCE or code + other == _WINDOW:
            break
        code += kind is _Kind.CODE
        other += kind is _Kind.OTHER
    return code, other
