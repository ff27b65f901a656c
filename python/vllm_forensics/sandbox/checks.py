"""When the invariants are looked at, and at how much of the state: at what changed, or at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vllm_forensics.model.sandbox import CheckWhen, Parameters
from vllm_forensics.sandbox.engine.interface import Engine
from vllm_forensics.sandbox.findings import Findings
from vllm_forensics.sandbox.invariants import Broken, broken_in, broken_in_the_middle, leaks_in

_WHOLE_EVERY: Final = 100
"""Steps. A ledger sees all that a block's class sees; this is for what it cannot see."""


class Checks:
    """The checks of one run. Where an engine keeps a ledger, most steps cost what they touched."""

    def __init__(self, engine: Engine, findings: Findings, parameters: Parameters) -> None:
        """Nothing was looked at."""
        self._engine = engine
        self._findings = findings
        self._when = parameters.check
        self._every = parameters.check_every
        self._steps = 0
        """Since all was looked at."""
        self._last: int | None = None
        """The last step that was looked at."""

    def due(self, number: int) -> bool:
        """Whether this step is looked at."""
        if self._when is CheckWhen.EVERY:
            return number % self._every == 0
        return self._when is CheckWhen.EACH

    def step(self) -> None:
        """Look at what a step changed; at all where that does not prove that all is well."""
        ledger = self._engine.ledger
        self._steps += 1
        if ledger is None or not ledger.still_sound() or self._steps >= _WHOLE_EVERY:
            self.whole()

    def whole(self) -> None:
        """Look at everything now."""
        snapshot = self._engine.snapshot()
        broken = tuple(broken_in(snapshot))
        self._add(broken)
        self._steps, self._last = 0, snapshot.step
        ledger = self._engine.ledger
        if ledger is not None:
            ledger.begin(sound=not broken)

    def at_end(self) -> None:
        """Look at everything unless that was just done."""
        if self._last != self._engine.snapshot().step:
            self.whole()

    def after_error(self) -> None:
        """Look at what holds in the middle of a step too."""
        self._add(broken_in_the_middle(self._engine.snapshot()))

    def leaks(self) -> None:
        """Look for blocks that nobody will ever give back."""
        self._add(leaks_in(self._engine.snapshot()))

    def _add(self, broken: Iterable[Broken]) -> None:
        for kind, message, request, block, pool in broken:
            self._findings.add(kind, message, request, block, pool)
