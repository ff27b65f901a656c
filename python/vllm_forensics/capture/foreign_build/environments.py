"""Virtual environments of a build, and what pip puts into them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.process import Limits, plain_environment, run_program
from vllm_forensics.errors import ToolError

_ASK: Final = Limits(timeout_s=60, output_bytes=1 << 20)
_FACTS: Final = """
import json, os, sys, sysconfig
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "base": os.path.realpath(sys.executable),
    "purelib": sysconfig.get_path("purelib"),
}))
"""
_PIP_QUIET: Final = ("--quiet", "--retries", "2", "--no-warn-script-location")
_FETCH: Final = (
    "is there a network? a mirror or a folder of wheels also does: PIP_INDEX_URL=…, "
    "or PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR"
)


def python_facts(python: Path) -> dict[str, str]:
    """A Python's version, its program and its site-packages.

    Raises:
        ToolError: it does not start.

    """
    done = run_program(
        [str(python), "-I", "-c", _FACTS], limits=_ASK, environment=plain_environment()
    )
    try:
        facts = json.loads(done.stdout)
    except ValueError as error:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ToolError(
            f"{python} does not run: {said[-1] if said else f'status {done.status}'}",
            remedy="name another one: --python PY",
        ) from error
    return {str(name): str(value) for name, value in facts.items()}


def make_environment(steps: Steps, python: Path, folder: Path, name: str) -> Path:
    """A virtual environment without pip in it; one that is there for this Python is kept.

    Raises:
        ToolError: it cannot be made.

    """
    program, marker = folder / "bin" / "python", folder / "made-from"
    base = python_facts(python)["base"]
    if program.exists() and marker.is_file() and marker.read_text("utf-8") == base:
        return program
    steps.run(
        name,
        [python, "-I", "-m", "venv", "--clear", "--without-pip", folder],
        remedy="this Python has no venv: apt-get install python3-venv, or --python PY",
    )
    marker.write_text(base, encoding="utf-8")
    return program


def pip_install(
    steps: Steps, python: Path, name: str, requirements: Sequence[str], *, once: bool = False
) -> None:
    """Install into the environment of `python`, with a pip that need not be in it.

    `once`: what was asked for in an earlier build and is there is not asked for again.

    Raises:
        ToolError: no pip anywhere, or something could not be fetched or does not fit.

    """
    if not requirements:
        return
    marker, wanted = python.parent.parent / f"has {name}", "\n".join(requirements)
    if once and marker.is_file() and marker.read_text("utf-8") == wanted:
        return
    steps.run(
        name,
        [*_pip(python), "install", *_PIP_QUIET, *requirements],
        remedy=f"needed: {', '.join(requirements)}. {_FETCH}",
    )
    if once:
        marker.write_text(wanted, encoding="utf-8")


def _pip(python: Path) -> list[str | Path]:
    """Our own pip, or that of the Python which the environment was made from.

    A new pip refuses an old Python, and one before 22.3 does not know `--python`: they are asked.
    """
    base = Path(python_facts(python)["base"])
    for candidate in (Path(sys.executable), base):
        command = [str(candidate), "-I", "-m", "pip", "--python", str(python)]
        done = run_program([*command, "--version"], limits=_ASK, environment=plain_environment())
        if done.status == 0:
            return [*command]
    raise ToolError(
        f"no pip for {base}: neither its own nor that of {sys.executable} serves it",
        remedy=f"{base} -m pip install --upgrade pip, or --python PY",
    )
