"""A line of a log as the program wrote it, with the process that wrote it, as its prefixes say."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from vllm_forensics.evidence.alternatives import Alternative, Alternatives
from vllm_forensics.evidence.log.flattened import unflattened, without_bar
from vllm_forensics.evidence.sanitizer.asked import without_requests
from vllm_forensics.evidence.sanitizer.lines import MAX_TEXT, is_clean, logical_lines
from vllm_forensics.evidence.sanitizer.prefixes import strip_prefixes

_LEVEL: Final = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRITICAL|FATAL|EXCEPTION)"
LOGGERS: Final = Alternatives(
    {
        "logger": (
            # vLLM: ERROR 11-08 11:01:29 [core.py:502] or, older, core.py:398]; behind a container's
            # time the level is gone
            Alternative(
                r"[A-Z\d]",
                rf"(?:{_LEVEL} )?\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})? "
                r"\[?(?:[\w.-]{1,60}/)?(?P<module>[\w.-]{1,60}):\d{1,6}\] ?",
            ),
            # Ray's and glog's: [2025-02-06 16:45:19,245 E 12903 13435] logging.cc:108:
            # (the reader of lines has taken the date)
            Alternative(
                r"[\[A-Z]",
                r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} )?[A-Z] (?P<pid>\d{1,9}) \d{1,9}\] "
                r"(?:\((?:(?P<part>[a-z_]{2,20})|[\w-]{1,40})\) )?"
                r"(?:[\w.]{1,60}:\d{1,6}: ?(?!\s{0,3}Check failed))?",
            ),
            # glog: E0208 16:45:19.123456 12903 file.cc:108]; what is fatal keeps its level
            Alternative(
                "[IWE]",
                r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} {1,8}\d{1,9} "
                r"(?:[\w./-]{1,120}:\d{1,6}\] ?(?!\s{0,3}Check failed))?",
            ),
            # NCCL: host:42:43 [0] misc/shmutils.cc:71 NCCL WARN
            Alternative(
                r"[\w.-]",
                # a launcher's name of the host may stand before it
                r"(?:[\w.-]{1,64}: )?[\w.-]{1,64}:(?P<nccl>\d{1,9}):\d{1,9} \[\d{1,4}\] "
                r"(?:[\w./-]{1,120}:\d{1,6} )?(?=NCCL [A-Z])",
            ),
            # Zabbix: 18196:20260115:081245.123, padded to its width
            Alternative(r"[ \d]", r" {0,8}(?P<number>\d{1,9}):\d{8}:\d{6}\.\d{3} "),
            # torch: [E219 12:14:43.351647859 ProcessGroupNCCL.cpp:1595]; [E ProcessGroupNCCL.cpp:1]
            Alternative(
                r"\[",
                r"\[[IWEF]\d{0,4} (?:\d\d:\d\d:\d\d\.\d{1,9} )?[\w./-]{1,120}:\d{1,6}\] ?",
            ),
            # logging's: 2025-11-02 13:17:04,315 - vllm.v1.engine.core_client - ERROR -
            Alternative(
                r"[\w.-]",
                rf"(?:- )?[\w.]{{1,80}} - {_LEVEL} - |(?:- )?{_LEVEL} - [\w.]{{1,80}} - ",
            ),
            # Ray's Python side: WARNING worker.py:1851 --
            Alternative("[A-Z]", rf"{_LEVEL} [\w.]{{1,60}}:\d{{1,6}} -- "),
            # Terraform's, and whoever else's plugins' standard error: plugin.terraform-provider-x:
            Alternative("p", r"(?:plugin|provider)\.(?P<plugin>[\w.-]{2,80}): ?"),
            # gunicorn: [2026-01-15 08:12:45 +0000] [4242] [ERROR] Exception in worker process
            Alternative(r"\[", r"\[(?P<master>\d{1,9})\] (?=\[[A-Z]{4,8}\] )"),
            # a line number that somebody's pager put there; (EngineCore) ERROR [core.py:1138]
            Alternative(r"\[", r"\[\d{1,9}\] (?=\[)"),
            Alternative(
                r"\(",
                r"\((?P<who>(?:EngineCore|Worker|VllmWorker|APIServer)\w{0,20})\) "
                rf"(?:{_LEVEL} )?(?:\[[\w.]{{1,60}}:\d{{1,6}}\] ?)?",
            ),
            # vLLM 0.8: (VllmWorker rank=0 pid=42); what others write: [Worker-1 pid=42]
            Alternative(
                r"[\[(]",
                r"(?P<tag>\(\w{1,60} rank=\d{1,5} pid=\d{1,9}\)|"
                r"\[[\w.:-]{1,60} pid=\d{1,9}\]) ?",
            ),
            # mpirun --tag-output --timestamp-output: Sun Jan 28 12:09:59 2018[1,279]<stderr>:
            Alternative(
                r"[\[<A-Z]",
                r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
                r"(?:\[\d{1,4},\d{1,6}\])?<std(?:err|out)>: ?",
            ),
            # SGLang: TP3], PP1 TP3]; of its only process no more than the bracket
            Alternative(
                r"[A-Z\]]", r"(?P<ranks>(?:[A-Z]{1,4}P\d{1,4} ){0,5}[A-Z]{1,4}P\d{1,4})?\] "
            ),
        )
    }
)
_TAG: Final = r"(?P<tag>\([\w ./:,-]{0,60}\bpid=\d{1,9}[\w ./:,=-]{0,80}\)) "
_ENTRY: Final = (
    rf"{_LEVEL} (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) "
    r"\[(?:[\w.-]{1,60}/)?(?P<module>[\w.-]{1,60}):\d{1,6}\] "
)
# (EngineCore_DP0 pid=12) ERROR 11-08 11:01:29 [core.py:502]
_HEAD: Final = re.compile(rf"(?:{_TAG})?(?:{_ENTRY})?".encode())
_TITLE: Final = re.compile(
    rb"(?:# )?(?:\[[A-Za-z]{2,20}\]:? ?){0,3}(?=\([\w ]{1,60} pid=\d{1,9}\) )"
)
"""Of an issue, which repeats a line with its prefix: `[Bug] (RayWorkerWrapper pid=42) …`."""
_BEGIN_TITLE: Final = frozenset({b"#", b"["})
_BEGIN_HEAD: Final = frozenset(b"(TDINWECF")
_KERNELS_TIME: Final = re.compile(rb"\[ {0,8}(\d{1,9}\.\d{6})\]")
_TIME: Final = re.compile(
    rb"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\b\d\d-\d\d \d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d\b"
)
_COLON: Final = re.compile(rb":\d\d:\d\d")
"""In every time but the kernel's: a quick look first."""
_LONGEST_DATE: Final = len("2026-01-15T08")
_LONGEST_TIME: Final = len(":12:45.123456789+01:00") + 1
_PAD: Final = b" " * 8 + b"#"
_FILL: Final = b" " * 100
_FILLED: Final = re.compile(rb"(?<=[\w:~]) {100,800}(?=[\w:~])")
"""A terminal that wraps a word fills the line that it leaves with blanks."""
_PADDED: Final = re.compile(rb"(?<=\S) {8,400}(?=#\d{1,3} {1,3}0x[0-9a-f]{6,16} )")
"""A terminal's copy fills its lines with blanks instead of ending them: a frame begins there."""
_ESCAPED: Final = re.compile(rb"\\#\d|\\[`<]|\\_\\_")
_ESCAPE: Final = re.compile(rb"\\([#`_<>*\[\]()~|!{}+.-])")
_ENTITY: Final = re.compile(rb"&(?:lt|gt|amp|quot|#39);")
_ENTITIES: Final = {b"&lt;": b"<", b"&gt;": b">", b"&amp;": b"&", b"&quot;": b'"', b"&#39;": b"'"}
_REPEATED: Final = re.compile(
    rb"(?:\x1b\[\d{1,3}m)? ?\[repeated \d{1,9}x across cluster\](?:\x1b\[0m)?"
    rb"(?: \(Ray dedup.{0,400})?$"
)
"""What Ray writes behind a line that several processes wrote."""
_SHORT: Final = 300
"""Longer lines are not worth keeping."""
_LONG: Final = 150
"""Shorter lines were not made of several."""
_TIME_ZONE: Final = 160
"""So far into a line a time is looked for."""
PROCESS: Final = re.compile(
    r"\((?P<name>[^()=]{0,60}?)(?: rank=\d{1,5})?[ ,]{0,3}"
    r"\b(?:pid|PID)=(?P<pid>\d{1,9})(?P<rest>[^()]{0,80})\)"
    r"|\[(?:(?P<title>[\w.:-]{1,60}) )?pid=(?P<number>\d{1,9})\]"
)
_VLLMS: Final = re.compile(r"\W{0,2}(?:EngineCore|Worker|VllmWorker|A[Pp][Ii]Server)")
# syslog's and journald's program[pid]: Open MPI's and UCX's [host:pid]
_UNIT: Final = re.compile(
    r"(?:^| )(?:(?P<name>[^\s:\[\]=#]{1,64})\[(?P<pid>\d{1,9})\]:|\[[\w.-]{1,80}:(?P<mpi>\d{1,9})"
    r"(?::\d{1,9}){0,2}\])$"
)
_UNNUMBERED: Final = re.compile(r"[^\s:\[\]=#]{1,64} (?P<name>[^\s:\[\]=#]{1,64}):")
"""syslog's of a program that gives no number: host program:"""
_RANK: Final = re.compile(r"\[(?P<rank>(?:default|rank|Rank )\d{1,5})\]")
# docker compose: api-1  |
_SERVICE: Final = re.compile(r"(?:^| )(?!std(?:err|out))([a-z0-9][\w.-]{1,79}) {0,40}\|$")
_TASK: Final = re.compile(r"\[(?:\d{1,6},)?(?P<task>\d{1,6})\]<std\w{3}>:")
"""mpirun's and horovodrun's, of whom they started: [1,3]<stderr>:"""
_LABEL: Final = re.compile(
    r"(?:^| )\[((?![\w.-]*(?i:thread|pool-\d|logger|nio|exec-\d))(?:[\w.]{1,40}-){0,4}[\w.]{0,40}"
    r"(?i:worker|server|engine|service|daemon|scheduler|agent|replica|shard|executor|actor)"
    r"[\w.]{0,20}(?:-[\w.]{1,20}){0,2})\]:?$"
)
"""A launcher's, of what it started by its role: [worker-3], [inference-engine]"""
_PLACE: Final = re.compile(r"\[?[\w./-]{1,80}:\d{1,6}\]:?")
_WRITERS: Final = {
    "core.py": "EngineCore",
    "engine.py": "MQLLMEngine",
    "gpu_model_runner.py": "Worker",
    "gpu_worker.py": "Worker",
    "async_llm.py": "APIServer",
    "serving_chat.py": "APIServer",
    "launcher.py": "APIServer",
}
"""vLLM's files that only one kind of process logs from."""
_DROPPED: Final = {"[stderr]", "[stdout]", "(raylet)", "[ERROR]", "[INFO]", "[WARNING]"}
_RAYLET: Final = "raylet"
"""It forwards what others write, and signs what it writes itself."""
_DAEMON: Final = re.compile(r"\(pid=(?P<daemon>raylet|gcs_server)\b")
"""Ray's own processes, as its older versions sign what they wrote."""
_PROGRAM: Final = re.compile(r"[^\s:\[\]=#(,]{1,64} (?!kernel:)([A-Za-z][\w./-]{1,60}):$")
"""syslog's, without its number."""
_PAIR: Final = re.compile(r"(?:rank|RANK)=\w+")


