"""Gives a build's environment a torch: the one of the user's Python, or one from the index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vllm_forensics.capture.foreign_build.environments import make_environment, pip_install
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.workspace import Workspace
from vllm_forensics.capture.process import Limits, plain_environment, run_program
from vllm_forensics.errors import ToolError

TORCH: Final = "torch==2.13.0"
_NEEDED_BY_TORCH: Final = (
    "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec",
    "filelock", "numpy",
)  # fmt: skip
_LIMITS: Final = Limits(timeout_s=600, output_bytes=1 << 20)
_FETCH: Final = "fetching torch"
_BORROWED: Final = "forensics-borrowed.pth"
_OWN: Final = (
    "a torch of your own serves as well, also without a network: --python PY, where PY can import "
    "it. For processors alone there are wheels on PyTorch's own index (PIP_INDEX_URL)"
)
_QUESTION: Final = """
import importlib.util, json, os, sys, sysconfig
answer = {
    "folders": [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))],
    "python_include": sysconfig.get_path("include"),
    "purelib": sysconfig.get_path("purelib"),
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "there": importlib.util.find_spec("torch") is not None,
    "error": None,
}
if answer["there"]:
    try:
        import torch
        answer["folder"] = os.path.dirname(os.path.abspath(torch.__file__))
        answer["version"] = str(torch.__version__)
        answer["new_abi"] = bool(torch.compiled_with_cxx11_abi())
    except (ImportError, OSError, AttributeError, RuntimeError) as error:
        answer["error"] = f"{type(error).__name__}: {error}"
sys.stdout.write("\\n" + json.dumps(answer))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """What compiling against it needs to know."""

    version: str
    folder: Path
    """The package's folder, which holds `include` and `lib`."""
    new_abi: bool
    """Strings and lists of the C++ library as they are since GCC 5."""
    site: Path
    """The site-packages of the build's own environment."""
    python_include: Path
    suffix: str
    """How the name of an extension module ends."""

    @property
    def compile_options(self) -> tuple[str, ...]:
        """Folders of headers, as those of a system: their warnings are not ours."""
        include = self.folder / "include"
        folders = (include, include / "torch" / "csrc" / "api" / "include", self.python_include)
        return (
            *(word for folder in folders for word in ("-isystem", str(folder))),
            f"-D_GLIBCXX_USE_CXX11_ABI={int(self.new_abi)}",
        )

    @property
    def link_options(self) -> tuple[str, ...]:
        """Its libraries, found again at run time by their folder."""
        libraries = self.folder / "lib"
        names = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")
        return (f"-L{libraries}", f"-Wl,-rpath,{libraries}", *names)


def provide_torch(workspace: Workspace, steps: Steps) -> Torch:
    """Make the environment that the result goes into, with a torch in it.

    The torch of the Python that was given is borrowed, with all that lies beside it. Without one,
    and without one among the requirements, `TORCH` and the few packages that it cannot do without
    are installed.

    Raises:
        ToolError: there is none and none could be fetched, or it cannot be imported.

    """
    given = workspace.request.python
    theirs = _ask(given)
    if theirs["error"] is not None:
        raise ToolError(
            f"{given} has a torch that cannot be imported: {theirs['error']}",
            remedy=f"mend it, or: {_OWN}",
        )
    if theirs["there"] and (workspace.venv / f"has {_FETCH}").exists():
        # One that an earlier build fetched would be found before theirs.
        (workspace.venv / "made-from").unlink(missing_ok=True)
    python = make_environment(steps, given, workspace.venv, "environment")
    borrowed = Path(_ask(python)["purelib"]) / _BORROWED
    if theirs["there"]:
        borrowed.write_text("".join(f"{folder}\n" for folder in theirs["folders"]), "utf-8")
    else:
        borrowed.unlink(missing_ok=True)
    pip_install(steps, python, "requirements", workspace.request.requirements, once=True)
    answer = _ask(python)
    if not theirs["there"] and not _works(answer):
        try:
            # With its dependencies a wheel for graphics cards would draw several gigabytes.
            pip_install(steps, python, _FETCH, ["--no-deps", TORCH], once=True)
            pip_install(steps, python, "fetching what torch needs", _NEEDED_BY_TORCH, once=True)
        except ToolError as error:
            raise ToolError(
                f"{given} has no torch, and {error.message}", remedy=f"{error.remedy}; {_OWN}"
            ) from error
        answer = _ask(python)
    if not _works(answer):
        raise ToolError(
            f"the torch for this build cannot be imported: {answer['error'] or 'it is not there'}",
            remedy=f"a wheel for graphics cards needs their libraries; {_OWN}",
        )
    steps.say(f"torch {answer['version']} in {answer['folder']}")
    return Torch(
        version=answer["version"],
        folder=Path(answer["folder"]),
        new_abi=answer["new_abi"],
        site=Path(answer["purelib"]),
        python_include=Path(answer["python_include"]),
        suffix=answer["suffix"],
    )


def _works(answer: dict[str, Any]) -> bool:
    return answer["there"] and answer["error"] is None


def _ask(python: Path) -> dict[str, Any]:
    done = run_program(
        [str(python), "-I", "-c", _QUESTION], limits=_LIMITS, environment=plain_environment()
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ToolError(
            f"{python} does not run: {said[-1] if said else f'status {done.status}'}",
            remedy="name another one: --python PY",
        ) from error
    return answer
