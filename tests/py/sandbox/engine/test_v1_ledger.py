"""A look at what changed finds all that a look at everything finds, and as early."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.py.support.vllm_trees import CURRENT, a_tree, opener

from vllm_forensics.model.sandbox import Parameters, Snapshot
from vllm_forensics.sandbox.driver import Driver
from vllm_forensics.sandbox.engine.v1 import V1Engine, opened_v1
from vllm_forensics.sandbox.invariants import broken_in
from vllm_forensics.sandbox.load import drawn, uniform
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.run import run

pytestmark = pytest.mark.xdist_group("vllm-trees")
PARAMETERS = Parameters(gpu_blocks=48, prefix_caching=True)
LOAD = drawn(uniform(12, 90, 40), seed=5)
VERSIONS = ("0.8.5", "0.11.0", CURRENT)


def chance() -> random.Random:
    return random.Random(1)  # noqa: S311 - no secret


Damage = Callable[[V1Engine, random.Random], None]


def a_block(engine: V1Engine, chance: random.Random) -> Any:
    return chance.choice(engine.pool.blocks[1:])


def a_free_block(engine: V1Engine, chance: random.Random) -> Any:
    """Not the last one: after it nothing would be lost."""
    return chance.choice(engine.pool.free_block_queue.get_all_free_blocks()[:-1])


def a_table(engine: V1Engine, chance: random.Random) -> Any:
    tables = engine.manager.coordinator.single_type_managers[0].req_to_blocks
    return chance.choice([table for table in tables.values() if table])


def a_hash(engine: V1Engine, chance: random.Random) -> Any:
    return chance.choice(list(engine.pool.cached_block_hash_to_block._cache))


def miscount(engine: V1Engine, chance: random.Random) -> None:
    a_block(engine, chance).ref_cnt += chance.choice((-1, 1))


def miscount_free(engine: V1Engine, chance: random.Random) -> None:
    engine.pool.free_block_queue.num_free_blocks += chance.choice((-1, 1))


def link_past(engine: V1Engine, chance: random.Random) -> None:
    a_free_block(engine, chance).next_free_block = engine.pool.free_block_queue.fake_free_list_tail


def unlink(engine: V1Engine, chance: random.Random) -> None:
    block = a_free_block(engine, chance)
    block.prev_free_block = block.next_free_block = None


def free_a_held_one(engine: V1Engine, chance: random.Random) -> None:
    engine.pool.free_block_queue.append(chance.choice(a_table(engine, chance)))


def free_the_null_block(engine: V1Engine, chance: random.Random) -> None:
    del chance
    engine.pool.free_block_queue.append(engine.pool.null_block)


def lose_a_place(engine: V1Engine, chance: random.Random) -> None:
    a_table(engine, chance).pop()


def take_anothers(engine: V1Engine, chance: random.Random) -> None:
    table = a_table(engine, chance)
    others = [block for block in engine.pool.blocks if block not in table]
    table.append(chance.choice(others[1:]))


def lose_a_hash(engine: V1Engine, chance: random.Random) -> None:
    del engine.pool.cached_block_hash_to_block._cache[a_hash(engine, chance)]


def forget_a_hash(engine: V1Engine, chance: random.Random) -> None:
    hashed = [block for block in engine.pool.blocks if block.block_hash is not None]
    chance.choice(hashed).reset_hash()


def file_another(engine: V1Engine, chance: random.Random) -> None:
    """As a cache that forgets under a hash what was there, for a block that gets it."""
    content, table = a_hash(engine, chance), a_table(engine, chance)
    block = next(block for block in table if block.block_hash != content)
    block.reset_hash()
    block._block_hash = content
    engine.pool.cached_block_hash_to_block._cache[content] = block


DAMAGES: tuple[Damage, ...] = (
    *(miscount, miscount_free, link_past, unlink, free_a_held_one, free_the_null_block),
    *(lose_a_place, take_anothers, lose_a_hash, forget_a_hash, file_another),
)


def driven_to(engine: V1Engine, recorder: Recorder, steps: int) -> Driver:
    driver = Driver(engine, recorder, PARAMETERS, LOAD)
    for _ in range(steps):
        driver.advance()
    return driver


def broken_by(state: Snapshot) -> list[Any]:
    return [(kind, request, block) for kind, _, request, block, _ in broken_in(state)]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_broken_behind_its_back_is_no_longer_called_sound(
    damage: Damage, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    recorder = Recorder()
    with opened_v1(a_tree(CURRENT), PARAMETERS, recorder) as engine:
        driven_to(engine, recorder, chance.randint(2, 60))
        assert engine.ledger is not None
        assert engine.ledger.still_sound()

        damage(engine, chance)

        broken = broken_by(engine.snapshot())
        sound = engine.ledger.still_sound()
        assert not (broken and sound), broken


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_each_damage_does_break_a_rule(damage: Damage) -> None:
    recorder = Recorder()
    with opened_v1(a_tree(CURRENT), PARAMETERS, recorder) as engine:
        driven_to(engine, recorder, 4)

        damage(engine, chance())

        assert list(broken_in(engine.snapshot()))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_healthy_run_is_hardly_ever_looked_at_as_a_whole(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    snapshot = V1Engine.snapshot

    def counted(engine: V1Engine) -> Snapshot:
        nonlocal looks
        looks += 1
        return snapshot(engine)

    monkeypatch.setattr(V1Engine, "snapshot", counted)

    result = run(opener(version), PARAMETERS, LOAD)

    assert result.violations == ()
    assert result.preemptions > 0
    assert len(result.steps) > 100
    assert looks < 12


@contextmanager
def without_a_ledger(parameters: Parameters, recorder: Recorder) -> Iterator[V1Engine]:
    with opened_v1(a_tree(CURRENT), parameters, recorder) as engine:
        engine.ledger = None
        yield engine


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_is_told_is_what_a_look_at_everything_after_each_step_tells(damage: Damage) -> None:
    def meddle(step: int, engine: Any) -> None:
        if step == 4:
            damage(engine, chance())

    cheap, whole = (
        run(opened, PARAMETERS, LOAD, meddle=meddle)
        for opened in (opener(CURRENT), without_a_ledger)
    )

    assert whole.violations
    assert cheap == whole


def test_classes_are_as_they_were_afterwards() -> None:
    with opened_v1(a_tree(CURRENT), PARAMETERS, Recorder()) as engine:
        block_class = type(engine.pool.blocks[0])
        assert "__setattr__" in vars(block_class)

    assert "__setattr__" not in vars(block_class)
