"""The kernels of newer vLLMs that touch the paged cache, each compiled alone.

All of `_C` would need oneDNN and more from the network, and an hour. A file of kernels needs only
torch: a file of ours includes it as it is and registers its functions under the schemas of the
tree's own torch_bindings.cpp, so a call takes what `torch.ops._C` takes, and a plugin can put them
in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.direct_compile import (
    Extension,
    check_loading,
    compile_extension,
)
from vllm_forensics.capture.foreign_build.recipe import Outcome, Recipe
from vllm_forensics.capture.foreign_build.steps import Steps
from vllm_forensics.capture.foreign_build.torch_environment import provide_torch
from vllm_forensics.capture.foreign_build.tree import SourceTree, read_text
from vllm_forensics.capture.foreign_build.vllm_examples import (
    copy_example,
    reshape_example,
    write_example,
)
from vllm_forensics.capture.foreign_build.vllm_flags import kernel_options
from vllm_forensics.capture.foreign_build.vllm_head_dims import DEFAULT, limit_head_dims
from vllm_forensics.capture.foreign_build.vllm_plugin import write_plugin
from vllm_forensics.capture.foreign_build.vllm_tree import (
    CPU,
    Generation,
    Operator,
    generation_of,
    kernel_files,
    operators_of,
)
from vllm_forensics.capture.foreign_build.workspace import Workspace
from vllm_forensics.errors import UsageError

NAME: Final = "vllm_cpu_kernels"
_ATTENTION: Final = "cpu_attn.cpp"
_BINDING: Final = """\
// Written by `forensics build`: {file} as it is, and its functions as operators of torch.
#include "cpu/{file}"
#include <torch/library.h>

TORCH_LIBRARY_FRAGMENT({name}, library) {{
{definitions}}}
"""
_MODULE: Final = """\
// Written by `forensics build`: lets Python import what registers itself when it is loaded.
#include <Python.h>

static PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{name}", nullptr, -1, nullptr,
                                 nullptr,               nullptr,  nullptr, nullptr}};
PyMODINIT_FUNC PyInit_{name}() {{ return PyModule_Create(&definition); }}
"""


def _detects(tree: SourceTree) -> bool:
    return generation_of(tree) is Generation.KERNELS


def _build(workspace: Workspace, steps: Steps) -> Outcome:
    files, dims = kernel_files(workspace.tree), workspace.request.head_dims
    cpu = workspace.source / CPU
    if _ATTENTION not in files and dims:
        raise UsageError(
            "the kernels of this release are compiled for every head dimension at once",
            remedy="leave out --head-dim",
        )
    torch = provide_torch(workspace, steps)
    if _ATTENTION in files:
        dims = dims or DEFAULT
        limit_head_dims(steps, workspace.venv / "bin" / "python", cpu, dims)
    bindings = read_text(cpu / "torch_bindings.cpp")
    operators = {file: operators_of(bindings, read_text(cpu / file)) for file in files}
    if not operators[files[0]]:
        raise UsageError(
            f"torch_bindings.cpp registers no function of {files[0]}",
            remedy="known are the releases from 0.4.1 to 0.33; is the checkout complete?",
        )
    module = torch.site / f"{NAME}{torch.suffix}"
    extension = Extension(
        target=module,
        sources=tuple(_sources(workspace.build, cpu, operators)),
        options=(
            *kernel_options(),
            "-DVLLM_NUMA_DISABLED",  # libnuma's headers are seldom there
            *(f"-I{workspace.source / 'csrc'}", f"-I{cpu}"),
            # The command tells ninja that another choice of them is another object.
            f"-DFORENSICS_HEAD_DIMS={'_'.join(map(str, dims))}",
            *torch.compile_options,
        ),
        links=(*torch.link_options, "-fopenmp"),
    )
    compile_extension(workspace, steps, extension)
    check_loading(workspace, steps, module)
    plugged = [one for known in operators.values() for one in known if "Tensor " in one.schema]
    write_plugin(torch.site, NAME, tuple(one.name for one in plugged))
    text = reshape_example(NAME, dims[0]) if _ATTENTION in files else copy_example(NAME)
    example = write_example(workspace, text)
    return Outcome(files=(module,), site=torch.site, example=example)


def _sources(folder: Path, cpu: Path, operators: dict[str, tuple[Operator, ...]]) -> Iterator[Path]:
    """Files of ours around those that register something, and the others as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, known in operators.items():
        if known:
            yield _written(folder / f"binding_{file}", _binding(file, known))
        else:
            yield cpu / file
    yield _written(folder / "module.cpp", _MODULE.format(name=NAME))


def _written(path: Path, text: str) -> Path:
    """A file whose time tells when it changed last."""
    if not path.is_file() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def _binding(file: str, operators: tuple[Operator, ...]) -> str:
    definitions = "".join(f'  library.def("{one.schema}", &{one.name});\n' for one in operators)
    return _BINDING.format(file=file, name=NAME, definitions=definitions)


RECIPE: Final = Recipe(
    name="vllm-kernels",
    detects=_detects,
    build=_build,
    takes_head_dims=True,
    takes_requirements=True,
    brings_example=True,
)
