"""A core as somebody keeps it: plain, compressed, in a crash report; and what stands beside it."""

from __future__ import annotations

from vllm_forensics.model.answer import Gap
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.symbols import PlacedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCore:
    """A core that is ready to be read."""

    path: str
    """What the user named."""
    file: str
    """The core itself; in a scratch folder where it had to be expanded."""
    keeper: str | None = None
    """`systemd-coredump`, `apport`, `abrt`, `wsl-capture-crash`; None for a plain file."""
    facts: tuple[tuple[str, str], ...] = ()
    """What the keeper wrote down: executable, command, user, unit, host, time."""
    gap: Gap | None = None
    """What was lost while it was expanded."""
    modules: tuple[PlacedFile, ...] = ()
    """Of a bundle: modules and their debug information, to be found by build-id."""

    def fact(self, name: str) -> str | None:
        """One of the facts."""
        return dict(self.facts).get(name)
