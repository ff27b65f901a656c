"""Plans a run under a sanitizer: which runtime, how it gets in, with which options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from vllm_forensics.capture.files import is_regular_file, map_file
from vllm_forensics.capture.interpreters import PythonCommand, python_command
from vllm_forensics.capture.process import find_program
from vllm_forensics.capture.sanitizer_options import is_writable_prefix
from vllm_forensics.capture.sanitizer_runtime import symbolizer_path
from vllm_forensics.diagnosis.sanitizer.traps import LOG_PATH
from vllm_forensics.errors import UsageError
from vllm_forensics.evidence.build_manifest import MANIFEST_NAME, parse_build_manifest
from vllm_forensics.investigate.preload_plan import (
    default_runtimes,
    is_linked,
    preload_all,
    runtimes_of_modules,
    users_preloads,
)
from vllm_forensics.investigate.sanitizer_environment import choose_options
from vllm_forensics.model.build import BuildManifest
from vllm_forensics.model.sanitized import Method, RunPlan

PREFIX_VARIABLE: Final = "FORENSICS_REPORTS"
NAMES: Final = {
    "asan": "AddressSanitizer",
    "asan-ubsan": "AddressSanitizer and UndefinedBehaviorSanitizer",
    "ubsan": "UndefinedBehaviorSanitizer",
    "tsan": "ThreadSanitizer",
}
_BUILD: Final = "forensics build --asan --source DIR"
_BLIND: Final = (
    "The code was not built for it. Seen are bad frees, double frees, signals, and what memcpy, "
    "strlen and their kin touch; not seen are the code's own loads and stores, stack and globals.",
    f"To see everything: {_BUILD}, then forensics run --asan -- …",
)
_NONE_FOUND: Final = (
    "No module that was built with a sanitizer was found here, nor among Python's packages; "
    "--build DIR names its folder."
)
_NO_LAUNCHER: Final = (
    "This build has no Python that brings the runtime along (its build.log says why: headers and a "
    "libpython are needed); it is preloaded, into shells and other programs too."
)
_SHELLS_TOO: Final = (
    "It is preloaded, into shells and other programs that are started too; a Python that brings it "
    f"along: {_BUILD}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizeRequest:
    """What was asked for."""

    command: tuple[str, ...]
    flavour: str
    """asan, asan-ubsan, ubsan or tsan."""
    folder: Path
    """Where the reports go."""
    environment: Mapping[str, str]
    """The user's own."""
    build: Path | None = None
    """What `forensics build` made, or any folder with the modules."""
    preload_only: bool = False


def plan_sanitized(request: SanitizeRequest) -> RunPlan:
    """Decide how the runtime gets into the program.

    Raises:
        UsageError: an option of the user's that would make the run worthless.
        ToolError: a runtime is missing.
        EvidenceError: the build's manifest cannot be read.

    """
    manifest = None if request.preload_only else _manifest(request)
    if manifest is not None:
        request = replace(request, flavour=manifest.flavour)
    launcher = _launcher(manifest, request.flavour)
    python = python_command(_in_environment(request.command, launcher))
    if request.preload_only:
        way = _blind(request)
    elif launcher is not None and python is not None:
        way = _Way(method=Method.LAUNCHER, command=_launched(launcher, python))
    elif is_linked(python.python if python is not None else request.command[0]):
        way = _Way(method=Method.LINKED, command=request.command)
    elif launcher is not None:
        note = _no_python(request.command[0])
        way = _Way(method=Method.LAUNCHER, command=request.command, notes=(note,))
    elif manifest is not None:
        way = _preloaded_build(request, manifest, python)
    else:
        way = _preloaded_modules(request, python)
    plan = _plan(request, way, python, is_clang=_is_clang(manifest, way))
    return replace(plan, launcher=launcher) if way.method is Method.LAUNCHER else plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How the runtime gets in."""

    method: Method
    command: tuple[str, ...]
    runtimes: tuple[str, ...] = ()
    """To be preloaded."""
    notes: tuple[str, ...] = ()


def _blind(request: SanitizeRequest, *notes: str) -> _Way:
    return _Way(
        method=Method.PRELOAD_ONLY,
        command=request.command,
        runtimes=default_runtimes(request.flavour),
        notes=(*notes, *_BLIND),
    )


def _preloaded_build(
    request: SanitizeRequest,
    manifest: BuildManifest,
    python: PythonCommand | None,
) -> _Way:
    """A build whose Python could not be linked anew."""
    command = request.command
    if python is not None and manifest.python is not None:
        command = _launched(manifest.python.executable, python)
    return _Way(
        method=Method.PRELOAD,
        command=command,
        runtimes=manifest.compiler.runtimes,
        notes=(_NO_LAUNCHER if manifest.python is not None else _SHELLS_TOO,),
    )


def _preloaded_modules(request: SanitizeRequest, python: PythonCommand | None) -> _Way:
    runtimes = runtimes_of_modules(request.build, request.environment, python)
    if not runtimes and request.flavour in {"ubsan", "tsan"}:
        raise UsageError(
            f"no module that was built with {NAMES[request.flavour]} was found here, nor among "
            "Python's packages; in others it sees nothing",
            remedy=f"forensics build --{request.flavour} --source DIR, or --build DIR for modules "
            "elsewhere",
        )
    if not runtimes:
        return _blind(request, _NONE_FOUND)
    return _Way(
        method=Method.PRELOAD, command=request.command, runtimes=runtimes, notes=(_SHELLS_TOO,)
    )


def _plan(
    request: SanitizeRequest, way: _Way, python: PythonCommand | None, *, is_clang: bool
) -> RunPlan:
    options = choose_options(request.environment, request.folder / "sanitizer", request.flavour)
    if not is_writable_prefix(options.reports):
        raise UsageError(f"{options.reports}: {LOG_PATH.what}", remedy=LOG_PATH.remedy)
    variables = dict(options.variables) | {
        PREFIX_VARIABLE: options.reports,
        "PYTHONFAULTHANDLER": request.environment.get("PYTHONFAULTHANDLER") or "1",
    }
    if is_clang:
        variables |= _symbolizer(request.environment)
    kept, dropped = users_preloads(request.environment)
    preload: tuple[str, ...] | None = None
    if way.runtimes:
        preload = (*preload_all(way.runtimes, python), *kept)
        if request.flavour != "ubsan":
            variables["PYTHONMALLOC"] = "malloc"
    elif kept:
        # What is preloaded comes before what a program is linked with: the runtime must be first.
        preload = (*default_runtimes(request.flavour), *kept)
    elif dropped:
        preload = ()
    return RunPlan(
        method=way.method,
        name=NAMES[request.flavour],
        command=way.command,
        environment=tuple(variables.items()),
        preload=preload,
        interpreter=_interpreter(way.command),
        reports=options.reports,
        supervised=options.supervised,
        notes=(*options.notes, *dropped, *way.notes),
    )


def _is_clang(manifest: BuildManifest | None, way: _Way) -> bool:
    """Are the runtimes clang's, which need llvm-symbolizer to name anything?"""
    if any("clang_rt" in path for path in way.runtimes):
        return True
    return manifest is not None and manifest.compiler.family == "clang"