class LogLine(NamedTuple):
    """One line, and who wrote it."""

    number: int
    stream: str
    """Lines of two streams never belong together."""
    text: str
    pid: int | None = None
    name: str | None = None
    time: str | None = None
    tagged: bool = False
    """Is the writer named by `(Name pid=1)`, as Ray and vLLM do it?"""
    signs: bool = False
    """Does the process put its own number before its lines, in this form or in another?"""
    pipe: tuple[int, str | None] | None = None
    """Whom journald or syslog names, where the line is signed: who held the pipe."""
    since: str | None = None
    """The last time above a line that has none."""


def plain(raw: bytes) -> bytes:
    r"""A line as it was before somebody's page escaped it: `\#0`, `libc.so.6\`raise`, `&lt;`."""
    if b"\\" in raw and _ESCAPED.search(raw) is not None:
        raw = _ESCAPE.sub(rb"\1", raw)
    if b"&" in raw:
        raw = _ENTITY.sub(lambda match: _ENTITIES[match[0]], raw)
    return raw


def log_lines(raw: bytes, number: int) -> list[LogLine]:
    """One physical line, without its newline, as the lines that the program wrote."""
    raw = without_requests(raw)
    raw = without_bar(raw) if b"/s" in raw else raw
    raw = _REPEATED.sub(b"", raw) if b"x across cluster]" in raw else raw
    if raw[:1] in _BEGIN_TITLE and (title := _TITLE.match(raw)) is not None:
        raw = raw[title.end() :]
    raw = _FILLED.sub(b"", raw) if _FILL in raw and b"[0x" in raw else raw
    parts = _PADDED.split(raw) if _PAD in raw else [raw]
    whole = [one for part in parts for one in (unflattened(part) if len(part) > _LONG else [part])]
    return [line for part in whole for line in _written(part, number)]


