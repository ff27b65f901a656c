"""Cache and worker agree with attention over contiguous arrays."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from vllm_forensics._native import (
    AccessPolicy,
    CachePart,
    CacheShape,
    CPUWorker,
    DataType,
    PagedKVCache,
    Policies,
    ReclaimPolicy,
    SequenceStep,
    StepPlan,
)

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    block_size: int
    num_heads: int
    head_size: int
    lengths: tuple[int, ...]


CASES = (
    Case(block_size=1, num_heads=1, head_size=1, lengths=(1,)),
    Case(block_size=4, num_heads=2, head_size=8, lengths=(8,)),
    Case(block_size=4, num_heads=3, head_size=5, lengths=(1, 4, 5, 11)),
    Case(block_size=16, num_heads=4, head_size=64, lengths=(17, 33)),
)
DTYPES = (DataType.float32, DataType.bfloat16)
POLICIES = tuple(
    Policies(reclaim=reclaim, access=access) for reclaim in ReclaimPolicy for access in AccessPolicy
)


def round_to_bfloat16(array: Floats) -> Floats:
    """Nearest, ties to even: by the bits, as the format is defined."""
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)


def as_stored(array: Floats, dtype: DataType) -> Floats:
    return round_to_bfloat16(array) if dtype is DataType.bfloat16 else array


def dense_attention(
    query: Floats, keys: Floats, values: Floats, scale: float
) -> NDArray[np.float64]:
    """[heads, size] over [tokens, heads, size], in double."""
    scores = scale * np.einsum("hd,thd->ht", query.astype(np.float64), keys.astype(np.float64))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    output: NDArray[np.float64] = np.einsum("ht,thd->hd", weights, values.astype(np.float64))
    return output


def normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape).astype(np.float32)


def make_shape(case: Case, dtype: DataType, num_layers: int = 2) -> CacheShape:
    return CacheShape(
        block_size=case.block_size,
        num_layers=num_layers,
        num_heads=case.num_heads,
        head_size=case.head_size,
        dtype=dtype,
    )


def scattered_tables(case: Case, rng: np.random.Generator) -> tuple[int, list[list[int]]]:
    """Blocks for each sequence, drawn in no order, and how many there are in all."""
    needed = [-(-length // case.block_size) for length in case.lengths]
    ids = rng.permutation(sum(needed) + 3)
    cuts = np.cumsum(needed)
    parts = np.split(ids[: cuts[-1]], cuts[:-1])
    return len(ids), [[int(block) for block in part] for part in parts]


@pytest.mark.parametrize("policies", POLICIES, ids=lambda p: f"{p.reclaim.name}-{p.access.name}")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_paged_attention_equals_dense(case: Case, dtype: DataType, policies: Policies) -> None:
    rng = np.random.default_rng(7)
    num_blocks, tables = scattered_tables(case, rng)
    cache = PagedKVCache(num_blocks, make_shape(case, dtype), policies)
    for _ in range(num_blocks):
        cache.allocator.allocate()
    row = (case.num_heads, case.head_size)
    keys = [normal(rng, length, *row) for length in case.lengths]
    values = [normal(rng, length, *row) for length in case.lengths]
    query = normal(rng, len(case.lengths), *row)

    for table, length, key, value in zip(tables, case.lengths, keys, values, strict=True):
        slots = [
            table[token // case.block_size] * case.block_size + token % case.block_size
            for token in range(length)
        ]
        cache.reshape_and_cache(1, key, value, slots)
    output = cache.paged_attention(1, query, tables, case.lengths, 0.25)

    expected = [
        dense_attention(one, as_stored(key, dtype), as_stored(value, dtype), 0.25)
        for one, key, value in zip(query, keys, values, strict=True)
    ]
    assert output.dtype == np.float32
    np.testing.assert_allclose(output, np.stack(expected), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_worker_steps_equal_dense(case: Case, dtype: DataType) -> None:
    """One token a step and sequence, each step compared."""
    rng = np.random.default_rng(11)
    layers, sequences = 3, len(case.lengths)
    num_blocks, tables = scattered_tables(case, rng)
    worker = CPUWorker(make_shape(case, dtype, layers))
    worker.initialize_cache(num_blocks)
    for _ in range(num_blocks):
        worker.device_cache.allocator.allocate()
    steps = min(case.lengths)
    keys = normal(rng, steps, layers, sequences, case.num_heads, case.head_size)
    values = normal(rng, *keys.shape)
    generations = [
        [worker.device_cache.allocator.generation(block) for block in table] for table in tables
    ]

    for step in range(steps):
        query = normal(rng, *keys.shape[1:])
        plan = StepPlan(
            [
                SequenceStep(block_table=table, context_length=step + 1, generations=lives)
                for table, lives in zip(tables, generations, strict=True)
            ]
        )
        output = worker.execute_model(plan, query=query, keys=keys[step], values=values[step])

        for layer, sequence in np.ndindex(layers, sequences):
            expected = dense_attention(
                query[layer, sequence],
                as_stored(keys[: step + 1, layer, sequence], dtype),
                as_stored(values[: step + 1, layer, sequence], dtype),
                case.head_size**-0.5,
            )
            np.testing.assert_allclose(output[layer, sequence], expected, rtol=2e-4, atol=2e-5)
    assert worker.step == steps


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_a_round_trip_through_the_host_changes_nothing(dtype: DataType) -> None:
    rng = np.random.default_rng(3)
    worker = CPUWorker(make_shape(CASES[2], dtype, num_layers=1))
    worker.initialize_cache(3, 2)
    device, host = worker.device_cache, worker.host_cache
    first, second, third = (device.allocator.allocate() for _ in range(3))
    aside = host.allocator.allocate()
    keys = normal(rng, 4, 3, 5)
    device.reshape_and_cache(0, keys, -keys, [first * 4 + token for token in range(4)])

    worker.swap_out([(first, aside)])
    worker.swap_in([(aside, second)])
    worker.copy([(second, third)])

    for block in (first, second, third):
        np.testing.assert_array_equal(
            device.read_block(0, CachePart.key, block), as_stored(keys, dtype)
        )
        np.testing.assert_array_equal(
            device.read_block(0, CachePart.value, block), as_stored(-keys, dtype)
        )


def test_bfloat16_rounds_ties_to_even_and_keeps_what_is_not_finite() -> None:
    shape = CacheShape(
        block_size=1, num_layers=1, num_heads=1, head_size=8, dtype=DataType.bfloat16
    )
    cache = PagedKVCache(1, shape)
    cache.allocator.allocate()
    bits = np.array(
        [
            0x3F808000,
            0x3F818000,
            0x3F808001,
            0x7F7FFFFF,
            0xFF800000,
            0x7F800001,
            0x80000000,
            0x18000,
        ],
        dtype=np.uint32,
    )

    cache.reshape_and_cache(0, bits.view(np.float32).reshape(1, 1, 8), np.zeros((1, 1, 8)), [0])

    stored = cache.read_block(0, CachePart.key, 0).view(np.uint32).ravel() >> 16
    assert [hex(one) for one in stored] == [
        "0x3f80", "0x3f82", "0x3f81", "0x7f80", "0xff80", "0x7fc0", "0x8000", "0x2",
    ]  # fmt: skip


def test_arrays_of_other_types_and_orders_are_converted() -> None:
    cache = PagedKVCache(1, make_shape(CASES[2], DataType.float32, num_layers=1))
    cache.allocator.allocate()
    keys = np.arange(15, dtype=np.int64).reshape(5, 3, 1).T  # [1, 3, 5], column-major

    cache.reshape_and_cache(0, keys, keys.tolist(), np.array([2]).tolist())

    np.testing.assert_array_equal(cache.read_block(0, CachePart.key, 0)[2], keys[0])
    np.testing.assert_array_equal(cache.read_block(0, CachePart.value, 0)[2], keys[0])
