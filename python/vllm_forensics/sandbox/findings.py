"""What was found broken, once for each rule, request and block, with the block's life."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vllm_forensics.model.sandbox import Violation, ViolationKind
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.recorder import Recorder

_SHOWN: Final = 20
"""Violations that are kept with their chains: one fault breaks every later step."""


class Findings:
    """Collects violations; of blocks that are freed twice the recorder tells itself."""

    def __init__(self, recorder: Recorder) -> None:
        """Nothing was found yet."""
        self._recorder = recorder
        self._found: dict[tuple[ViolationKind, str | None, int | None], Violation] = {}
        self.unshown = 0
        """Violations that were one too many to keep."""
        recorder.on_double_free.append(self._double_free)

    def add(
        self,
        kind: ViolationKind,
        message: str,
        request: str | None,
        block: int | None,
        pool: str = GPU,
    ) -> None:
        """Note one; the same of an earlier step is the same violation, that goes on."""
        key = (kind, request, block)
        number = max(self._recorder.step, 0)
        known = self._found.get(key)
        if known is not None:
            self._found[key] = replace(known, times=known.times + 1, last_step=number)
        elif len(self._found) >= _SHOWN:
            self.unshown += 1
        else:
            self._found[key] = Violation(
                step=number, kind=kind, message=message, request=request, block=block, pool=pool
            )

    def _double_free(self, pool: str, block: int, request: str | None) -> None:
        who = "somebody" if request is None else f"request {request}"
        message = f"block {block} was freed for {who}, and nobody held it"
        self.add(ViolationKind.DOUBLE_FREE, message, request, block, pool)

    def any(self) -> bool:
        """Whether anything was found."""
        return bool(self._found)

    def with_chains(self) -> tuple[Violation, ...]:
        """All that was found, each with the end of its block's story."""
        return tuple(
            found
            if found.block is None
            else replace(found, chain=self._recorder.chain(found.pool or GPU, found.block))
            for found in self._found.values()
        )
