"""What somebody typed at a shell's prompt above a death: the program that died.

A program that dies does not name itself, nor does a shell that only says of what: `Segmentation
fault (core dumped)`. The line in which it was started does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.people.no_names import somebody
from vllm_forensics.model.incident import BUGCHECK, OOPS, SHELL, Clue, ClueKind

_PROMPT: Final = re.compile(
    r"[\s>`]{0,8}(?!\((?:gdb|lldb)\))(?:\[\d\d:\d\d:\d\d\] )?(?:\([\w./ -]{1,40}\) ?){0,2}(?:"
    r"\[?[\w.-]{1,40}@[\w.-]{0,60}[:\s~][^$#%>]{0,120}[$#%>]|"  # somebody@host:~/folder$
    r"[\w.-]{1,40}:[^\s$#%]{1,80} [\w.-]{1,40}[$#%]|"  # host:folder somebody$
    r"[\w.-]{1,40}:~[\w./~-]{0,80}>|"  # host:~/folder>
    r"\[[\w~/][^\[\]$#%>]{0,80}\] ?[$#%]|"  # [label:~/folder]$
    r"[~/][^\s$#%>]{0,80} \u00bb|\u2514\u2500\S{0,2} ?[$#]|\u2b9e|"
    r"\u279c  [^\s$#%>]{1,60} (?:git:\(\S{1,60}\) )?(?:\u2717 )?|"  # folder git:(branch)
    r"(?:bash|sh|zsh)-\d[\d.]{0,6}[$#]|(?:PS )?[A-Z]:\\[^>]{0,160}>|"
    r"(?:[\w.~/-]{1,60} ?)?[$%\u276f\u279c]|#(?=[a-z][\w./-]{1,40} -))"
    r" ?(?!\$?[0-9A-Fa-f]{8,16}\b)(?P<command>[\w./~\"'].{0,400})$"
)
_ENVIRONMENT: Final = re.compile(
    r"[\s>`]{0,8}\((?:base|[\w./-]{0,30}env[\w.-]{0,30})\) {1,2}"
    r"(?P<command>[a-z./~][\w./~+-]{0,80}(?: [\w./~\"'-].{0,300})?)$"
)
"""Python's environment, and no sign of a prompt behind it."""
_CHAINED: Final = re.compile(r" ?(?:&&|;) ?")
_TAGS: Final = re.compile(r"</?[a-z]{1,6}>")
"""A page's own marks around what was typed."""
_PREPARES: Final = re.compile(
    r"(?:(?:env|exec|nohup|time|catchsegv|\w{1,40}=\S{0,200}|"
    r"(?:sudo|doas)(?: -[ugp] \S{1,40}| -{1,2}[\w=-]{1,40}){0,6}|"
    r"(?:prime-run|optirun|gamemoderun|mangohud|heaptrack|unbuffer|dbus-run-session|wine(?:64)?|"
    r"(?:/(?:usr/)?bin/)?(?:ba|z|da)?sh)(?: -{1,2}[a-z]{1,12}){0,3}|"
    r"(?:ulimit|export|cd|source) [^&;]{1,120}(?:&&|;)|"
    r"(?:uv|poetry|pipenv|pdm|rye|hatch) run|(?:bundle|stack|cabal|poetry|opam) exec(?: --)?|"
    r"(?:flatpak|snap|cabal|swift) run(?: -{1,2}\S{1,80}){0,9}|"
    r"nix-shell [^'\"]{0,200}--(?:run|command)|"
    r"(?:strace|ltrace|ktrace|truss|dtruss|valgrind|gdb(?= --args)|timeout|numactl|taskset|"
    r"nice|ionice|setsid|"
    r"stdbuf|xvfb-run)"
    r"(?: -[oeESpcu] \S{1,80}| -{1,2}[\w=,:.+-]{1,60}| \d[\w.,-]{0,12}){0,9}) {1,9}){0,8}"
    r"(?:nix run (?:[\w./:+~-]{0,80}#)?)?"
)
"""What stands before the program that is started: settings, and who starts another."""
_PROGRAM: Final = re.compile(
    r"[\"']?(?:[^\s/\\\"']{0,100}[/\\]){0,20}(?P<name>[\w.+-]{1,60})[\"']?(?=[\s;&|]|$)"
)
_OTHERS: Final = frozenset(
    {
        "adb", "addr2line", "apptainer", "apt", "apt-get", "brew", "bundle", "cabal", "cargo",
        "cat", "cd", "chmod", "clear", "cmake", "conda", "coredumpctl", "cp", "ctest", "curl",
        "distrobox", "dmesg", "dnf", "do", "docker", "docker-compose", "echo", "env", "export",
        "file", "find", "flatpak", "for", "gcc", "gdb", "git", "go", "gradle", "gradlew", "grep",
        "head", "history", "hostname", "if", "journalctl", "kill", "kubectl", "ldd", "less", "lldb",
        "ls", "lscpu", "lspci", "make", "mamba", "man", "micromamba", "mkdir", "module", "more",
        "mpiexec", "mpirun", "mv", "mvn", "nano", "nice", "ninja", "nm", "nohup", "nox", "npm",
        "npx", "nvidia-smi", "objdump", "opam", "perf", "pip", "pip3", "pnpm", "podman", "ps",
        "pwd", "readelf", "rm", "ros2", "roslaunch", "rosrun", "set", "singularity", "snap",
        "source", "srun", "ssh", "stack", "strace", "sudo", "swift", "systemctl", "tail", "tar",
        "time", "toolbox", "top", "torchrun", "tox", "ulimit", "uname", "unset", "until",
        "valgrind", "vi", "vim", "watch", "wc", "wget", "which", "while", "yarn", "yum", "zcat",
    }
)  # fmt: skip
"""What shows, builds or starts others: who died is not told by their names."""
_NO_PROGRAM: Final = re.compile(r"-|(?:import|from)$|[A-Z][A-Z\d]{0,20}_[A-Z\d_]{1,40}$")
"""An option, a statement of Python's, or a variable: `cd $POOL_DIR`."""
_LAUNCHERS: Final = frozenset(
    {"gdb", "mpiexec", "mpirun", "orterun", "srun", "strace", "timeout", "valgrind"}
)
"""What runs another program, whose path stands among the arguments."""
_TRAINERS: Final = frozenset({"accelerate", "deepspeed", "horovodrun", "torchrun"})
_SCRIPT: Final = re.compile(
    r"\S{1,200} .{0,600}?(?<![\w=.-])(?:[\w./~+-]{0,200}/)?(?P<name>[\w+-]{1,80}\.py)(?=\s|$)"
)
"""What starts a script of Python's on every device, and the script."""
_BESIDE: Final = re.compile(
    r".{1,300}?\s\./(?:[\w.+-]{1,60}/){0,10}(?P<name>[\w.+-]{1,60})(?=\s|$)"
)
_BEHIND: Final = re.compile(
    r"\S{1,200} {1,4}(?:-{1,2}\S{1,100} {1,4}(?:[^\s-]\S{0,100} {1,4})?){0,20}(?:"
    r"(?:~?/|\.\./)?(?:[\w.+-]{1,60}/){1,10}(?P<name>[\w.+-]{1,60})|(?P<python>python[\d.]{0,4}))"
    r"(?=\s|$)"
)
"""Behind options, with their values or without, and never without a folder."""
_LAUNCHES: Final = re.compile(
    r"[\s>`]{0,8}(?P<command>(?:\S{0,100}/)?(?:mpi(?:run|exec)|srun|valgrind) .{1,300})"
)
"""A command that no prompt stands before: a script told it."""
_ECHOED: Final = re.compile(
    r"[a-z][^#\u00b7]{1,300} && {1,4}(?P<command>(?:\.{1,2}|~)?/[\w./+-]{1,120}(?: .{0,200})?)$"
)
"""What a shell runs last of several commands, as make tells it."""
_ANNOUNCED: Final = re.compile(
    r"\s{0,12}Running (?:[\w./-]{1,120} \()?`?"
    r"(?P<command>(?:\S{0,120}/)?target/[^`)]{1,300})[`)]?\s*$"
)
"""What cargo says that it starts."""
_TRACED: Final = re.compile(
    r"\+{1,3} (?P<command>[a-z./~][\w./~+-]{1,120} (?=(?:.{0,300} )?[-./~]).{1,400})$"
)
_PATH: Final = re.compile(
    r"(?P<command>(?:/[\w.+-]{1,60}){1,10} (?=(?:.{0,300} )?-\w)"
    r"(?:[\w./<>=,~@%+-]{1,200} ){0,40}[\w./<>=,~@%+-]{1,200})$"
)
"""A shell's trace of what it runs, and a path with its options, alone in a line."""
_SAID: Final = re.compile(
    r"\W{0,8}(?i:running|executing|launching|starting|command(?: line)?|cmd)(?i: command)?: {1,3}"
    r"[`'\"]?(?P<command>(?:(?:~|\.{1,2})?/[\w./+-]{1,160}|(?:[\w+-]{1,60}/){1,8}[\w+-]{1,60}|"
    r"(?:python|pypy|node|ruby|java|perl|php|julia|Rscript|pytest)[\d.]{0,4})"
    r"(?: [^`'\"\n]{1,300})?)[`'\"]?$"
)
"""What a script or a test's driver says that it runs: `Running: /opt/pool/serve --port 80`."""
_STEP: Final = re.compile(
    r"(?:##\[group\])?Run (?P<command>"
    r"(?:(?:python|pypy|node|ruby|java|perl|php|julia|Rscript|pytest)[\d.]{0,4}|"
    r"\.{1,2}/[\w./+-]{1,120})(?: .{0,300})?)$"
)
"""A step of a CI runner, as it tells what it runs."""
_RAN: Final = re.compile(
    r"(?:time )?(?:/bin/(?:ba)?sh -c [\"']?)?"
    r"(?P<command>\.{1,2}/(?:[\w.+-]{1,60}/){0,8}[\w+-]{1,60}(?: [\w./\"'-].{0,300})?)$"
)
"""What make tells of a command that is a path alone."""
_QUOTED: Final = re.compile(
    r"(?i:\b(?:command|process|program|binary|executable|cmd|script)):? {0,2}[\"'`]"
    r"(?P<command>[^\"'`]{1,300})[\"'`]|"
    r"\bfor command (?P<bare>/\S{1,200}(?: [^()]{1,200})?) \(exited"
)
"""What a parent says that it had started, in the line in which it tells of its end."""
_MEMBERS: Final = re.compile(r"\"(?:container_?)?[nN]ame\": ?\"(?P<name>[A-Za-z][\w.-]{1,80})\"")
"""A container's in a record of one line, as clouds write it."""
_TIMED: Final = re.compile(r"\s{1,8}Command being timed: \"(?P<command>[^\"]{1,400})\"")
_NPMS: Final = re.compile(
    r"npm (?:ERR!|error) command (?:sh|cmd|bash)(?:\.exe)? \S{2,5} (?P<command>.{1,300})$"
)
_RIGHT_BELOW: Final = 8
"""So far below GNU's time and npm tell what they had started."""
_RIGHT_ABOVE: Final = 2
_REACH: Final = 60
"""So far above a death its program was started."""
_ASKS: Final = re.compile(r"echo +[\"']?[$%]")
"""What was asked of the shell below: how the command above it ended."""
_OWN: Final = {ClueKind.SIGNAL, ClueKind.ABORT, ClueKind.HEAP}
_STRANGERS: Final = {"kernel", OOPS, BUGCHECK, "a debugger", "systemd", "somebody"}
"""They write of processes that were started elsewhere."""


