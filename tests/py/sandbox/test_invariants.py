"""Each rule finds what breaks it, and a sound state breaks none."""

from dataclasses import replace

import pytest

from vllm_forensics.model.sandbox import PoolState, RequestState, Snapshot, ViolationKind
from vllm_forensics.sandbox.invariants import broken_in, broken_in_the_middle, leaks_in

POOL = PoolState(name="gpu", total=6, reserved=(0,), free=(4, 5, 3), references=(0, 1, 2, 0, 0, 0))
REQUESTS = tuple(
    RequestState(
        id=name,
        state="running",
        tokens=20,
        prompt_len=20,
        computed=20,
        pool="gpu",
        tables=(table,),
    )
    for name, table in (("a", (1, 2)), ("b", (2, 2)))
)


def snapshot(pool: PoolState = POOL) -> Snapshot:
    return Snapshot(step=1, pools=(pool,), requests=REQUESTS)


def test_a_sound_state_breaks_no_rule() -> None:
    assert list(broken_in(snapshot())) == []


@pytest.mark.parametrize(
    ("pool", "kind", "block"),
    [
        (replace(POOL, free=(4, 5, 3, 4)), ViolationKind.FREE_LIST, 4),
        (replace(POOL, free=(4, 5, 3, 1)), ViolationKind.FREE_LIST, 1),
        (replace(POOL, free=(4, 5)), ViolationKind.CONSERVATION, 3),
        (replace(POOL, references=(0, 1, 2, 0, 0, -1)), ViolationKind.REFERENCE_COUNT, 5),
        (replace(POOL, references=(0, 1, 1, 0, 0, 0)), ViolationKind.REFERENCE_COUNT, 2),
        (replace(POOL, references=(0, 2, 2, 0, 0, 0)), ViolationKind.REFERENCE_COUNT, 1),
        (replace(POOL, free=(4, 0, 5, 3)), ViolationKind.FREE_LIST, 0),
        (replace(POOL, counted_free=4), ViolationKind.FREE_LIST, None),
        (replace(POOL, misfiled=(2,)), ViolationKind.HASH, 2),
        (
            replace(POOL, occupied=(False, True, True, False, True, False)),
            ViolationKind.OCCUPANCY,
            4,
        ),
    ],
    ids=[
        *("twice free", "free and held", "lost", "negative", "too few", "too many"),
        *("null block free", "miscounted", "misfiled", "noted twice"),
    ],
)
def test_a_broken_rule_names_the_block(
    pool: PoolState, kind: ViolationKind, block: int | None
) -> None:
    found = [(broken[0], broken[3]) for broken in broken_in(snapshot(pool))]

    assert found == [(kind, block)]


def test_a_request_that_lost_its_place_and_kept_its_blocks_is_named() -> None:
    lost = replace(REQUESTS[0], state="preempted", computed=0)

    found = list(broken_in(replace(snapshot(), requests=(lost, REQUESTS[1]))))

    assert [(broken[0], broken[2], broken[3]) for broken in found] == [(ViolationKind.LEAK, "a", 1)]


def test_in_the_middle_of_a_step_blocks_may_be_on_their_way() -> None:
    on_its_way = snapshot(replace(POOL, free=(4, 5)))
    twice = snapshot(replace(POOL, free=(4, 5, 4)))

    assert list(broken_in_the_middle(on_its_way)) == []
    assert [broken[0] for broken in broken_in_the_middle(twice)] == [ViolationKind.FREE_LIST]


def test_the_null_block_has_no_count_that_could_be_wrong() -> None:
    pool = replace(POOL, references=(-50, 1, 2, 0, 0, 0))

    assert list(broken_in(snapshot(pool))) == []


def test_blocks_that_are_held_with_no_request_left_are_a_leak() -> None:
    idle = Snapshot(step=9, pools=(POOL,), requests=())

    (leak,) = leaks_in(idle)

    assert leak[0] is ViolationKind.LEAK
    assert "2 blocks" in leak[1]
    assert leak[3] == 1
