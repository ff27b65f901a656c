"""Plans a run under a sanitizer: which runtime, how it gets in, with which options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.files import is_regular_file, map_file
from vllm_forensics.capture.interpreters import PythonCommand, python_command
from vllm_forensics.capture.process import find_program
from vllm_forensics.capture.sanitizer_runtime import (
    find_modules,
    find_runtime,
    installed_library,
    module_folders,
    runtimes_of,
    standard_library,
    symbolizer_path,
)
from vllm_forensics.diagnosis.sanitizer_traps import ALLOCATORS
from vllm_forensics.errors import EvidenceError, ToolError, UsageError
from vllm_forensics.evidence.build_manifest import MANIFEST_NAME, parse_build_manifest
from vllm_forensics.evidence.needed import needed_libraries
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
_HOOK: Final = "forensics-python-stack.so"
_RUNTIMES: Final = ("libasan.so", "libtsan.so", "libclang_rt.", "libubsan.so")
"""By their first letters, in the order in which they are preloaded."""
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
    launcher = _launcher(manifest, request.flavour)
    python = python_command(_in_environment(request.command, launcher))
    options = choose_options(request.environment, request.folder / "sanitizer", request.flavour)
    variables = dict(options.variables) | {
        PREFIX_VARIABLE: options.reports,
        "PYTHONFAULTHANDLER": request.environment.get("PYTHONFAULTHANDLER") or "1",
    }
    method, command = Method.PRELOAD, request.command
    runtimes: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    if request.preload_only:
        method, runtimes, more = Method.PRELOAD_ONLY, _default_runtimes(request.flavour), _BLIND
    elif launcher is not None and python is not None:
        method, command = Method.LAUNCHER, _launched(launcher, python)
    elif python is None and _is_linked(request.command[0]):
        method = Method.LINKED
    elif manifest is not None:
        runtimes, more = manifest.compiler.runtimes, (_SHELLS_TOO,)
        if python is not None and manifest.python is not None:
            command = _launched(manifest.python.executable, python)
        elif launcher is not None:
            more = (_no_python(request.command[0]),)
    else:
        runtimes = _runtimes_of_modules(request, python)
        more = (_SHELLS_TOO,)
        if not runtimes:
            method, more = Method.PRELOAD_ONLY, (_NONE_FOUND, *_BLIND)
            runtimes = _default_runtimes(request.flavour)
    preload, dropped = _preload(request, method, runtimes, python)
    if preload and request.flavour != "ubsan" and method is not Method.LAUNCHER:
        variables["PYTHONMALLOC"] = "malloc"
    if any("clang_rt" in path for path in preload or ()) or manifest_is_clang(manifest):
        variables |= _symbolizer(request.environment)
    return RunPlan(
        method=method,
        name=NAMES[request.flavour],
        command=command,
        environment=tuple(variables.items()),
        preload=preload,
        interpreter=_interpreter(command),
        reports=options.reports,
        supervised=options.supervised,
        notes=(*options.notes, *dropped, *more),
    )


def manifest_is_clang(manifest: BuildManifest | None) -> bool:
    """Was it built with clang, whose runtimes need llvm-symbolizer?"""
    return manifest is not None and manifest.compiler.family == "clang"


def _interpreter(command: tuple[str, ...]) -> str | None:
    python = python_command(command)
    return python.python if python is not None else None


def _manifest(request: SanitizeRequest) -> BuildManifest | None:
    """What `forensics build` wrote, in the folder that was named, or where it writes by itself."""
    folder = request.build or Path(".forensics") / request.flavour
    path = folder if folder.name == MANIFEST_NAME else folder / MANIFEST_NAME
    if not is_regular_file(str(path)):
        if request.build is not None and not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder}", remedy="the folder of the build: .forensics/asan"
            )
        return None
    manifest = parse_build_manifest(bytes(map_file(path)))
    if manifest.flavour != request.flavour:
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
        f"{program} is no Python and no script of one, as far as its first line tells: the runtime "
        "is preloaded into it and all that it starts. python -m NAME starts the build's own Python."
    )


def _launched(interpreter: str, python: PythonCommand) -> tuple[str, ...]:
    """The command with another interpreter; a script of the same name beside it is preferred."""
    arguments = list(python.arguments)
    if python.script is not None:
        beside = Path(interpreter).parent / Path(python.script).name
        if beside.is_file():
            arguments[arguments.index(python.script)] = str(beside)
    return (interpreter, *arguments)


def _is_linked(program: str) -> bool:
    path = find_program(program)
    return path is not None and any(map(_is_runtime, _needed(path)))


def _is_runtime(library: str) -> bool:
    return library.startswith(_RUNTIMES)


def _needed(path: str) -> tuple[str, ...]:
    try:
        return needed_libraries(map_file(path))
    except EvidenceError:
        return ()


def _runtimes_of_modules(request: SanitizeRequest, python: PythonCommand | None) -> tuple[str, ...]:
    """The runtimes that the modules ask for.

    Raises:
        UsageError: they ask for those of two compilers.

    """
    if request.build is not None:
        folders = [request.build]
    else:
        named = request.environment.get("PYTHONPATH", "").split(":")
        folders = [Path.cwd(), *(Path(name) for name in named if name)]
        folders += [] if python is None else module_folders(python.python)
    wanted: dict[str, str] = {}
    for module in find_modules(folders):
        for library in filter(_is_runtime, _needed(module)):
            wanted.setdefault(library, module)
    clang = [name for name in wanted if name.startswith("libclang_rt.")]
    gcc = [name for name in wanted if name not in clang]
    if clang and gcc:
        raise UsageError(
            f"{wanted[gcc[0]]} needs {gcc[0]}, {wanted[clang[0]]} needs {clang[0]}: a process has "
            "room for one of them",
            remedy="build both with one compiler, or name the folder of one: --build DIR",
        )
    ordered = sorted(wanted, key=lambda name: [name.startswith(start) for start in _RUNTIMES][::-1])
    return tuple(find_runtime(name) for name in ordered)


def _default_runtimes(flavour: str) -> tuple[str, ...]:
    try:
        return runtimes_of("gcc", flavour)
    except ToolError as error:
        try:
            return runtimes_of("clang", flavour)
        except ToolError:
            raise error from None


def _preload(
    request: SanitizeRequest,
    method: Method,
    runtimes: Iterable[str],
    python: PythonCommand | None,
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """What LD_PRELOAD becomes, and what was taken out of the user's."""
    users = request.environment.get("LD_PRELOAD", "").replace(":", " ").split()
    refused = [path for path in users if any(name in Path(path).name for name in ALLOCATORS)]
    kept = [path for path in users if path not in refused and not _is_runtime(Path(path).name)]
    notes = tuple(
        f"{path} was taken out of LD_PRELOAD: it takes malloc over before the runtime does"
        for path in refused
    )
    if method in {Method.LAUNCHER, Method.LINKED}:
        if not users:
            return None, ()
        # What is preloaded comes before what a program is linked with: the runtime must be first.
        first = _default_runtimes(request.flavour) if kept else ()
        return (*first, *kept), notes
    library = standard_library(_prefix_of(python))
    hook = installed_library(_HOOK)
    libraries = (*runtimes, *((library,) if library else ()), *((hook,) if hook else ()), *kept)
    return tuple(libraries), notes


def _prefix_of(python: PythonCommand | None) -> str | None:
    return str(Path(python.python).resolve().parent.parent) if python is not None else None


def _symbolizer(environment: Mapping[str, str]) -> dict[str, str]:
    path = symbolizer_path()
    names = ("ASAN_SYMBOLIZER_PATH", "UBSAN_SYMBOLIZER_PATH", "TSAN_SYMBOLIZER_PATH")
    return {name: path for name in names if path is not None and name not in environment}