def started_at_prompt(lines: Sequence[str], at: int) -> str | None:
    """The program of the nearest command above a line; None where that only starts or shows."""
    for line in reversed(lines[max(0, at - _RIGHT_ABOVE) : at]):
        if (ran := _RAN.match(line)) is not None:
            return program_of_command(ran["command"])
    for line in reversed(lines[max(0, at - _REACH) : at]):
        line = _TAGS.sub("", line) if "</" in line else line
        typed = _PROMPT.match(line)
        match = typed or _ENVIRONMENT.match(line)
        if match is not None and _ASKS.match(match["command"]) is not None:
            continue
        if match is not None:
            name = program_of_command(match["command"])
            return name if name is None or typed is not None else somebody(name)
        for form in (_ECHOED, _ANNOUNCED, _SAID, _STEP, _TRACED, _PATH):
            if (said := form.match(line)) is not None:
                name = program_of_command(said["command"])
                return somebody(name) if name is not None else None
        if (launches := _LAUNCHES.match(line)) is not None:
            launched = _launched(launches["command"].rstrip("`"))
            if launched is not None:
                return launched
    return None


def program_of_command(command: str) -> str | None:
    """The program that a command starts, of several the last; None where it only starts others."""
    chain = _CHAINED.split(command) if "'" not in command and '"' not in command else [command]
    return next(filter(None, map(_program_of_one, reversed(chain))), None)


