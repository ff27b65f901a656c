"""Plans for code that stays as it is: valgrind emulates it, GWP-ASan samples its allocations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.files import is_regular_file
from vllm_forensics.capture.interpreters import python_command
from vllm_forensics.capture.process import find_program
from vllm_forensics.capture.sanitizer_options import options_text, parse_options
from vllm_forensics.capture.sanitizer_runtime import find_scudo, installed_library
from vllm_forensics.errors import ToolError
from vllm_forensics.investigate.preload_plan import users_preloads
from vllm_forensics.investigate.sanitized_plan import PREFIX_VARIABLE
from vllm_forensics.model.sanitized import Method, RunPlan

_HOOK: Final = "forensics-sampling.so"
_CALLERS: Final = 40
_SUPPRESSIONS: Final = (
    "/usr/lib/valgrind/python3.supp",
    "/usr/share/doc/python3-devel/valgrind-python.supp",
)
_SAMPLING: Final[Mapping[str, str]] = {
    "GWP_ASAN_Enabled": "true",
    "GWP_ASAN_SampleRate": "1000",
    "GWP_ASAN_MaxSimultaneousAllocations": "256",
}
_SAMPLED: Final = (
    "One in {rate} allocations of malloc and new is guarded: a fault in the others is not seen, so "
    "run it often or long (SCUDO_OPTIONS=GWP_ASAN_SampleRate=N sets the rate).",
    "Never seen: Python's objects of up to 512 bytes (PYTHONMALLOC=malloc shows them), the stack, "
    "globals, and what a pool such as torch's caching allocator hands out again.",
)
_EMULATED: Final = (
    "Valgrind emulates one thread at a time, slowly. It sees the heap and uninitialised values, "
    "not the stack and globals. No core is kept, and what a child does after a plain fork is not "
    "told: have multiprocessing spawn.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbuiltRequest:
    """What was asked for."""

    command: tuple[str, ...]
    folder: Path
    """Where the reports go."""
    environment: Mapping[str, str]
    """The user's own."""


def plan_valgrind(request: UnbuiltRequest) -> RunPlan:
    """Memcheck, with a report of each process in XML.

    Raises:
        ToolError: valgrind is not installed.

    """
    valgrind = find_program("valgrind")
    if valgrind is None:
        raise ToolError("valgrind is not installed", remedy="apt-get install valgrind libc6-dbg")
    reports = str(request.folder / "valgrind")
    # In the file's name a % starts a code; a doubled one is a per cent sign.
    family = reports.replace("%", "%%") + ".%p"
    options = [
        *("--quiet", "--xml=yes", f"--xml-file={family}", "--trace-children=yes"),
        *("--child-silent-after-fork=yes", f"--num-callers={_CALLERS}"),
        # In XML it looks for leaks whatever --leak-check says; Python leaks on purpose at its end.
        *("--show-leak-kinds=none", "--errors-for-leak-kinds=none"),
    ]
    options += [f"--suppressions={path}" for path in _SUPPRESSIONS if is_regular_file(path)]
    return RunPlan(
        method=Method.VALGRIND,
        name="Valgrind",
        command=(valgrind, *options, *request.command),
        # Without it the allocator of small objects looks like one block to valgrind.
        environment=(("PYTHONMALLOC", request.environment.get("PYTHONMALLOC") or "malloc"),),
        reports=reports,
        supervised=False,
        notes=_EMULATED,
    )


def plan_sample(request: UnbuiltRequest) -> RunPlan:
    """Scudo with GWP-ASan instead of the C library's allocator.

    Raises:
        ToolError: it is not on this machine.

    """
    scudo, hook = find_scudo(), installed_library(_HOOK)
    if hook is None:
        raise ToolError(
            f"{_HOOK} is not in this installation",
            remedy="install a wheel for Linux, or build from source",
        )
    options = {**_SAMPLING, **parse_options(request.environment.get("SCUDO_OPTIONS", ""))}
    reports = str(request.folder / "sampling")
    kept, notes = users_preloads(request.environment)
    rate = options["GWP_ASAN_SampleRate"]
    python = python_command(request.command)
    return RunPlan(
        method=Method.SAMPLE,
        name="GWP-ASan",
        command=request.command,
        environment=(("SCUDO_OPTIONS", options_text(options)), (PREFIX_VARIABLE, reports)),
        preload=(scudo, hook, *kept),
        interpreter=python.python if python is not None else None,
        reports=reports,
        notes=(*notes, _SAMPLED[0].format(rate=rate), *_SAMPLED[1:]),
    )
