"""Strangers' projects: copies with a history of their own, at places that stay from run to run."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.py.integration.tool import REPOSITORY
from tests.py.integration.victim_cases import run_tool

PROJECTS = REPOSITORY / "tests" / "py" / "data" / "foreign"
BUILDS = REPOSITORY / "build" / "foreign"
SDISTS = (
    Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "vllm-forensics" / "sdists"
)
_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdist:
    """A release on the package index, by its contents."""

    name: str
    version: str
    sha256: str


@contextlib.contextmanager
def project(name: str) -> Iterator[Path]:
    """A copy of one of our strangers; what was built of it before is kept."""
    with _locked(name) as folder:
        _replace(PROJECTS / name, folder)
        yield folder


@contextlib.contextmanager
def released(sdist: Sdist) -> Iterator[Path]:
    """A release's source distribution, unpacked; pip checks its digest."""
    with _locked(sdist.name) as folder:
        archive = SDISTS / f"{sdist.name}-{sdist.version}.tar.gz"
        if not archive.is_file():
            _download(sdist)
        unpacked = BUILDS / "unpacked" / sdist.name
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        [tree] = unpacked.iterdir()
        _replace(tree, folder)
        yield folder


def make_repository(folder: Path) -> None:
    """Put all that is in the folder under version control."""
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all")):
        subprocess.run((*_GIT, *command), cwd=folder, check=True)


def changes(folder: Path) -> str:
    """What git says was changed or added."""
    return run_tool(("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=all"))


@contextlib.contextmanager
def _locked(name: str) -> Iterator[Path]:
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield BUILDS / name


def _replace(source: Path, target: Path) -> None:
    """Times are kept, and so is .forensics: only what differs is built again."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in target.iterdir():
        if entry.name != ".forensics":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.copytree(source, target, dirs_exist_ok=True)
    make_repository(target)


def _download(sdist: Sdist) -> None:
    SDISTS.mkdir(parents=True, exist_ok=True)
    pinned = BUILDS / f"{sdist.name}.txt"
    pinned.write_text(f"{sdist.name}=={sdist.version} --hash=sha256:{sdist.sha256}\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"),
            *("--no-binary", sdist.name, "--dest", SDISTS, "-r", pinned),
        ],
        check=True,
        timeout=300,
    )