def _program_of_one(command: str) -> str | None:
    prepared = _PREPARES.match(command)
    program = _PROGRAM.match(command, prepared.end() if prepared is not None else 0)
    if program is not None and program["name"] in _TRAINERS:
        script = _SCRIPT.match(command, program.start())
        return script["name"] if script is not None else None
    if program is not None and program["name"] in _LAUNCHERS:
        return _launched(command[program.start() :])
    if program is None or program["name"].removesuffix(".sh") in _OTHERS:
        return None
    return None if _NO_PROGRAM.match(program["name"]) is not None else program["name"]


def _launched(command: str) -> str | None:
    """The program that a launcher was told to run, by its path."""
    match = _BESIDE.match(command) or _BEHIND.match(command)
    return match[match.lastgroup or "name"] if match is not None else None


def with_programs(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; with the program's name where whoever wrote them was started at a prompt."""
    if not any(map(is_nameless, clues)):
        return list(clues)
    text = lines()
    return [
        replace(clue, name=started_at_prompt(text, clue.line - 1)) if is_nameless(clue) else clue
        for clue in clues
    ]


def with_commands(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; of what a parent tells, with the command that it says it had started."""
    found = [_commanded(clue, lines) if _is_nameless_child(clue) else None for clue in clues]
    return [
        clue if name is None else replace(clue, name=name)
        for clue, name in zip(clues, found, strict=True)
    ]


def _is_nameless_child(clue: Clue) -> bool:
    return clue.kind is ClueKind.CHILD and clue.name is None and not clue.is_told


def _commanded(clue: Clue, lines: Callable[[], Sequence[str]]) -> str | None:
    """In its own line, or in one that the same parent writes below."""
    quoted = _QUOTED.search(clue.text)
    if quoted is not None:
        return program_of_command(quoted["command"] or quoted["bare"])
    members = {match["name"] for match in _MEMBERS.finditer(clue.text)}
    if len(members) == 1:
        return members.pop()
    for line in lines()[clue.line : clue.line + _RIGHT_BELOW]:
        below = _TIMED.match(line) or _NPMS.match(line)
        if below is not None:
            return program_of_command(below["command"])
    return None


def is_nameless(clue: Clue) -> bool:
    """Are these a process's own last words, or the shell's of it, and neither tells its name?"""
    is_own = clue.kind in _OWN and clue.source not in _STRANGERS and not clue.of_another
    is_asked = clue.kind is ClueKind.CHILD and clue.source == SHELL
    is_named = clue.name is not None or clue.writer is not None
    return (is_own or is_asked) and not is_named and not clue.is_told
