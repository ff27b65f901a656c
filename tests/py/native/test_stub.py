"""The stub and the module say the same."""

import ast
import inspect
from enum import Enum
from pathlib import Path

import pytest

from vllm_forensics import _native

STUB = Path(__file__).parents[3] / "python" / "vllm_forensics" / "_native.pyi"
TREE = ast.parse(STUB.read_text(encoding="utf-8"))
CLASSES = {node.name: node for node in TREE.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}
ENUMS = {name for name in CLASSES if issubclass(getattr(_native, name), Enum)}
METHODS = [
    (class_name, node)
    for class_name, class_node in CLASSES.items()
    for node in class_node.body
    if isinstance(node, ast.FunctionDef)
]


def _public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def _is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def _parameters(node: ast.FunctionDef) -> tuple[list[str], list[str], int]:
    """Positional names, keyword-only names, how many have a default."""
    arguments = node.args
    defaults = len(arguments.defaults) + sum(one is not None for one in arguments.kw_defaults)
    positional = [one.arg for one in arguments.args if one.arg != "self"]
    return positional, [one.arg for one in arguments.kwonlyargs], defaults


def _documented(function: object) -> ast.FunctionDef:
    """What pybind11 writes as the first line of a docstring is a signature."""
    line = (inspect.getdoc(function) or "").splitlines()[0]
    (node,) = ast.parse(f"def {line}: ...").body
    assert isinstance(node, ast.FunctionDef)
    return node


def test_the_names_are_the_same() -> None:
    assert set(CLASSES) | set(FUNCTIONS) == _public(dir(_native))


@pytest.mark.parametrize("name", sorted(set(CLASSES) - ENUMS))
def test_a_class_has_the_same_members(name: str) -> None:
    members = [node.name for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)]

    assert _public(members) == _public(list(vars(getattr(_native, name))))


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_an_enum_has_the_same_values(name: str) -> None:
    written = {
        target.id: ast.literal_eval(node.value)
        for node in CLASSES[name].body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    assert written == {member.name: member.value for member in getattr(_native, name)}


@pytest.mark.parametrize(
    ("class_name", "node"), [pair for pair in METHODS if not _is_property(pair[1])]
)
def test_a_method_takes_the_same_arguments(class_name: str, node: ast.FunctionDef) -> None:
    method = getattr(getattr(_native, class_name), node.name)

    assert _parameters(_documented(method)) == _parameters(node)


@pytest.mark.parametrize(
    ("class_name", "node"), [pair for pair in METHODS if _is_property(pair[1])]
)
def test_a_property_is_read_only(class_name: str, node: ast.FunctionDef) -> None:
    member = vars(getattr(_native, class_name))[node.name]

    assert isinstance(member, property)
    assert member.fset is None


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_takes_the_same_arguments(name: str) -> None:
    assert _parameters(_documented(getattr(_native, name))) == _parameters(FUNCTIONS[name])
