"""The importer: real modules from the tree, placeholders that fail loudly for all others."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

import pytest

from vllm_forensics.model.sandbox import Generation, VllmTree
from vllm_forensics.sandbox.engine.absent import Known, UnmodelledError
from vllm_forensics.sandbox.engine.loader import Selection, defaults_in, loaded

FILES = {
    "__init__.py": "import torch\nraise SystemExit('the package itself is not executed')\n",
    "heavy.py": "raise SystemExit('not selected: not executed')\n",
    "core/__init__.py": "",
    "core/scheduler.py": """
import torch
import numpy as np
from torch.nn import Module
from vllm.heavy import Config, decorate, registry

kind: torch.dtype | None = None
table: dict[str, np.ndarray] = {}

class Layer(Module):
    def forward(self):
        return self.weight

@decorate
def plain():
    return "as it was"

@registry.register("name")
class Registered:
    pass

def is_config(value):
    return isinstance(value, Config)

def computes():
    return torch.zeros(3)

def late():
    from vllm.heavy import Other
    return Other.field

def compares(value):
    return value == torch.float16
""",
}


@pytest.fixture
def opened(tmp_path: Path) -> AbstractContextManager[Callable[[str], ModuleType]]:
    for name, text in FILES.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    tree = VllmTree(
        root=str(tmp_path),
        version="0.0",
        file=str(tmp_path / "vllm" / "__init__.py"),
        generation=Generation.V0,
    )
    selection = Selection(packages=("vllm.core",), modules=(), stand_ins={})
    return loaded(tree, selection)


def test_only_what_is_selected_is_executed(
    opened: AbstractContextManager[Callable[[str], ModuleType]],
) -> None:
    with opened as load:
        module = load("vllm.core.scheduler")

        assert module.plain() == "as it was"
        assert module.__file__ is not None
        assert module.__file__.endswith("core/scheduler.py")
        assert not module.is_config(1)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("computes", "torch.zeros"),
        ("late", "vllm.heavy.Other.field"),
        ("compares", "torch.float16"),
    ],
)
def test_a_use_of_what_was_not_loaded_names_it_and_the_line(
    opened: AbstractContextManager[Callable[[str], ModuleType]], call: str, named: str
) -> None:
    with opened as load:
        function = getattr(load("vllm.core.scheduler"), call)

        with pytest.raises(UnmodelledError) as error:
            function(*([1] if call == "compares" else []))

        assert named in error.value.message
        assert "vllm/core/scheduler.py:" in error.value.message


def test_a_base_class_that_was_not_loaded_fails_on_what_it_might_have(
    opened: AbstractContextManager[Callable[[str], ModuleType]],
) -> None:
    with opened as load:
        layer = load("vllm.core.scheduler").Layer()

        with pytest.raises(UnmodelledError, match=r"Layer\.weight"):
            layer.forward()


def test_nothing_stays_behind(
    opened: AbstractContextManager[Callable[[str], ModuleType]],
) -> None:
    mine = ModuleType("vllm")
    sys.modules["vllm"] = mine
    finders = list(sys.meta_path)
    try:
        with opened as load:
            load("vllm.core.scheduler")

        assert sys.modules["vllm"] is mine
        assert "vllm.core.scheduler" not in sys.modules
        assert "torch" not in sys.modules
        assert sys.meta_path == finders
    finally:
        del sys.modules["vllm"]


def test_a_module_that_is_nowhere_is_an_import_error_as_usual(
    opened: AbstractContextManager[Callable[[str], ModuleType]],
) -> None:
    with opened as load, pytest.raises(ModuleNotFoundError):
        load("vllm.core.nowhere")


def test_a_configuration_knows_its_fields_and_refuses_every_other() -> None:
    config = Known("CacheConfig", {"block_size": 16})

    assert config.block_size == 16
    with pytest.raises(UnmodelledError, match=r"CacheConfig\.swap_space"):
        _ = config.swap_space
    with pytest.raises(UnmodelledError):
        getattr(config, "swap_space", None)


def test_defaults_are_read_off_the_source_and_what_is_computed_is_left_out() -> None:
    source = """
class Config:
    SIZE: ClassVar[int] = 64
    number: int = 3
    field: int = Field(default=SIZE, ge=1)
    names: list[str] = field(default_factory=list)
    nothing: str | None = None
    computed: float = time.time()
    required: int
    unset: int = Field(init=False)
class Other:
    number: int = 9
"""

    found = defaults_in(source, "Config")

    assert found == {"SIZE": 64, "number": 3, "field": 64, "names": [], "nothing": None}
