"""What happened, in words: who died first, of what, where, and what only echoes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.processes import MAX_PROCESSES
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death, Echo, IncidentProcess, ProcessRole
from vllm_forensics.model.locations import Certainty as NameCertainty
from vllm_forensics.model.python_source import TOP_LEVEL, in_package

_KINDS: Final = ("child", "child process")
_MAX_NAMED: Final = 4
_SHELLS: Final = 126
"""From here on an exit status may tell of a signal, or of what a shell could not start."""
_ROLES: Final = {
    ProcessRole.CLIENT: "the client",
    ProcessRole.API_SERVER: "the API server",
    ProcessRole.ENGINE_CORE: "the engine core",
    ProcessRole.WORKER: "a worker",
    ProcessRole.RAY_ACTOR: "a Ray actor",
    ProcessRole.MAIN: "the program",
    ProcessRole.UNKNOWN: "a process",
}


def who(death: Death) -> str:
    """The process in words: `a worker (VllmWorker-1, process 4242)`."""
    role = "the kernel" if death.name == "kernel" else _ROLES[death.role]
    kinds = {role.split(" ", 1)[1].lower(), *_KINDS}
    says_more = death.name is not None and death.name.lower() not in kinds
    name = f"most likely {death.name}" if death.is_name_guessed else death.name
    marks = [name] if name is not None and says_more else []
    if death.pid is not None:
        marks.append(f"process {death.pid}")
    return role + (f" ({', '.join(marks)})" if marks else "")


def explanation(
    death: Death,
    echoes: tuple[Echo, ...],
    processes: Sequence[IncidentProcess],
    *,
    is_echo: bool,
    teaches: bool = False,
) -> str:
    """One paragraph: who died of what, where, and what the other errors are."""
    what = _of_what(death)
    words = [f"{_upper(who(death))} died first{what}{'' if what.endswith(('!', '?')) else '.'}"]
    if teaches:
        words.append("The text explains more than it reports: this may be an example of it.")
    words += place_of_death(death) + _others(death, processes)
    if death.cause.kind is CauseClass.GPU_ASYNC:
        words.append(
            "GPU work runs asynchronously: the stack shows where the error was noticed, "
            "not where it happened."
        )
    if death.cause.certainty is Certainty.UNKNOWN and is_echo:
        left = death.signal is None and death.exit is not None and 0 <= death.exit < _SHELLS
        other = "" if left else ", or the kernel's log,"  # which knows nothing of who left
        words.append(
            "What the text shows is only where others noticed the end. "
            f"The dead process's own output{other} has to be found."
        )
    elif is_echo and echoes:
        words.append(
            f"The last error in the text (line {echoes[-1].line}) is an echo of it, not the cause."
        )
    return " ".join(words)


def _bare(detail: str) -> str:
    """Without the marks around it; the dots of `../src/pool.cc` stay."""
    bare = detail.lstrip(": ").rstrip(".: ")
    return bare.rstrip('". ') if bare.count('"') % 2 else bare


def _of_what(death: Death) -> str:
    cause = death.cause
    if cause.kind is CauseClass.UNKNOWN and cause.certainty is not Certainty.UNKNOWN:
        return f": {_bare(cause.detail)}"
    if cause.certainty is Certainty.UNKNOWN:
        return f"; of what is unknown: {cause.detail}"
    likely = ", most likely" if cause.certainty is Certainty.LIKELY else ""
    reason = _REASONS.get(cause.kind, f"of {cause.kind.value.replace('-', ' ')}")
    if _OVERRUN.search(cause.detail) is not None:
        reason = "because it wrote beyond a buffer"
    elif _NOT_OF_THE_HEAP.match(cause.detail) is not None:
        reason = "of a wrong use of memory"
    comma = "," if reason.startswith("because") and not likely else ""
    return f"{likely}{comma} {reason}: {_bare(cause.detail)}"


_OVERRUN: Final = re.compile(r"(?:stack smashing|buffer overflow) detected")
"""The C library ended it for that."""
_NOT_OF_THE_HEAP: Final = re.compile(
    r"(?:dynamic-)?stack-(?:buffer|use)|global-|container-|use-after-poison|[a-z]{2,10}-param-"
)
"""Kinds of a sanitizer's."""
_REASONS: Final = {
    CauseClass.NATIVE_FAULT: "of a fault in native code",
    CauseClass.HEAP_CORRUPTION: "of a corrupted heap",
    CauseClass.ABORT_EXCEPTION: "because it ended itself",
    CauseClass.OOM_KILLED: "for lack of memory",
    CauseClass.ENVIRONMENT: "because of its environment",
    CauseClass.PYTHON_EXCEPTION: "of a Python exception",
    CauseClass.GPU_ASYNC: "of an error on the GPU",
    CauseClass.HANG: "because it waited too long",
}


_NATIVE_SOURCE: Final = re.compile(r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|rs|inc)$")
"""What an assertion told, and no file of Python's."""


def place_of_death(death: Death) -> list[str]:
    """The sentence that names the place; none where nothing tells it."""
    places = []
    if death.function is not None:
        within = f" in {death.module}" if death.module else ""
        places.append(f"{death.function}{within}{_source(death)}")
    elif death.module is not None:
        places.append(death.module)
    elif death.file is not None and (
        death.python_function is None or _NATIVE_SOURCE.search(death.file) is not None
    ):
        places.append(f"{death.file}:{death.line}")
    if death.python_function is not None:
        places.append(
            f"called by Python's {death.python_function}" if places else _in_python(death)
        )
    where = "Where, most likely" if death.is_place_guessed else "Where"
    return [f"{where}: {', '.join(places)}."] if places else []


def _in_python(death: Death) -> str:
    """A function with its source; a module's own code has no name but its file's."""
    source = f"{in_package(death.file)}:{death.line}" if death.file is not None else ""
    if death.python_function == TOP_LEVEL and source:
        return f"in Python's {source}"
    is_import = (death.python_function or "").startswith("import in ")
    return f"in Python's {death.python_function}" + (
        f" ({source})" if source and not is_import else ""
    )


def _others(death: Death, processes: Sequence[IncidentProcess]) -> list[str]:
    """Who else died so: children of one server, or the same program each time it was started."""
    if death.name is None or death.signal is None:
        return []
    pids = [
        one.pid
        for one in processes
        if (one.name, one.end) == (death.name, death.signal) and one.pid not in {None, death.pid}
    ]
    if not pids:
        return []
    names = ", ".join(map(str, pids[:_MAX_NAMED])) + (", …" if len(pids) > _MAX_NAMED else "")
    are = "processes" if len(pids) > 1 else "process"
    least = "At least " if len(processes) >= MAX_PROCESSES else ""
    return [f"{least}{len(pids)} more {are} of that name died of {death.signal}: {names}."]


def _source(death: Death) -> str:
    """` (kernel.cpp:12, likely: …)` where symbols or the death's own words name the source."""
    parts = [f"{death.file}:{death.line}"] if death.file is not None and death.line else []
    if death.symbolized is NameCertainty.LIKELY:
        parts.append("likely: no build-id proves that this is the module that ran")
    return f" ({', '.join(parts)})" if parts else ""


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
