"""Releases of vLLM, from the package index."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from os import environ
from pathlib import Path

import pytest
from tests.py.integration.tool import REPOSITORY

FOLDER = REPOSITORY / "build" / "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A source distribution, by its contents."""

    version: str
    sha256: str


def sources(release: Release) -> Path:
    """Its tree. The test is skipped where the index cannot be reached."""
    tree = FOLDER / f"vllm-{release.version}"
    if not tree.is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
            _unpacked(release, Path(scratch)).rename(tree)
    return tree


def _unpacked(release: Release, scratch: Path) -> Path:
    """The tree that pip unpacks to ask for its metadata.

    Its setup.py imports torch to answer, so pip fails, and leaves the tree because it was told to.
    """
    pinned = scratch / "pinned.txt"
    pinned.write_text(f"vllm=={release.version} --hash=sha256:{release.sha256}\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--no-clean", "--no-deps", "--no-cache-dir"),
            *("--no-build-isolation", "--no-binary", "vllm", "--require-hashes", "-r", pinned),
            *("--dest", scratch),
        ],
        env={**environ, "TMPDIR": str(scratch), "VLLM_TARGET_DEVICE": "empty"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = [path.parent for path in scratch.glob("pip-*/vllm_*/csrc")]
    if not found:
        assert "HASH" not in done.stderr.upper(), done.stderr
        said = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"vLLM {release.version} cannot be fetched from the package index: {said}")
    return found[0]
