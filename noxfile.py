"""Each check by its own name. All run in the .venv that `./dev` makes, with what it installs."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox
import pybind11

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "layers", "cpp_lint", "cpp", "asan", "py"]

PYTHON = ("python", "tests/py", "benchmarks", "fuzz", "scripts", "noxfile.py")
SHELL = ("dev", ".ci/run", "scripts/asan_python_build.sh", "scripts/setup_environment.sh")


def _present(*paths: str) -> tuple[str, ...]:
    return tuple(path for path in paths if Path(path).exists())


def _cpp_files(*folders: str) -> tuple[str, ...]:
    files = (
        file
        for folder in folders
        for file in Path(folder).rglob("*")
        # Samples stay as they were: the recorded output names their lines and columns.
        if not file.is_relative_to("tests/py/data")
    )
    return tuple(sorted(str(file) for file in files if file.suffix in {".h", ".cpp"}))


def _build(session: nox.Session, preset: str, *definitions: str) -> None:
    session.run("cmake", "--preset", preset, *definitions, silent=True)
    session.run("cmake", "--build", "--preset", preset)


def _build_and_test(session: nox.Session, preset: str) -> None:
    _build(session, preset)
    jobs = str(os.cpu_count() or 1)
    session.run("ctest", "--preset", preset, "--no-tests=error", "--parallel", jobs)


@nox.session
def lint(session: nox.Session) -> None:
    """Format and lint of Python and shell, format of C++."""
    session.run("ruff", "format", "--check", *_present(*PYTHON))
    session.run("ruff", "check", *_present(*PYTHON))
    session.run("shellcheck", "--external-sources", *SHELL)
    session.run("clang-format", "--dry-run", "-Werror", *_cpp_files("csrc", "tests"))


@nox.session
def types(session: nox.Session) -> None:
    """Strict types, tests too."""
    session.run("mypy", *_present("python", "tests/py", "benchmarks", "fuzz", "noxfile.py"))


@nox.session
def layers(session: nox.Session) -> None:
    """Who may import whom."""
    session.run("lint-imports")


@nox.session
def cpp_lint(session: nox.Session) -> None:
    """Warnings as errors, then clang-tidy on every file of the debug build."""
    _build(
        session,
        "debug",
        "-DFORENSICS_BUILD_PYTHON=ON",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
    )
    sources = [file for file in _cpp_files("csrc", "tests/cpp") if file.endswith(".cpp")]

    def tidy(source: str) -> None:
        options = ("--quiet", "--warnings-as-errors=*", "-p", "build/debug")
        session.run("clang-tidy", *options, source, silent=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(tidy, source) for source in sources]
    for run in runs:
        run.result()


@nox.session
def cpp(session: nox.Session) -> None:
    """C++ tests as they are."""
    _build_and_test(session, "debug")


@nox.session
def asan(session: nox.Session) -> None:
    """C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer."""
    _build_and_test(session, "asan-ubsan")


@nox.session
def py(session: nox.Session) -> None:
    """Python tests."""
    session.run("pytest", "--numprocesses", "auto", "--dist", "loadgroup", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Every benchmark, one after the other; or the one that is named, with its own options."""
    found = sorted(Path("benchmarks").glob("bench_*.py"))
    scripts = {script.stem.removeprefix("bench_"): script for script in found}
    name, *options = session.posargs or (None,)
    if name is not None and name not in scripts:
        session.error(f"there is no benchmark {name}; there are {', '.join(scripts)}")
    for script in scripts.values() if name is None else (scripts[name],):
        session.run("python", str(script), *options)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Fuzz the parsers of evidence: seconds for each, then names."""
    session.run("python", "fuzz/run.py", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build a wheel with its libraries and their licences into dist/."""
    session.run("python", "scripts/build_wheel.py", "dist")
