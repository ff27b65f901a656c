"""A vLLM that is broken on purpose, one line at a time: each run must name what broke.

The patches are made in a copy of vLLM's own block pool, managers and scheduler.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.py.cli.test_main import forensics
from tests.py.support.vllm_trees import CURRENT, a_tree, patched

from vllm_forensics.model.sandbox import ViolationKind

pytestmark = pytest.mark.xdist_group("vllm-trees")
LOAD = "\n".join(
    json.dumps(
        {
            "id": str(n),
            "arrival": n * 3,
            "prompt": 100 + n * 7,
            "output": 60,
            "prefix": 64,
            "abort_after": n * 3 + 20 if n % 5 == 4 else None,
        }
    )
    for n in range(14)
)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`old` becomes `new` in a file of `vllm/v1/core`; the run must name `kind` first of all."""

    file: str
    old: str
    new: str
    kind: ViolationKind
    options: tuple[str, ...] = ("--gpu-blocks", "40")


POOL = "block_pool.py"
QUEUE = "kv_cache_utils.py"
MANAGER = "single_type_kv_cache_manager.py"
SCHEDULER = "sched/scheduler.py"
MUTANTS = {
    "a freed block keeps its count": Mutant(
        file=POOL,
        old="                continue\n            block.ref_cnt -= 1\n",
        new="                continue\n",
        kind=ViolationKind.REFERENCE_COUNT,
    ),
    "freed blocks are forgotten": Mutant(
        file=POOL,
        old="self.free_block_queue.append_n(blocks_to_evict_last)",
        new="pass",
        kind=ViolationKind.CONSERVATION,
    ),
    "a freed block is put into the free list twice": Mutant(
        file=POOL,
        old="self.free_block_queue.append_n(blocks_to_evict_last)",
        new="self.free_block_queue.append_n(blocks_to_evict_last * 2)",
        kind=ViolationKind.FREE_LIST,
    ),
    "a block that is found in the cache stays in the free list": Mutant(
        file=POOL,
        old="                self.free_block_queue.remove(block)\n            block.ref_cnt += 1",
        new="                pass\n            block.ref_cnt += 1",
        kind=ViolationKind.FREE_LIST,
        options=("--gpu-blocks", "100"),
    ),
    "a block that is found in the cache is not counted": Mutant(
        file=POOL,
        old="                self.free_block_queue.remove(block)\n            block.ref_cnt += 1",
        new="                self.free_block_queue.remove(block)",
        kind=ViolationKind.REFERENCE_COUNT,
    ),
    "the null block is handed out": Mutant(
        file=POOL,
        old="if block.ref_cnt == 0 and not block.is_null:\n                if block.block_hash",
        new="if block.ref_cnt <= 0:\n                if block.block_hash",
        kind=ViolationKind.FREE_LIST,
        options=("--gpu-blocks", "60", "--sliding-window", "40"),
    ),
    "the free list is longer than it counts": Mutant(
        file=QUEUE,
        old="first_block.prev_free_block = prev_block\n\n        self.num_free_blocks += "
        "len(blocks)",
        new="first_block.prev_free_block = prev_block\n",
        kind=ViolationKind.FREE_LIST,
    ),
    "the table is a block short of its tokens": Mutant(
        file=MANAGER,
        old="num_new_blocks = num_required_blocks - len(req_blocks)",
        new="num_new_blocks = num_tokens // self.block_size - len(req_blocks)",
        kind=ViolationKind.SHORT_TABLE,
    ),
    "an evicted block is still found": Mutant(
        file=POOL,
        old="for block in ret:\n                self._maybe_evict_cached_block(block)\n",
        new="for block in ret:\n                block.reset_hash()\n",
        kind=ViolationKind.HASH,
    ),
    "nothing is ever evicted": Mutant(
        file=POOL,
        old="for block in ret:\n                self._maybe_evict_cached_block(block)\n",
        new="for block in ret:\n",
        kind=ViolationKind.WRONG_CONTENT,
    ),
    "an evicted block keeps its hash": Mutant(
        file=POOL,
        old="                removed_hashes.append(block_hash)\n        block.reset_hash()\n",
        new="                removed_hashes.append(block_hash)\n",
        kind=ViolationKind.HASH,
    ),
    "a block is offered to the cache under the hash of another": Mutant(
        file=POOL,
        old="            block_hash = new_block_hashes[i]\n            num_hash_tokens",
        new="            block_hash = block_hashes[i]\n            num_hash_tokens",
        kind=ViolationKind.WRONG_CONTENT,
    ),
    "a block inside of the window is given back": Mutant(
        file=MANAGER,
        old="num_computed_tokens - self.sliding_window + 1 - self.extra_retained_tokens",
        new="num_computed_tokens - self.sliding_window + 17",
        kind=ViolationKind.USE_AFTER_FREE,
        options=("--gpu-blocks", "60", "--sliding-window", "40"),
    ),
    "a preempted request keeps its blocks": Mutant(
        file=SCHEDULER,
        old="        self._free_request_blocks(request)\n        self.encoder_cache_manager.free",
        new="        self.encoder_cache_manager.free",
        kind=ViolationKind.LEAK,
    ),
    "a finished request keeps its blocks": Mutant(
        file=SCHEDULER,
        old="            self.kv_cache_manager.free(request)\n            return",
        new="            self.kv_cache_manager.pop_blocks_for_free(request)\n            return",
        kind=ViolationKind.REFERENCE_COUNT,
    ),
    "the worker is told a block less": Mutant(
        file="kv_cache_manager.py",
        old="return tuple([blk.block_id for blk in group] for group in groups)",
        new="return tuple([blk.block_id for blk in group][:9] for group in groups)",
        kind=ViolationKind.SHORT_TABLE,
    ),
    "the worker is told the block beyond": Mutant(
        file="kv_cache_manager.py",
        old="return tuple([blk.block_id for blk in group] for group in groups)",
        new="return tuple([blk.block_id + 1 for blk in group] for group in groups)",
        kind=ViolationKind.TABLE_MISMATCH,
    ),
    "a running request is freed instead of the one that ended": Mutant(
        file=SCHEDULER,
        old="            self.kv_cache_manager.free(request)\n            return",
        new="            self.kv_cache_manager.free(self.running[0])\n            return",
        kind=ViolationKind.USE_AFTER_FREE,
    ),
}