def _written(raw: bytes, number: int) -> list[LogLine]:
    """One line that no copy joined: parted no further, for a part may be as long as the line."""
    if raw and raw[0] in _BEGIN_HEAD:
        line = _below_head(raw, number)
        if line is not None:
            return [line]
    lines = _lines(raw) if len(raw) <= _SHORT else _lines.__wrapped__(raw)
    return [LogLine(number, *line[1:]) for line in lines]


@lru_cache(maxsize=1024)
def _lines(raw: bytes) -> tuple[LogLine, ...]:
    """The lines without their number: one frame stands in many stacks."""
    time = _time(raw)
    return tuple(_line(0, text, tags, None, time) for tags, text in logical_lines(raw))


def _below_head(raw: bytes, number: int) -> LogLine | None:
    """A clean line behind vLLM's own prefixes, which most lines of its logs have."""
    match = _HEAD.match(raw)
    if match is None or not (end := match.end()):
        return None
    rest = raw[end : end + MAX_TEXT]
    body = _body(rest) if len(rest) <= _SHORT else _body.__wrapped__(rest)
    if body is None:
        return None
    tag, clock, module = match.groups()
    time = clock.decode() if clock is not None else _time(raw)
    tags = tag.decode() if tag is not None else ""
    who = _WRITERS.get(module.decode()) if module is not None else None
    more, text = body
    return _line(number, text, f"{tags} {more}" if tags and more else tags or more, who, time)


