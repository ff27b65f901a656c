"""Who died, as a sentence tells it that has no crash's name: `the scheduler was dead`.

Such sentences tell of no death by themselves, for much is down or throws an exception and lives;
where a death is told that names nobody, they say whose it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.no_names import is_kind_of_end, somebody
from vllm_forensics.evidence.log.people.sentence_names import process_named, unit_named

_FAILS: Final = lazily(
    r"(?i)(?<![\w-])(?:(?:was|is|went|goes|gets?|got|being) (?:dead|down|gone|terminated)|"
    r"(?:hits?|raise[sd]|throws|threw) an (?:unexpected |unhandled |uncaught )?exception|"
    r"terminated(?=:)|(?:keeps?|kept) (?:on )?(?:re(?:start|boot)|crash|dy|fail|exit|terminat)ing|"
    r"panic(?:s|ked)?(?=:|$| (?:with|on|when|while|in|at|due|because|after|if|\w{3,15}ly)\b)|"
    r"(?:ca(?:n['\u2019]?t|nnot)|could(?:n['\u2019]?t| not)|wo(?:n['\u2019]?t)|"
    r"do(?:es)?(?:n['\u2019]?t| not)|fail(?:s|ed)? to|(?:is |was )?unable to) "
    r"(?:start|boot|launch|run|come up)(?! (?:the|an?|my|our|it|this)\b)|"
    r"fails?(?= with [`\"'\u201c])|"
    r"(?:exits?|exited|terminate[sd]?|stop(?:s|ped)|quits?|aborts?|aborted)"
    r"(?= (?:with|due|on|at|after|during|because|when|by|unexpected\w{0,2})\b))(?!\w)"
)
"""What is said of who ends, and of others as well."""
_IN_PROGRAM: Final = lazily(
    r"(?i)\bin (?:an?|the|my|our|this) (?:[\w+-]{1,20} ){0,3}(?:program|binary|executable|tool|"
    r"utility|daemon|service|container|server|app|application|script) (?:called |named )?"
    r"[`\"']{1,3}(?P<name>[\w+-][\w.+-]{1,60}?)(?:\.(?:c|cc|cpp|cxx|rs|go))?[`\"']"
)
"""`a segfault in a small program ```poold.c```."""
_HOST: Final = lazily(
    r"(?i)(?<![\w./-])(?P<name>python|ruby|perl|php|lua|julia|node|java|tcl|octave|matlab)"
    r"(?: ?\d(?:\.\d{1,3}){0,2})? "
    r"(?:(?:c|c\+\+|cython|native|rust) )?(?:extension|binding|module|wheel|wrapper|package|script|"
    r"program|code|process|interface|client|sdk|api|example)s?(?![\w-])"
)
"""`Python 3 extension segfaults`: what runs it died."""
_RUNNING: Final = lazily(
    r"\b(?:I|[Ww]e)(?:['\u2019](?:m|re)| am| are|['\u2019]ve been| have been| have)? "
    r"(?:currently )?(?:run|running|us(?:e|ing)|deploy(?:ing|ed)?|host(?:ing)?) "
    r"(?:an?|the|my|our) (?P<name>[a-zA-Z][\w+-]{2,30}) "
    r"(?:docker|container|image|pod|server|cluster|instance|deployment|daemon)\b"
)
"""`I run a pool container`: what he runs."""


def failing_named(line: str) -> Iterator[str | None]:
    """Whom a sentence says failed, whatever it calls that."""
    for match in _FAILS.finditer(line):
        yield process_named(match, is_verb=True)
    yield unit_named(line)


def program_named(line: str) -> str | None:
    """The program in which a sentence says that it happened."""
    within = _IN_PROGRAM.search(line)
    return somebody(within["name"]) if within is not None else None


def host_named(line: str) -> str | None:
    """The interpreter whose extension, module or program a sentence is about."""
    host = _HOST.search(line)
    return host["name"].lower() if host is not None else None


def service_named(line: str) -> str | None:
    """The service or container that somebody says he runs."""
    runs = _RUNNING.search(line)
    if runs is None or is_kind_of_end(runs["name"]):
        return None
    return somebody(runs["name"])