def answer(tree: Path, folder: Path, *options: str) -> dict[str, Any]:
    load = folder / "load.jsonl"
    load.write_text(LOAD, encoding="utf-8")
    ended = forensics(
        *("sandbox", "run", "--vllm", str(tree), "--load", str(load)),
        *("--no-compare", "--format", "json", *options),
    )
    found: dict[str, Any] = json.loads(ended.out)
    assert ended.status == (0 if found["outcome"] == "finished" else 1)
    return found


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_line_of_vllm_is_named_by_the_rule_that_it_breaks(
    name: str, tmp_path: Path
) -> None:
    mutant = MUTANTS[name]

    tree = patched(tmp_path, mutant.file, mutant.old, mutant.new)
    found = answer(tree, tmp_path, *mutant.options)

    assert found["outcome"] != "finished"
    first = found["violations"][0]["step"] if found["violations"] else None
    named = {v["kind"] for v in found["violations"] if v["step"] == first}
    assert mutant.kind in named, (found["outcome"], found["error"], found["why"])


@pytest.mark.parametrize("options", sorted({mutant.options for mutant in MUTANTS.values()}))
def test_without_the_patch_the_same_run_breaks_no_rule(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    found = answer(Path(a_tree(CURRENT).root), tmp_path, *options)

    assert found["violations"] == []
    assert found["outcome"] == "finished"
