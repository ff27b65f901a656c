"""A made-up KV connector: it moves nothing, and vLLM's scheduler deals with it as with a real one.

Of each request the first half of the prompt is loaded from elsewhere while it waits, and what it
computed is sent elsewhere when it ends, before its blocks may be used again. When a transfer is
done is decided by whoever drives the engine.
"""

from __future__ import annotations

from typing import Any, Final

from vllm_forensics.model.sandbox import Transfer, TransferKind

_SENT: Final = "FINISHED_LENGTH_CAPPED"
"""A request that was aborted is not worth sending."""
_NULL: Final = 0
"""The number of vLLM's null block."""


class Connector:
    """The side of a connector that the scheduler talks to; attributes are vLLM's names."""

    supports_divergent_local_hybrid_hits = False
    requires_kv_delivery = False

    def __init__(self, block_size: int) -> None:
        """Nothing is on its way."""
        self._block_size = block_size
        self._begun: list[Transfer] = []
        self._local: dict[str, int] = {}
        """By request: tokens that were found in the engine's own cache."""
        self._asked: set[str] = set()
        """Requests whose load has begun: what is preempted later computes for itself."""

    def taken(self) -> tuple[Transfer, ...]:
        """What has begun since the last call."""
        begun, self._begun = tuple(self._begun), []
        return begun

    def get_num_new_matched_tokens(self, request: Any, computed: int) -> tuple[int, bool]:
        """How many tokens can be loaded beyond those that are there, and that it takes time."""
        wanted = request.num_prompt_tokens // 2 // self._block_size * self._block_size
        if request.request_id in self._asked or wanted <= computed:
            return 0, False
        self._local[request.request_id] = computed
        return wanted - computed, True

    def update_state_after_alloc(self, request: Any, blocks: Any, external: int) -> None:
        """Begin the load into the blocks that the request was given for it."""
        if external:
            name = request.request_id
            first = self._local[name] // self._block_size
            wanted = blocks.get_block_ids()[0][first : first + external // self._block_size]
            self._asked.add(name)
            self._begin(TransferKind.LOAD, name, wanted, first)

    def _begin(self, kind: TransferKind, request: str, table: list[int], first: int) -> None:
        """What lies before the window has no block: null blocks stand there."""
        blocks = tuple(block for block in table if block != _NULL)
        first += len(table) - len(blocks)
        self._begun.append(Transfer(kind=kind, request=request, blocks=blocks, first=first))

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        """Begin to send; whether the blocks must wait for that."""
        if request.status.name != _SENT or not block_ids:
            return False, None
        self._begin(TransferKind.SEND, request.request_id, block_ids, 0)
        return True, None

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:
        """All layers are loaded."""
        del request
        return (0,)

    def bind_kv_cache_manager(self, manager: Any) -> None:
        """Nothing is asked of it."""

    def bind_gpu_block_pool(self, pool: Any) -> None:
        """Nothing is asked of it (0.26)."""

    def on_new_request(self, request: Any) -> None:
        """Nothing is to be done before it is scheduled."""

    def build_connector_meta(self, output: Any) -> None:
        """The worker is told by us."""

    def update_connector_output(self, output: Any) -> None:
        """Who drives the engine knows what is done."""

    def get_kv_connector_stats(self) -> None:
        """None are kept."""

    def take_events(self) -> tuple[()]:
        """None are kept."""
        return ()

    def has_pending_block_frees(self) -> bool:
        """All frees are the scheduler's."""
        return False

    def has_pending_push_work(self) -> bool:
        """The scheduler itself keeps what waits to be sent."""
        return False
