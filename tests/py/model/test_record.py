"""A record behaves as the standard library's frozen dataclass with slots and keywords."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from vllm_forensics.model.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a cache."""

    number: int
    owner: str | None = None
    notes: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def is_free(self) -> bool:
        return self.owner is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lone:
    """One value, which is a tuple itself."""

    pair: tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """The same as Block, by the standard library."""

    number: int
    owner: str | None = None
    notes: dict[str, int] = dataclasses.field(default_factory=dict)


def test_fields_have_what_they_were_given_and_their_defaults() -> None:
    block, other = Block(number=7), Block(number=8, owner="a", notes={"x": 1})

    assert (block.number, block.owner, block.notes, block.is_free) == (7, None, {}, True)
    assert (other.number, other.owner, other.notes, other.is_free) == (8, "a", {"x": 1}, False)
    assert Block(number=1).notes is not Block(number=1).notes


def test_equal_values_are_equal_and_hash_alike() -> None:
    assert Block(number=7) == Block(number=7)
    assert Block(number=7) != Block(number=8)
    assert Block(number=7) != cast("object", Standard(number=7))
    assert Lone(pair=(1, 2)) == Lone(pair=(1, 2))
    assert Lone(pair=(1, 2)) != cast("object", (1, 2))
    assert Empty() == Empty()
    assert len({Lone(pair=(1, 2)), Lone(pair=(1, 2)), Lone(pair=(2, 1))}) == 2


def test_nothing_can_be_changed_added_or_removed() -> None:
    block = Block(number=7)

    with pytest.raises(dataclasses.FrozenInstanceError, match="number"):
        block.number = 8  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="colour"):
        block.colour = "red"  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError, match="number"):
        del block.number
    assert not hasattr(block, "__dict__")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda record: record(),
        lambda record: record(7),
        lambda record: record(number=7, colour="red"),
    ],
)
def test_a_wrong_call_is_refused_in_the_same_words(wrong: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError) as theirs:
        wrong(Standard)

    with pytest.raises(TypeError) as ours:
        wrong(Block)

    said = str(theirs.value).removeprefix("Standard.")
    assert str(ours.value).removeprefix("Block.") == said


def test_the_standard_library_knows_it_for_a_dataclass() -> None:
    block = Block(number=7, owner="a")

    assert dataclasses.is_dataclass(block)
    assert [field.name for field in dataclasses.fields(block)] == ["number", "owner", "notes"]
    assert dataclasses.replace(block, number=8) == Block(number=8, owner="a")
    assert dataclasses.asdict(block) == {"number": 7, "owner": "a", "notes": {}}
    assert msgspec.to_builtins(block) == dataclasses.asdict(block)
    assert list(inspect.signature(Block).parameters) == ["number", "owner", "notes"]


@pytest.mark.parametrize("record", [Block(number=7, notes={"x": 1}), Lone(pair=(1, 2)), Empty()])
def test_it_travels_to_other_processes(record: object) -> None:
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301 - our own
    assert copy.deepcopy(record) == record


def test_it_shows_its_values() -> None:
    assert repr(Block(number=7)) == "Block(number=7, owner=None, notes={})"
    assert repr(Empty()) == "Empty()"


def test_another_kind_of_dataclass_is_refused() -> None:
    with pytest.raises(TypeError, match="frozen"):
        dataclass(frozen=False, slots=True, kw_only=True)
