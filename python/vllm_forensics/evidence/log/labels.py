"""Who died, as a record with one label a line says: `Application: serve.exe`.

Crash reporters of many systems write such records (apport, abrt, .NET, HHVM), with the program in
one line and the signal in another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.phrases import base_name
from vllm_forensics.evidence.log.prompts import is_nameless, program_of_command
from vllm_forensics.model.incident import LISTING, OOPS, SHELL, Clue, ClueKind

_NAME: Final = (
    r"[\"'`]?(?:[^\s/\\\"'`]{0,100}[/\\]){0,20}(?P<%s>[A-Za-z_][\w.+-]{1,60})[\"'`]?\W{0,4}$"
)
_PROGRAM: Final = re.compile(
    r"[\W_]{0,6}(?i:(?:app(?:lication)?|process|program|image|exe(?:cutable)?|binary)[ _]?"
    r"(?:name|path|file)?)[\"'`*]{0,3}[ \t]{0,8}[:=][ \t]{1,20}" + _NAME % "program"
)
_FORM: Final = re.compile(
    r"[\W_]{0,6}(?i:app(?:lication)?|program|executable|software)(?: name)?[\"'`*]{0,3}: "
    r"(?P<program>[A-Za-z][\w.+-]{2,40})(?= v?\d|\W{0,4}$)"
)
_COMMAND: Final = re.compile(
    r"[\W_]{0,6}(?i:proc[ _]?cmdline|cmdline|command[ _]?line|command being timed)[\"'`*]{0,3}"
    r"[ \t]{0,8}[:=][ \t]{1,20}\"?(?P<command>\S.{0,300})"
)
_FIELD: Final = re.compile(r"\s*COREDUMP_(?:COMM|EXE)=" + _NAME % "field")
"""Of the journal's own record."""
_PATH: Final = re.compile(r"\W{0,6}Name[ \t]{0,8}[:=][ \t]{1,20}(?=/|[A-Z]:\\)" + _NAME % "path")
_MEMBER: Final = re.compile(
    r"\s{0,40}\"[Nn]ame\": {0,2}\"/?(?P<name>[A-Za-z0-9][\w.-]{0,80})\",?\s*$"
)
"""Of a container's status in JSON."""
_STARTED: Final = re.compile(
    r"\s{0,40}\"Path\": {0,2}\"(?:[^\"/]{0,60}/){0,12}(?P<name>[A-Za-z][\w.-]{1,80})(?<!\.sh)\""
    r",?\s*$"
)
"""The same, of what it runs."""
_PLAIN: Final = re.compile(r"(?P<depth>\s{0,40}(?:- )?)name: (?P<name>[a-z0-9][\w.-]{0,80})\s*$")
_TERMINATED: Final = re.compile(r"\s{1,40}(?:exitCode|reason): \S")
"""The same in YAML."""
_ANDROIDS: Final = re.compile(r".{0,60}\bProcess: (?P<name>[\w.:]{3,120}), PID: \d{1,9}")
"""Below an exception of Java's that nobody caught."""
_CONTAINER: Final = re.compile(r"\s{0,12}(?P<name>[a-z0-9][a-z0-9.-]{0,60}):\s*$")
_HEADING: Final = re.compile(r"(?P<name>[a-z0-9][a-z0-9.-]{1,60})\s*$")
_STATE: Final = re.compile(r"\s{2,16}(?:Last )?State: ")
"""Of a description of which somebody left the state alone, below the container's name."""
_DESCRIBED: Final = re.compile(r"\s{0,16}(?:Container ID|Image): ")
"""kubectl describe names a container above such lines."""
_THREAD: Final = re.compile(
    r"\s{0,4}in thread [0-9a-f]{6,16} thread_name:(?P<thread>[\w.:-]{2,40})\s*$"
)
"""Ceph's, below the signal. Its first thread has the program's name."""
_OBJECT: Final = re.compile(
    r".{0,240}\bBacktrace (?:thr<\d{1,9}> )?obj<(?:[^<>\s/]{0,100}/){0,20}(?P<object>[\w+-]{2,60})>"
)
"""Envoy's, which names the file that the first frames lie in."""
_COMPONENT: Final = re.compile(
    r"\{.{0,400}?\"component\": ?\"(?P<component>[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){1,6})\""
)
_RECORDS: Final = 3
"""So many records in JSON above, of one component, tell whose last words they are."""
_OF_CONTAINER: Final = 30
_DESCRIBES: Final = re.compile(
    r".{0,80}\b(?:kubectl|k|oc) (?:-n \S{1,60} )?describe po(?:ds?)?[ /]"
    r"(?:-n \S{1,60} |--namespace[= ]\S{1,60} )?(?P<name>[a-z0-9][a-z0-9.-]{2,120})(?=\s|$)"
)
_UNIQUE: Final = re.compile(r"(?:-[a-f0-9]{8,10})?-[a-z0-9]{5}$")
"""What a replica set and its pod add to a deployment's name."""
_DIED: Final = re.compile(
    r".{0,120}\bProcess (?P<name>[\w.:]{3,120}) \(pid (?P<pid>\d{1,9})\) has died\b"
)
"""Android says so below."""
_APP: Final = re.compile(
    r".{0,140}\bpid: (?P<pid>\d{1,9}), tid: \d{1,9}, name: .{1,60} >>> (?P<name>[\w.:]{3,120}) <<<"
)
_PROC_NAME: Final = re.compile(r"\W{0,8}\"(?:procName|app_name)\" ?: ?\"(?P<name>[^\"\\]{1,80})\"")
_CORE_OF: Final = re.compile(
    r"Corefile specified executable: \"(?:[^\s/\"]{0,100}/){0,20}(?P<name>[\w.+-]{1,60})\""
)
"""dbx's, of the core that it opens."""
_DEEPSPEED: Final = re.compile(
    r".{0,60}\[launch\.py:\d{1,5}:sigkill_handler\] \['[^']{1,200}', '-u', "
    r"'(?:[^'/]{0,100}/){0,12}(?P<name>[\w+-]{1,80}\.py)'"
)
"""DeepSpeed's, of what it had started where one of them failed."""
_PROC_PID: Final = re.compile(r"\W{0,8}\"pid\" ?: ?(?P<pid>\d{1,9})\b")
_APPLES: Final = re.compile(r"\s{0,4}Process: {1,20}(?P<name>\S[^\[\]:]{1,60}) \[\d{1,9}\]\s*$")
"""The first line of macOS's own report, of which somebody showed the stack before."""
_OF_REPORT: Final = 60
_APPORT: Final = re.compile(
    r".{0,60}\bapport \(pid \d{1,9}\) .{0,40}: executable: (?:[^\s/]{0,100}/){0,20}"
    r"(?P<name>[\w.+-]{1,60})"
)
_TOGETHER: Final = 4
"""So many lines apport writes of one core."""
_BASE: Final = re.compile(
    r"\W{0,4}PE(?:-Wine)?\s{1,12}(?:400000|140000000)- {0,12}[0-9a-f]{5,12}\s{1,12}\S{1,12}"
    r"\s{1,20}(?P<name>\w[\w .+-]{1,60})$"
)
"""In Wine's list of modules the program lies where linkers put it, and libraries do not."""
_OF_MODULES: Final = 90
_THREADS: Final = re.compile(r".{0,240}\bin tid \d{1,9} \((?P<name>[^()]{1,40})\)(?!, pid)")
"""Older Androids tell no more than the thread."""
_ARGUMENTS: Final = re.compile(
    r"Args: \"(?:[^\"/\\]{0,100}[/\\]{1,2}){0,20}(?P<first>[A-Za-z_][\w.+-]{1,60})\""
)
"""Bun's, of what it was started as."""
_TASK: Final = re.compile(r"Crashed task handle: 0x[0-9a-f]{4,16}, name: '(?P<task>[^']{1,40})'")
"""ESP-IDF's, in its report of a core."""
_BSD: Final = re.compile(r"\W{0,4}(?:\[\d{1,9}\] )?(?:KDB: |cpuid = \d|db_trace_self)")
"""What FreeBSD's kernel prints below the words of its panic."""
_CALLED: Final = re.compile(
    r"(?:[\w.]{0,40}\.)?CalledProcessError: Command [\['\"]{1,3}(?P<command>[^'\"]{1,300})"
)
"""Python's, of the shell's command that failed: whose death the shell told above."""
_TARGET: Final = re.compile(
    r".{0,80}\bmake(?:\[\d{1,3}\])?: \*\*\* \[(?:[^\]:]{1,120}:\d{1,6}: )?(?:[^\]/]{1,80}/){0,12}"
    r"(?P<target>(?!(?:all|default|build|install)\])[\w-]{2,60})\] "
)
"""What make was to bring about: it has the name of what ran, and no object's or library's."""
_FAILED: Final = re.compile(r"(?:\d{1,4}: )?FAIL: (?P<test>[\w.-]{1,60}) ?$")
"""Below a shell's word, of the test that it ran."""
_IMPORTS: Final = re.compile(r"(?:import '[\w.]{1,80}' # <|# extension module ')")
"""What an interpreter tells that was asked to be verbose."""
_LABELS: Final = (_TASK, _PROGRAM, _PATH, _FIELD, _THREAD, _OBJECT, _ARGUMENTS, _ANDROIDS)
_RIGHT_BELOW: Final = 2
_REACH: Final = 14
"""So many lines such a record has, above the signal and below."""
_OF_RECORDS: Final = {ClueKind.SIGNAL, ClueKind.ABORT, ClueKind.HEAP, ClueKind.CHILD}


