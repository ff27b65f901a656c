"""Whose output a text shows, as the command that asked for it says: `docker logs poold`.

What runs in a container, a pod or a unit does not name itself at a prompt; who runs it or asks for
its output does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.prompts import is_nameless, program_of_command
from vllm_forensics.model.incident import Clue

_COMMAND: Final = re.compile(
    r"(?:^|[\s`'\"$#>(%])(?:(?P<of_units>systemctl|service)|(?P<journal>journalctl)|"
    r"docker(?:-compose| compose| container)?|podman(?:-compose)?|nerdctl|kubectl|oc) "
    r"(?P<rest>[^`|;&<>\n]{3,400})"
)
"""Alone in its line, behind a prompt or quoted in a sentence."""
_VERB: Final = re.compile(
    r"(?:-{1,2}\S{1,60} (?:[^\s-]\S{0,60} )??){0,4}"
    r"(?P<verb>logs|inspect|start|restart|status|attach|describe|exec|run) (?P<behind>.{1,400})"
)
_SWITCH: Final = re.compile(
    r"-[dtiPqapf]{1,4}|--(?:rm|privileged|init|interactive|tty|detach|read-only|publish-all|follow|"
    r"timestamps|previous|no-deps|service-ports|no-pager|quiet|all-containers|attach)|"
    r"--\w[\w-]{0,40}=\S{1,200}|-[a-z]\S{2,200}|--"
)
"""Options behind which no value stands."""
_OF_SERVICE: Final = re.compile(r"(?P<name>[a-z][\w.-]{1,60}) (?:start|stop|restart|status)\s*$")
_PORT: Final = re.compile(r"\d[\d.:-]{1,40}(?:/\w{3})?")
"""The value of `-p`, which is a switch elsewhere."""
_SHELLS: Final = frozenset({"bash", "sh", "ash", "zsh", "/bin/bash", "/bin/sh"})
_NAME: Final = re.compile(r"(?:/?[a-z]{2,20}/)?(?P<name>(?![0-9a-f]{12,64}$)[A-Za-z][\w.-]{1,120})")
_IMAGE: Final = re.compile(
    r"(?:[\w.-]{1,80}(?::\d{1,5})?/){0,4}(?P<name>[a-z][\w.-]{1,80})(?:[:@][\w.:-]{1,100})?"
)
_SYSTEMS: Final = re.compile(
    r"(?:ubuntu|debian|alpine|centos|fedora|busybox|python|node|golang|rust|gcc|cuda)"
)
"""Images that hold no program of their own."""
_UNIQUE: Final = re.compile(r"(?:-[a-f0-9]{8,10})?-[a-z0-9]{5}$")
"""What a replica set and its pod add to a deployment's name."""
_KIND: Final = re.compile(r"po|pods?|deploy(?:ment)?s?|sts|statefulsets?|jobs?|node|nodes")
_TOLD: Final = re.compile(r"--name(?:=|\s{1,4})(?P<name>[\w.-]{2,80})")
_UNIT: Final = re.compile(r"(?:^|\s)(?:-\w{0,4}u |--unit[ =])(?P<name>[\w@.-]{2,80})")
_BLANK: Final = re.compile(
    r"(?i)x{2,}|(?:my|some|your|the|this)?[_-]?(?:pod|container|service|image|app)s?(?:[_-]?"
    r"(?:name|id|\d))?|web|test|all|"
    r"(?:show|say|give|print|return|report|confirm|display|tell)s?|output|command|result|on|for|of|"
    r"and|to|it|is|was|after|with"
)
_REACH: Final = 60


def contained_above(lines: Sequence[str], at: int) -> str | None:
    """The container, pod or unit of the nearest command above a line that runs or shows it."""
    for line in reversed(lines[max(0, at - _REACH) : at]):
        for match in _COMMAND.finditer(line):
            name = _named(match)
            if name is not None and _BLANK.fullmatch(name) is None:
                return name.removesuffix(".service")
    return None


def with_contained(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; nameless last words are those of what was run, or shown, above them."""
    if not any(map(is_nameless, clues)):
        return list(clues)
    text = lines()
    return [_complete(clue, text) if is_nameless(clue) else clue for clue in clues]


def _complete(clue: Clue, lines: Sequence[str]) -> Clue:
    name = contained_above(lines, clue.line - 1)
    return replace(clue, name=name, is_named_elsewhere=True) if name is not None else clue


def _named(command: re.Match[str]) -> str | None:
    rest = command["rest"]
    if command["journal"] is not None or command["of_units"] == "service":
        unit = (_UNIT.search if command["journal"] is not None else _OF_SERVICE.match)(rest)
        return unit["name"] if unit is not None else None
    asked = _VERB.match(rest)
    if asked is None:
        return None
    words = tuple(_arguments(asked["behind"].split()))
    if asked["verb"] == "run":
        return _run(asked["behind"], words)
    if asked["verb"] == "exec":
        return _program(words[1:])
    names = (_NAME.fullmatch(word) for word in words if _KIND.fullmatch(word) is None)
    name = next(names, None)
    return _UNIQUE.sub("", name["name"]) if name is not None else None


def _run(behind: str, words: Sequence[str]) -> str | None:
    """What a container was started with, how it is called, or its image."""
    told = _TOLD.search(behind)
    image = _IMAGE.fullmatch(words[0]) if words else None
    is_entered = words[1:2] != () and words[1] in _SHELLS
    is_systems = image is None or _SYSTEMS.match(image["name"]) is not None
    return (
        _program(words[1:])
        or (told["name"] if told is not None else None)
        or (image["name"] if image is not None and not (is_entered or is_systems) else None)
    )


def _program(words: Sequence[str]) -> str | None:
    """The program that is run in a container, which is no shell."""
    return program_of_command(" ".join(words)) if words and words[0] not in _SHELLS else None


def _arguments(words: Sequence[str]) -> Iterator[str]:
    """The words that are no options and no values of theirs, and all behind the first of them."""
    is_value = False
    for at, word in enumerate(words):
        if word.startswith("-"):
            is_value = _SWITCH.fullmatch(word) is None
        elif is_value or _PORT.fullmatch(word) is not None:
            is_value = False
        else:
            yield from (one for one in words[at:] if one != "--")
            return
