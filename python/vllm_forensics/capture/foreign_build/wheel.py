"""Builds a wheel through any PEP 517 backend, in an environment that stays, and installs it.

pip would make a new environment in a new temporary folder each time: its paths are compiled in, so
no object and no entry of ccache could be used again.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from vllm_forensics.capture.foreign_build.environments import (
    make_environment,
    pip_install,
    python_facts,
)
from vllm_forensics.capture.foreign_build.recipe import Outcome
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.tree import is_elf
from vllm_forensics.capture.foreign_build.workspace import Workspace
from vllm_forensics.errors import ToolError

Settings = Mapping[str, str | list[str]]
# A PEP 517 front end: the backend is imported in the project's folder and its hook is called.
_HOOK: Final = """
import importlib, json, os, sys
asked = json.loads(sys.argv[1])
sys.path[:0] = [os.path.abspath(folder) for folder in asked["path"]]
module, _, attribute = asked["backend"].partition(":")
backend = importlib.import_module(module)
for name in filter(None, attribute.split(".")):
    backend = getattr(backend, name)
hook = getattr(backend, asked["hook"], None)
answer = hook(*asked["arguments"]) if hook else []
with open(asked["answer"], "w") as file:
    json.dump(answer, file)
"""


def build_and_install(
    workspace: Workspace,
    steps: Steps,
    settings: Settings,
    variables: Mapping[str, str] | None = None,
) -> Outcome:
    """Build the wheel with the backend's `settings` and install it with what it depends on.

    `variables` are set in the environment of the backend alone.

    Raises:
        ToolError: a step failed; see `Steps.run`.

    """
    python = make_environment(steps, workspace.request.python, workspace.venv, "environment")
    builder = make_environment(
        steps, workspace.request.python, workspace.build_venv, "build environment"
    )
    needed = (*workspace.tree.requirements, *workspace.request.requirements)
    pip_install(steps, builder, "build requirements", needed, once=True)
    backend = _Backend(workspace, steps, variables or {})
    extra = backend.call("get_requires_for_build_wheel", [dict(settings)])
    if isinstance(extra, list):
        more = [str(one) for one in extra]
        pip_install(steps, builder, "more build requirements", more, once=True)
    wheels = workspace.request.folder / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir()
    name = backend.call("build_wheel", [str(wheels), dict(settings)])
    wheel = wheels / str(name)
    if not wheel.is_file():
        raise ToolError(
            f"the backend {workspace.tree.backend} made no wheel", remedy=f"read {workspace.log}"
        )
    record = _record(python, wheel)
    if record.is_file():
        # pip takes one of the same version for the same.
        needs = _dependencies(wheel)
        pip_install(steps, python, "dependencies", needs, once=True)
        pip_install(steps, python, "install", ["--force-reinstall", "--no-deps", str(wheel)])
    else:
        pip_install(steps, python, "install", [str(wheel)])
    pip_install(steps, python, "requirements", workspace.request.requirements, once=True)
    return _installed(record)


class _Backend:
    """The project's build backend, each hook in a process of its own."""

    def __init__(self, workspace: Workspace, steps: Steps, variables: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._steps = steps
        self._environment = {**workspace.environment, **variables}

    def call(self, hook: str, arguments: list[Any]) -> object:
        """What the hook returns; an empty list where there is none of that name."""
        answer = self._workspace.request.folder / "trace" / "answer.json"
        asked = {
            "backend": self._workspace.tree.backend,
            "path": list(self._workspace.tree.backend_path),
            "hook": hook,
            "arguments": arguments,
            "answer": str(answer),
        }
        self._steps.run(
            "wheel" if hook == "build_wheel" else "what the build needs",
            [self._workspace.build_venv / "bin" / "python", "-c", _HOOK, json.dumps(asked)],
            cwd=self._workspace.source,
            environment=self._environment,
            remedy="does it build without sanitizers? pip wheel --no-deps "
            f"{self._workspace.request.source}; a package that it does not say it needs: "
            "--with NAME; the other compiler: --compiler gcc|clang",
        )
        value: object = json.loads(answer.read_text("utf-8"))
        return value


def _dependencies(wheel: Path) -> list[str]:
    """What the wheel's metadata asks for without an extra (core metadata, Requires-Dist)."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode("utf-8", "replace").splitlines()
    needs = [line.partition(":")[2].strip() for line in lines if line.startswith("Requires-Dist:")]
    return [one for one in needs if "extra ==" not in one]


def _record(python: Path, wheel: Path) -> Path:
    """Where the list of a wheel's installed files is, or will be."""
    name, version = wheel.name.split("-")[:2]
    return Path(python_facts(python)["purelib"]) / f"{name}-{version}.dist-info" / "RECORD"


def _installed(record: Path) -> Outcome:
    site = record.parent.parent
    try:
        rows = list(csv.reader(record.read_text("utf-8").splitlines()))
    except OSError as error:
        raise ToolError(
            f"{record} cannot be read: {error.strerror}", remedy="delete the folder and build again"
        ) from error
    paths = (Path(os.path.normpath(site / row[0])) for row in rows if row)
    return Outcome(files=tuple(path for path in paths if is_elf(path)), site=site)