def labelled_program(line: str) -> str | None:
    """The program that a line of a form names: `Application: poolview`."""
    match = _FORM.match(line)
    if match is not None:
        return match["program"]
    forms = (_PROC_NAME, _APPLES, _CORE_OF, _DEEPSPEED)
    told = next(filter(None, (form.match(line) for form in forms)), None)
    return told["name"] if told is not None else None


def with_labels(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; with the program's name where a label near a nameless one tells it."""
    if not any(map(_is_of_record, clues)):
        return list(clues)
    text = lines()
    named = [_named(clue, text) if _is_of_record(clue) else clue for clue in clues]
    if any(clue.name for clue in named):
        return named
    return [_of_thread(clue) if clue.source == "Android" else clue for clue in named]


def with_kernels(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; a panic that a kernel's own lines follow is a kernel's, and no program's."""
    return [_of_kernel(one, lines()) if one.text.startswith("panic: ") else one for one in clues]


def _of_kernel(clue: Clue, lines: Sequence[str]) -> Clue:
    is_kernels = any(map(_BSD.match, lines[clue.line : clue.line + _TOGETHER]))
    return replace(clue, name="kernel", source=OOPS) if is_kernels else clue


def _of_thread(clue: Clue) -> Clue:
    """With the name of the thread that faulted, where nothing tells the process's."""
    thread = _THREADS.match(clue.text)
    if thread is None or clue.pid is not None:
        return clue
    return replace(clue, name=thread["name"], is_named_elsewhere=True)


def _named(clue: Clue, lines: Sequence[str]) -> Clue:
    at = clue.line - 1
    if clue.source in {"the container runtime", LISTING}:
        return replace(clue, name=_container(lines, at))
    if clue.source == "Android":
        return _of_android(clue, lines, at)
    if _is_apports(clue):
        above = map(_APPORT.match, lines[at : at + _TOGETHER])
        return replace(clue, name=next((one["name"] for one in above if one is not None), None))
    if clue.source == "macOS" and '"' in clue.text:
        return _of_apples(clue, lines, at)
    name = _labelled(lines, at) or _of_wine(clue, lines, at) or _of_json(lines, at)
    called = _called(clue, lines, at) if name is None else None
    is_elsewhere = clue.is_named_elsewhere or called is not None
    return replace(clue, name=name or called, is_named_elsewhere=is_elsewhere)


def _called(clue: Clue, lines: Sequence[str], at: int) -> str | None:
    """What make ran, a test that failed, or a command that an exception below says had failed."""
    target = _TARGET.match(clue.text)
    if target is not None:
        return target["target"]
    tests = map(_FAILED.match, lines[at + 1 : at + 1 + _RIGHT_BELOW])
    if clue.source == SHELL and (test := next(filter(None, tests), None)) is not None:
        return test["test"]
    below = filter(None, map(_CALLED.match, lines[at + 1 : at + 1 + _REACH]))
    called = next(below, None)
    return program_of_command(called["command"]) if called is not None else None


def _of_wine(clue: Clue, lines: Sequence[str], at: int) -> str | None:
    """The program among the modules that Wine's debugger lists below a stack."""
    if "page fault on " not in clue.text:
        return None
    below = map(_BASE.match, lines[at : at + _OF_MODULES])
    return next((one["name"] for one in below if one is not None), None)


def _of_json(lines: Sequence[str], at: int) -> str | None:
    """The component that wrote the records right above."""
    above = [match for match in map(_COMPONENT.match, lines[max(0, at - _RECORDS) : at]) if match]
    names = {match["component"] for match in above}
    return names.pop() if len(above) > 1 and len(names) == 1 else None


def _is_apports(clue: Clue) -> bool:
    return clue.source == "kernel" and clue.name is None and ": apport (pid " in clue.text


def _of_android(clue: Clue, lines: Sequence[str], at: int) -> Clue:
    """With the app's whole name, which other lines of its record tell."""
    near = lines[max(0, at - _OF_CONTAINER) : at + _OF_CONTAINER]
    told = (match for form in (_DIED, _APP) for match in map(form.match, near) if match is not None)
    found = next((one for one in told if clue.pid in {None, int(one["pid"])}), None)
    return replace(clue, pid=int(found["pid"]), name=found["name"]) if found is not None else clue


def _of_apples(clue: Clue, lines: Sequence[str], at: int) -> Clue:
    """With the members of a report in JSON that name its process."""
    near = lines[max(0, at - _OF_REPORT) : at + _OF_REPORT]
    names = (match["name"] for match in map(_PROC_NAME.match, near) if match is not None)
    pids = (int(match["pid"]) for match in map(_PROC_PID.match, near) if match is not None)
    return replace(clue, name=next(names, None), pid=clue.pid or next(pids, None))


def _container(lines: Sequence[str], at: int) -> str | None:
    """The container of which a description tells the end."""
    for near in range(at - 1, max(-1, at - _OF_CONTAINER), -1):
        match = _CONTAINER.match(lines[near])
        if match is not None and _DESCRIBED.match(lines[near + 1]) is not None:
            return match["name"]
        heading = _HEADING.match(lines[near])
        if heading is not None and _STATE.match(lines[near + 1]) is not None:
            return heading["name"]
    if '"' not in lines[at]:
        return _member(lines, at) or _typed_pod(lines, at)
    above, below = lines[max(0, at - _REACH) : at], lines[at + 1 : at + 1 + _OF_CONTAINER]
    beside = (*reversed(above), *below)
    members = (form.match(line) for form in (_MEMBER, _STARTED) for line in beside)
    return next((one["name"] for one in members if one is not None), None)


def _member(lines: Sequence[str], at: int) -> str | None:
    """The container's name in YAML: of a lesser depth, and in kubectl's order behind its state."""
    depth = len(lines[at]) - len(lines[at].lstrip(" "))
    if not depth or not _TERMINATED.match(lines[at]):
        return None
    near = (*lines[at + 1 : at + 1 + _REACH], *reversed(lines[max(0, at - _REACH) : at]))
    found = filter(None, map(_PLAIN.match, near))
    return next((one["name"] for one in found if len(one["depth"]) < depth), None)


def _typed_pod(lines: Sequence[str], at: int) -> str | None:
    """The pod that somebody asked kubectl to describe above, without what makes it unique."""
    above = lines[max(0, at - _OF_CONTAINER) : at]
    typed = next(filter(None, map(_DESCRIBES.match, reversed(above))), None)
    return _UNIQUE.sub("", typed["name"]) if typed is not None else None


def _is_of_record(clue: Clue) -> bool:
    is_parents = clue.kind is ClueKind.CHILD and clue.name is None and not clue.is_told
    is_cut = clue.source == "Android" and (clue.name or "").startswith(".")
    is_windbgs = clue.source == "a debugger" and clue.kind is ClueKind.SIGNAL and not clue.name
    is_theirs = is_parents or is_windbgs or is_cut or _is_apports(clue)
    is_full = clue.kind is ClueKind.MEMORY and clue.source == "the container runtime"
    if is_full:
        return clue.name is None and not clue.is_told
    return clue.kind in _OF_RECORDS and (is_theirs or is_nameless(clue))


def _labelled(lines: Sequence[str], at: int) -> str | None:
    """What the nearest label says, and above all one above."""
    for line in (*reversed(lines[max(0, at - _REACH) : at]), *lines[at + 1 : at + 1 + _REACH]):
        match = next(filter(None, (label.match(line) for label in _LABELS)), None)
        if match is not None:
            return base_name(match[1])
        command = _COMMAND.match(line)
        if command is not None:
            return program_of_command(command["command"])
        if _IMPORTS.match(line) is not None:
            return "python"
    return None
