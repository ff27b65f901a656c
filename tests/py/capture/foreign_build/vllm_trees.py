"""Small trees with the names of vLLM's files, and a few lines of our own in them."""

from pathlib import Path

from vllm_forensics.capture.foreign_build.tree import SourceTree, read_tree

BINDINGS = """\
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def(
      "cpu_attn_reshape_and_cache(Tensor key, Tensor! cache, "
      "str kind=\\"auto\\") -> ()",
      &cpu_attn_reshape_and_cache);
  ops.def("elsewhere(Tensor out) -> ()", &elsewhere);
  ops.def("copy_blocks(Tensor(a!)[] caches, Tensor mapping) -> ()");
  ops.impl("copy_blocks", torch::kCPU, &copy_blocks);
}
"""
ATTENTION = """\
#define CPU_ATTN_DISPATCH_CASE_HEADDIM(HEAD_DIM, ...) \\
      CPU_ATTN_DISPATCH_CASE(64, __VA_ARGS__)         \\
      CPU_ATTN_DISPATCH_CASE(128, __VA_ARGS__)        \\
      default:
void cpu_attn_reshape_and_cache(const torch::Tensor& key,
                                torch::Tensor& cache, const std::string& kind) {
  elsewhere(key);
}
"""
CACHE = "void copy_blocks(std::vector<torch::Tensor>& caches, const torch::Tensor& mapping) {}\n"
GENERATOR = """\
import os

HEAD_DIMS_32 = [32, 64, 128]
HEAD_DIMS_16 = [80]


def main():
    path = os.path.join(os.path.dirname(__file__), "cpu_attn_dispatch_generated.h")
    with open(path, "w") as file:
        file.write(f"// {HEAD_DIMS_32} {HEAD_DIMS_16}")
"""
WHOLE = {"pybind.cpp": "", "cache.cpp": CACHE}
MIDDLE = {"torch_bindings.cpp": BINDINGS, "cache.cpp": CACHE, "attention.cpp": ""}
EARLY_ATTENTION = {"torch_bindings.cpp": BINDINGS, "cpu_attn.cpp": ATTENTION}
CURRENT = EARLY_ATTENTION | {"generate_cpu_attn_dispatch.py": GENERATOR}


def make_vllm(folder: Path, cpu: dict[str, str] | None) -> SourceTree:
    """A tree with these files in csrc/cpu; without such a folder for None."""
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm" / "__init__.py").touch()
    (folder / "setup.py").write_text("import torch\n")
    (folder / "csrc").mkdir()
    if cpu is not None:
        (folder / "csrc" / "cpu").mkdir()
        for name, text in cpu.items():
            (folder / "csrc" / "cpu" / name).write_text(text)
    return read_tree(folder)