def _interpreter(command: tuple[str, ...]) -> str | None:
    python = python_command(command)
    return python.python if python is not None else None


def _manifest(request: SanitizeRequest) -> BuildManifest | None:
    """What `forensics build` wrote, in the folder that was named, or where it writes by itself."""
    wanted = set(request.flavour.split("-"))
    # A build with more sanitizers than were asked for serves too.
    own = [name for name in NAMES if wanted <= set(name.split("-"))]
    folders = [request.build] if request.build else [Path(".forensics") / name for name in own]
    for folder in folders:
        path = folder if folder.name == MANIFEST_NAME else folder / MANIFEST_NAME
        if is_regular_file(str(path)):
            break
        if request.build is not None and not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder}", remedy="the folder of the build: .forensics/asan"
            )
    else:
        return None
    manifest = parse_build_manifest(bytes(map_file(path)))
    if not wanted <= set(manifest.flavour.split("-")):
        raise UsageError(
            f"{path} is a build of flavour {manifest.flavour}, not {request.flavour}",
            remedy="forensics run "
            + " ".join(f"--{name}" for name in manifest.flavour.split("-"))
            + f" --build {folder} -- …",
        )
    return manifest


def _launcher(manifest: BuildManifest | None, flavour: str) -> str | None:
    if manifest is None or manifest.python is None:
        return None
    beside = Path(manifest.python.executable).parent / f"python-{flavour}"
    for path in (manifest.python.launcher, str(beside)):
        if path is not None and find_program(path) is not None:
            return path
    return None


def _in_environment(command: tuple[str, ...], launcher: str | None) -> tuple[str, ...]:
    """A bare name is looked up beside the launcher first, as if its environment were activated."""
    if launcher is None or "/" in command[0]:
        return command
    beside = Path(launcher).parent / command[0]
    return (str(beside), *command[1:]) if beside.is_file() else command


def _no_python(program: str) -> str:
    return (
        f"{program} is no Python and no script of one, as far as its first line tells. What it "
        "starts as python, python3 or a script of the build's environment is watched, by the name "
        "on PATH."
    )


def _launched(interpreter: str, python: PythonCommand) -> tuple[str, ...]:
    """The command with another interpreter; a script of the same name beside it is preferred."""
    arguments = list(python.arguments)
    if python.script is not None:
        beside = Path(interpreter).parent / Path(python.script).name
        if beside.is_file():
            arguments[arguments.index(python.script)] = str(beside)
    return (interpreter, *arguments)


def _symbolizer(environment: Mapping[str, str]) -> dict[str, str]:
    path = symbolizer_path()
    names = ("ASAN_SYMBOLIZER_PATH", "UBSAN_SYMBOLIZER_PATH", "TSAN_SYMBOLIZER_PATH")
    return {name: path for name in names if path is not None and name not in environment}