@lru_cache(maxsize=1024)
def _body(raw: bytes) -> tuple[str, str] | None:
    """More prefixes, and what stands behind them; None where a line needs a closer look."""
    text = raw.decode("utf-8", "replace")
    if "\t" in text or not is_clean(raw, text):
        return None
    tags, text = strip_prefixes(text)
    return None if text.startswith("{") else (tags, text)


def _time(raw: bytes) -> str | None:
    """The first time near the line's beginning, as it is written."""
    found: re.Match[bytes] | None = None
    if raw[:1] == b"[" and (found := _KERNELS_TIME.match(raw)) is not None:
        return found[1].decode()
    if raw.find(b":", 0, _TIME_ZONE) < 0:
        return None
    colon = _COLON.search(raw, 0, _TIME_ZONE)
    if colon is None:
        return None
    start = max(0, colon.start() - _LONGEST_DATE)
    near = _time_in(raw[start : min(_TIME_ZONE, colon.start() + _LONGEST_TIME)])
    if near is not None:
        return near
    found = _TIME.search(raw, start, _TIME_ZONE)
    return found[0].decode() if found is not None else None


def last_time(raw: bytes) -> str | None:
    """The time near the beginning of the last of some lines that has one."""
    lines = raw.split(b"\n")
    return next(filter(None, map(_time, reversed(lines))), None)


@lru_cache(maxsize=1024)
def _time_in(text: bytes) -> str | None:
    """The whole time in a few bytes, which are the same in all lines of a second."""
    found = _TIME.search(text)
    return found[0].decode() if found is not None and found.end() < len(text) else None


