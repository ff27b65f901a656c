"""What `forensics build` would leave: an environment, a launcher, a module, and their manifest."""

import fcntl
import hashlib
import json
import shutil
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tests.py.integration.tool import REPOSITORY

from vllm_forensics.capture.launcher import (
    FLAVOURS,
    LauncherPlan,
    build_launcher,
    clang_runtime_folder,
    source_folder,
)
from vllm_forensics.capture.sanitizer_runtime import runtimes_of
from vllm_forensics.model.build import BuildManifest, BuildPython, Compiler, Sanitizer

SOURCE = REPOSITORY / "tests/py/integration/sanitized/planted.cpp"
BUILDS = REPOSITORY / "build" / "sanitized"
COMPILERS = {"gcc": "g++", "clang": "clang++"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizedBuild:
    """Where everything is."""

    folder: Path
    modules: Path
    python: Path
    """The environment's own python, not sanitized."""
    launcher: Path


def compile_module(folder: Path, family: str, flavour: str | None) -> None:
    """Build the module `planted` into a folder; a plain one without a flavour."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = COMPILERS[family]
    command = [
        *(compiler, "-std=c++17", "-g", "-O1", "-fno-omit-frame-pointer", "-fPIC", "-shared"),
        *(f"-I{sysconfig.get_path('include')}", "-o", str(folder / "planted.so"), str(SOURCE)),
    ]
    if flavour is not None:
        command.append(f"-fsanitize={FLAVOURS[flavour]}")
        if family == "clang" and flavour != "tsan":
            command += ["-shared-libsan", f"-Wl,-rpath,{clang_runtime_folder(compiler)}"]
    subprocess.run(command, check=True, timeout=120)


def ready_build(family: str, flavour: str) -> SanitizedBuild:
    """The build, made where its sources have changed; one worker makes it while others wait."""
    folder = BUILDS / f"{family} {flavour}"
    BUILDS.mkdir(parents=True, exist_ok=True)
    sources = [SOURCE, Path(__file__), *sorted(source_folder().iterdir())]
    digest = hashlib.sha256(sys.executable.encode())
    for source in sources:
        digest.update(source.read_bytes())
    stamp = folder / "made-of"
    with (BUILDS / f"{folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text() != digest.hexdigest():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _make_build(folder, family, flavour)
            stamp.write_text(digest.hexdigest())
    python = folder / "venv" / "bin" / "python"
    return SanitizedBuild(
        folder=folder,
        modules=folder / "the modules",
        python=python,
        launcher=python.parent / f"python-{flavour}",
    )


def _make_build(folder: Path, family: str, flavour: str) -> None:
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    [packages] = environment.glob("lib/python3.*/site-packages")
    modules = folder / "the modules"
    # pytest and xdist are those of the project.
    (packages / "borrowed.pth").write_text("\n".join([*site.getsitepackages(), str(modules)]))
    compile_module(modules, family, flavour)
    compiler = COMPILERS[family]
    program = build_launcher(LauncherPlan(python=python, flavour=flavour, compiler=compiler))
    manifest = BuildManifest(
        source=str(SOURCE),
        folder=str(folder),
        flavour=flavour,
        sanitizers=tuple(Sanitizer(name) for name in FLAVOURS[flavour].split(",")),
        hardened=False,
        system="setuptools",
        compiler=Compiler(
            family=family,
            c=family,
            cxx=compiler,
            version="",
            runtimes=runtimes_of(family, flavour),
        ),
        python=BuildPython(
            executable=str(python),
            base=sys.base_prefix,
            version=sysconfig.get_python_version(),
            launcher=str(program),
        ),
        files=(),
        modules=("planted",),
        steps=(),
        started="2026-01-01T00:00:00Z",
        seconds=0.0,
        log=None,
    )
    value = {"schema": "forensics.build/1", **msgspec.to_builtins(manifest)}
    (folder / "build.json").write_text(json.dumps(value), encoding="utf-8")
