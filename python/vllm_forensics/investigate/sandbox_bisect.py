"""The version of vLLM in which a run began to behave otherwise, found with the real schedulers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from vllm_forensics.capture.vllm_releases import versions_between
from vllm_forensics.errors import ForensicsError, UsageError
from vllm_forensics.investigate.sandbox import Wanted, prepared
from vllm_forensics.model.sandbox import Generation, Outcome
from vllm_forensics.model.sandbox_bisect import Bisection, LookAt, Trial
from vllm_forensics.model.sandbox_diff import Difference, Verdict
from vllm_forensics.model.sandbox_recording import Recording
from vllm_forensics.sandbox.bisection import search
from vllm_forensics.sandbox.collector import recorded
from vllm_forensics.sandbox.compare import compare

_SAME_DECISIONS = (Verdict.IDENTICAL, Verdict.SAME_UP_TO_NUMBERING, Verdict.SAME_BUT_ORDER)

_OF_A_STRANGER = ("AttributeError", "NameError", "TypeError")
"""What an engine also raises when it is handed something in another version's form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who is told how far the search is."""

    fetch: Callable[[str], None]
    """What is about to be downloaded."""
    trial: Callable[[str], None]
    """Which version is tried next."""


def bisect(wanted: Wanted, versions: str, look_at: LookAt, *, told: Told) -> Bisection:
    """Search the versions for the one in which the run changed.

    Raises:
        UsageError: the range is none, or not one of its versions can be driven.
        ToolError: the package index cannot be reached.

    """
    if wanted.vllm is not None:
        wanted = replace(wanted, vllm=None)
    names = versions_between(versions)
    trials = _Trials(wanted, look_at, told)
    found = search(names, trials.judge)
    if all(trial.behaviour is None for trial in trials.done.values()):
        first = next(iter(trials.done.values()))
        raise UsageError(
            f"not one of {len(names)} versions can be driven; {first.version}: {first.skipped}",
            remedy="leave options out that only one generation has, such as --best-of",
        )
    difference = None
    if found.before is not None and found.changed_in is not None:
        difference = trials.difference(found.before, found.changed_in)
    return Bisection(
        look_at=look_at,
        versions=names,
        trials=tuple(trials.done.values()),
        before=found.before,
        changed_in=found.changed_in,
        between=found.between,
        difference=difference,
    )


class _Trials:
    """Runs versions, each once; keeps the first one's recording to compare the others with."""

    def __init__(self, wanted: Wanted, look_at: LookAt, told: Told) -> None:
        self.done: dict[str, Trial] = {}
        self._wanted = wanted
        self._look_at = look_at
        self._told = told
        self._first: Recording | None = None

    def judge(self, version: str) -> bool | None:
        """Whether a version behaves otherwise than the first one; None: it cannot be driven."""
        trial = self.done.get(version)
        if trial is None:
            trial = self.done[version] = self._try(version)
        return None if trial.behaviour is None else trial.changed

    def difference(self, before: str, after: str) -> Difference | None:
        """Where the runs of two versions part."""
        found = compare(self._run(before)[0], self._run(after)[0])
        return found.first or found.order

    def _run(self, version: str) -> tuple[Recording, str | None]:
        ready = prepared(replace(self._wanted, vllm=version), on_fetch=self._told.fetch)
        recording, _ = recorded(ready.drive, version)
        return recording, ready.tree.file if ready.tree else None

    def _try(self, version: str) -> Trial:
        self._told.trial(version)
        try:
            recording, file = self._run(version)
        except ForensicsError as error:
            return Trial(version=version, behaviour=None, skipped=error.message)
        self._first = self._first or recording
        return Trial(
            version=version,
            behaviour=behaviour_of(recording),
            changed=self._is_changed(recording),
            file=file,
        )

    def _is_changed(self, recording: Recording) -> bool:
        if self._first is None or self._first is recording:
            return False
        if self._look_at is LookAt.OUTCOME:
            return behaviour_of(recording) != behaviour_of(self._first)
        verdict = compare(self._first, recording).verdict
        # The first engine's order is another one in each run: it is no behaviour.
        chance = Generation.V0 in {self._first.engine, recording.engine}
        if self._look_at is LookAt.DECISIONS or chance:
            return verdict not in _SAME_DECISIONS
        return verdict not in {Verdict.IDENTICAL, Verdict.SAME_UP_TO_NUMBERING}


def behaviour_of(recording: Recording) -> str:
    """How a run ended, without numbers: those may differ among versions that behave alike."""
    rules = ", ".join(recording.findings)
    if recording.outcome is Outcome.RAISED:
        error = (recording.error or "an error").partition(":")[0]
        doubt = " (or the sandbox does not know this version)" if error in _OF_A_STRANGER else ""
        return f"raises {error}{doubt}" + (f"; breaks {rules}" if rules else "")
    if recording.outcome is Outcome.STALLED:
        return "stalls"
    refused = sum(len(step.refused) for step in recording.steps)
    given_up = f"; gives {refused} requests up" if refused else ""
    if recording.outcome is Outcome.VIOLATION:
        return f"raises nothing, and breaks {rules}{given_up}"
    return f"finishes{given_up}"