def _line(number: int, text: str, tags: str, who: str | None, time: str | None) -> LogLine:
    match = LOGGERS[text[:1]](text)
    if match is None and not tags:
        return LogLine(number, "", text, None, who, time)
    pid: int | None = None
    ranks: str | None = None
    part: str | None = None
    for _ in range(4):  # (EngineCore pid=1) ERROR 01-02 03:04:05 [core.py:1] (RayWorker pid=2) …
        if match is None:
            break
        groups = match.groupdict()
        own = groups.get("pid") or groups.get("number") or groups.get("nccl")
        own = own or groups.get("master")
        if own is not None:
            pid = int(own)
        ranks = groups.get("ranks") or ranks
        part = groups.get("part") or part
        who = (
            groups.get("who")
            or groups.get("plugin")
            or who
            or _WRITERS.get(groups.get("module") or "")
        )
        tags = f"{tags} {groups['tag']}" if groups.get("tag") else tags
        more, text = strip_prefixes(text[match.end() :])
        tags = f"{tags} {more}" if more else tags
        match = LOGGERS[text[:1]](text)
    writer = _writer(tags)
    if writer.stream is not None:
        # journald names who held the pipe, Ray's own prefix who wrote into it
        own = writer.pid if pid is None or writer.signs else pid
        name = writer.name if own == writer.pid else who
        return LogLine(
            number,
            writer.stream,
            text,
            own,
            name,
            time,
            tagged=writer.tagged,
            signs=writer.signs,
            pipe=writer.pipe,
        )
    if pid is not None:
        return LogLine(
            number, str(pid), text, pid, part or (_RAYLET if _RAYLET in tags else None), time
        )
    name = ranks or writer.name or who
    if name is None and time is not None and (unit := _UNNUMBERED.fullmatch(tags)) is not None:
        name = unit["name"] if time[0].isalpha() else None
    return LogLine(number, writer.rest, text, None, name, time)


class _Writer(NamedTuple):
    """Who wrote a line, by its prefixes."""

    pid: int | None
    name: str | None
    stream: str | None
    """None where no process is named."""
    rest: str
    """What names the stream where no process does."""
    tagged: bool = False
    signs: bool = False
    pipe: tuple[int, str | None] | None = None


def _outer_and_inner(tags: str) -> tuple[tuple[int, str | None] | None, re.Match[str] | None]:
    """Whose pipe a line came through, and who signed it.

    Ray signs all that an actor's children write with the actor's name. vLLM's processes sign what
    they forward and what they write themselves alike: of them the outer one is no mere pipe.
    """
    first, last = None, None
    for match in PROCESS.finditer(tags):
        first, last = first or match, match
    if first is None or first is last or first["pid"] is None or _VLLMS.match(first["name"]):
        return None, last
    number = last["pid"] or last["number"] if last is not None else None
    name = first["name"].strip(" ,") or None
    return ((int(first["pid"]), name) if number != first["pid"] else None), last


@lru_cache(maxsize=4096)
def _writer(tags: str) -> _Writer:
    # The innermost prefix is the writer's own.
    outer, process = _outer_and_inner(tags)
    unit = _UNIT.search(tags if process is None else tags[: process.start()].rstrip())
    pid = int(unit["pid"] or unit["mpi"]) if unit is not None else None
    if process is not None:
        pair = _PAIR.search(process["rest"] or "")
        name = (process["name"] or process["title"] or "").strip(" ,")
        number = process["pid"] or process["number"]
        return _Writer(
            int(number),
            name or (pair[0] if pair else None),
            number,
            "",
            tagged=process["pid"] is not None,
            signs=True,
            pipe=outer or ((pid, unit["name"]) if unit is not None and pid is not None else None),
        )
    if unit is not None:
        return _Writer(pid, unit["name"], str(pid), "")
    task = _TASK.search(tags)
    if task is not None:
        return _Writer(None, f"rank {task['task']}", None, tags)
    kept = [tag for tag in tags.split(" ") if tag not in _DROPPED and not _PLACE.fullmatch(tag)]
    rest = " ".join(kept)
    named = (_RANK.search, _SERVICE.search, _DAEMON.search, _PROGRAM.match, _LABEL.search)
    rank = next(filter(None, (find(rest) for find in named)), None)
    return _Writer(None, rank[1] if rank else None, None, rest)
