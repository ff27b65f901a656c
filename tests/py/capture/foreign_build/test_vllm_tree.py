"""A vLLM tree is known by the files that it holds, whatever its version says."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.capture.foreign_build.vllm_trees import (
    ATTENTION,
    BINDINGS,
    CACHE,
    CURRENT,
    EARLY_ATTENTION,
    MIDDLE,
    WHOLE,
    make_vllm,
)

from vllm_forensics.capture.foreign_build.recipes import detect
from vllm_forensics.capture.foreign_build.tree import read_tree
from vllm_forensics.capture.foreign_build.vllm_tree import (
    Operator,
    generation_of,
    kernel_files,
    operators_of,
)
from vllm_forensics.errors import UsageError


@pytest.mark.parametrize(
    ("cpu", "recipe", "kernels"),
    [
        (WHOLE, "vllm-extension", ("cache.cpp",)),
        (MIDDLE, "vllm-kernels", ("cache.cpp", "attention.cpp")),
        (EARLY_ATTENTION, "vllm-kernels", ("cpu_attn.cpp",)),
        (CURRENT | MIDDLE, "vllm-kernels", ("cpu_attn.cpp",)),
    ],
    ids=["0.4", "0.6", "0.11.1", "current"],
)
def test_each_generation_has_its_recipe(
    tmp_path: Path, cpu: dict[str, str], recipe: str, kernels: tuple[str, ...]
) -> None:
    tree = make_vllm(tmp_path / "vllm-of-some-release", cpu)

    assert detect(tree).name == recipe
    assert kernel_files(tree) == kernels


@pytest.mark.parametrize(
    ("cpu", "says"),
    [
        (None, "need a GPU"),
        ({"cache.cpp": CACHE}, "of no known kind"),
        ({"torch_bindings.cpp": BINDINGS, "attention.cpp": ""}, "of no known kind"),
    ],
)
def test_a_vllm_of_no_known_kind_is_refused_with_the_reason(
    tmp_path: Path, cpu: dict[str, str] | None, says: str
) -> None:
    tree = make_vllm(tmp_path / "vllm", cpu)

    with pytest.raises(UsageError, match=says):
        detect(tree)


def test_another_project_with_a_csrc_folder_is_no_vllm(tmp_path: Path) -> None:
    make_vllm(tmp_path, WHOLE)
    (tmp_path / "vllm" / "__init__.py").unlink()

    tree = read_tree(tmp_path)

    assert generation_of(tree) is None
    assert detect(tree).name == "setuptools"


def test_only_functions_that_the_file_defines_are_registered_from_it() -> None:
    from_attention = operators_of(BINDINGS, ATTENTION)
    from_cache = operators_of(BINDINGS, CACHE)

    assert from_attention == (
        Operator(
            name="cpu_attn_reshape_and_cache",
            schema="cpu_attn_reshape_and_cache(Tensor key, Tensor! cache, "
            'str kind=\\"auto\\") -> ()',
        ),
    )
    assert [one.name for one in from_cache] == ["copy_blocks"]


@given(bindings=st.text(alphabet='.def(" \\\n),&a'), source=st.text(alphabet="a (\n:<>&*,"))
def test_any_text_can_be_searched_for_operators(bindings: str, source: str) -> None:
    for operator in operators_of(bindings, source):
        assert operator.schema in bindings.replace('"', "") or '"' in bindings
        assert operator.name.isidentifier()
