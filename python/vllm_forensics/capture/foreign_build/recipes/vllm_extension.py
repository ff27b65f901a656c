"""vLLM's whole `_C` of the releases with csrc/cpu/pybind.cpp (0.4.x), compiled without its CMake.

Its setup.py wants a torch of one release and knows the target from the environment; the six files
need neither. The package's Python files go beside the module, as an installation would put them.
"""

from __future__ import annotations

import shutil
from typing import Final

from vllm_forensics.capture.foreign_build.direct_compile import (
    Extension,
    check_loading,
    compile_extension,
)
from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.torch_environment import provide_torch
from vllm_forensics.capture.foreign_build.tree import SourceTree
from vllm_forensics.capture.foreign_build.vllm_examples import extension_example, write_example
from vllm_forensics.capture.foreign_build.vllm_flags import extension_options
from vllm_forensics.capture.foreign_build.vllm_tree import CPU, Generation, generation_of
from vllm_forensics.capture.foreign_build.workspace import Workspace


def _detects(tree: SourceTree) -> bool:
    return generation_of(tree) is Generation.EXTENSION


def _build(workspace: Workspace, steps: Steps) -> Outcome:
    options = extension_options()
    torch = provide_torch(workspace, steps)
    package = torch.site / "vllm"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(workspace.source / "vllm", package)
    module = package / f"_C{torch.suffix}"
    extension = Extension(
        target=module,
        sources=tuple(sorted((workspace.source / CPU).glob("*.cpp"))),
        options=(
            *options,
            *("-DTORCH_EXTENSION_NAME=_C", f"-I{workspace.source / 'csrc'}"),
            *torch.compile_options,
        ),
        links=(*torch.link_options, "-fopenmp"),
    )
    compile_extension(workspace, steps, extension)
    check_loading(workspace, steps, module)
    example = write_example(workspace, extension_example(module))
    return Outcome(files=(module,), site=torch.site, example=example)


RECIPE: Final = Recipe(
    name="vllm-extension",
    detects=_detects,
    build=_build,
    takes_requirements=True,
    brings_example=True,
)
