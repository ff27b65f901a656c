"""What a clue calls its process, which words are nobody's name, and how sure a name is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.roles import role_of_name
from vllm_forensics.diagnosis.incident.scripts import script_of
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import (
    BUGCHECK,
    OOPS,
    SHELL,
    Clue,
    ClueKind,
    IncidentReading,
    ProcessRole,
)

_NOBODYS: Final = re.compile(
    # a function; a thread
    r".*(?:::|\(\)).*|(?i:.*thread[-_ #:]?\d{0,5})|"
    r"\w+:\w+|"
    # a machine on the net; a package with its version; a file of source code, or of tests
    r"(?:[\w-]+\.){1,6}(?:com|org|net|io|edu|gov)|[\w.+-]+-\d+\.\d[\w.]*-\d[\w.]*|"
    r"(?i:[\w.+-]+\.(?:c|cc|cpp|cxx|cu|h|hpp|rs|go|java|swift|yml|yaml|json|toml|md|txt|log))|"
    r"(?i:[\w.+-]+\.(?:dll|dylib|so(?:\.\d+)*))|"
    # what is loaded and read; words of a sentence whose language parts none
    r"(?i:[\w.+-]+\.(?:pth?|ckpt|onnx|safetensors|gguf|npy|npz|pkl|pickle|h5|hdf5|parquet|csv|"
    r"png|jpe?g|mp4|wav|pdf|zip|tar|gz|whl|pb|tflite))|"
    r".*[\u3040-\u9fff\uac00-\ud7a3].*|"
    r"test_\w+\.py|\w+_test\.py|(?i:(?:hw)?[auktml]{1,2}san|gpt-?neox)"
)
"""No process is called so, unless a record of its own says it."""
_BLANKS: Final = re.compile(
    r"[VDIWEFA]/[\w.:+-]+|v?\d+(?:\.\d+)*|0[\dA-Fa-f]{7,15}|"
    r"(?i:x{3,}|full-path-to.*|your[-_].*|non-?zero)"
)
"""A label of Android's log, a number, an address, a version, or what was put in a name's place."""
_LAUNCHERS: Final = frozenset(
    {
        "env", "gdb", "mpiexec", "mpirun", "nice", "nohup", "orterun", "srun", "stdbuf", "strace",
        "sudo", "time", "timeout", "valgrind", "xvfb-run",
    }
)  # fmt: skip
"""What a shell ran, and is not who died: its program is told by no name."""
_INTERPRETERS: Final = ("libR", "libpython", "libjulia", "libruby", "libperl", "libjvm")
_ITS_SCRIPT: Final = re.compile(r"(?:.*/)?(?P<name>[\w.+-]{1,80}): line \d{1,9}: ")
"""A shell's script that tells of a child."""
_NOTEBOOKS: Final = "a notebook server"
_OF_SHELLS: Final = (".sh", ".bat", ".ps1")
_DUMPS: Final = re.compile(r"(?i)(?<=\.exe)\.[mh]?dmp$")
"""What a debugger opened in place of the program."""


def name_of(clue: Clue) -> str | None:
    """Whom a clue names, or who wrote it, where the words can be a process's name."""
    name = clue.name if clue.of_another else clue.name or _signer(clue)
    if name is None or _BLANKS.fullmatch(name) is not None:
        return None
    if _is_guess(clue, name) and _is_nobodys(name, clue):
        return None
    if clue.source == _NOTEBOOKS and name.lower() == "kernel":
        return "Jupyter kernel"  # and not the system's
    is_launcher = clue.source == SHELL and name in _LAUNCHERS
    return None if is_launcher else _DUMPS.sub("", name)


def is_teller(name: str | None, told: Sequence[Clue]) -> bool:
    """Is it the script whose shell told that a child of it died?"""
    scripts = (_ITS_SCRIPT.match(clue.text) for clue in told if clue.source == SHELL)
    return name in {script["name"] for script in scripts if script is not None}


def certainty_of(
    name: str | None, told: Sequence[Clue], reading: IncidentReading, by_itself: str | None
) -> Certainty | None:
    """Proved where the death's own record bears the name, or the signature of who wrote it.

    A signature has the process's number, or is one that only such a process has: a label without,
    as a container's or syslog's, may be any name. Some records name their program by being what
    they are: Java's, the kernel's; where another interpreter is on the stack, that may have
    started this one.
    """
    if name is None:
        return None
    own = (name_of(clue) for clue in told if not _is_guess(clue, clue.name))
    modules = {call.module for clue in told for call in clue.native}
    is_embedded = any(map(_is_of_another(name).match, filter(None, modules)))
    by_itself = None if is_embedded else by_itself
    scripts = (script_of(clue.python) for clue in told)
    is_sure = name in {by_itself, *own, *_signed(told, reading), *modules, *scripts}
    is_sure = is_sure and not name.endswith(_OF_SHELLS)  # which runs others
    return Certainty.PROVED if is_sure else Certainty.LIKELY


def _is_of_another(name: str) -> re.Pattern[str]:
    """Modules of interpreters that one of that name is none of."""
    own = "libjvm" if name == "java" else f"lib{name}".lower()
    others = (one for one in _INTERPRETERS if not own.startswith(one.lower()))
    return re.compile("(?:" + "|".join(others) + r")[\d.-]{0,8}\w{0,3}\.(?:so|dylib)")


def _signed(told: Sequence[Clue], reading: IncidentReading) -> Iterator[str]:
    signers = (
        *((clue.writer_pid, clue.writer) for clue in told),
        *((one.pid, one.name) for one in reading.processes),
    )
    for pid, name in signers:
        if name is not None and (pid is not None or _is_known(name)):
            yield name


def _is_known(name: str) -> bool:
    """Do only certain processes sign so: `Rank 3`, `raylet`? A service's label is lower-case."""
    role = role_of_name(name)
    is_service = role is not ProcessRole.UNKNOWN and name.islower() and "rank" not in name
    return role is not None and not is_service


def _signer(clue: Clue) -> str | None:
    """Who wrote it; the system's own names sign what the kernel tells of others."""
    is_kernels = clue.source in {OOPS, BUGCHECK}
    is_kernels = is_kernels or (clue.kind is ClueKind.MEMORY and clue.writer == "kernel")
    return None if is_kernels else clue.writer


def _is_guess(clue: Clue, name: str | None) -> bool:
    """Was the name found in words or around them, or is it but a label before the line?"""
    is_label = name is None or (clue.name is None and clue.writer_pid is None)
    return clue.is_told or clue.is_named_elsewhere or is_label


def _is_nobodys(name: str, clue: Clue) -> bool:
    is_function = any(call.function == name for call in clue.native)
    is_runtimes = clue.source.startswith(f"{name} ")  # the one that wrote the line
    return is_function or is_runtimes or _NOBODYS.fullmatch(name) is not None
