"""A recorded run fed to an engine again: to the same one, or to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.investigate.sandbox import Wanted
from vllm_forensics.investigate.sandbox_diff import Scenario, compare_scenarios
from vllm_forensics.model.sandbox import Generation, Parameters, VllmTree
from vllm_forensics.model.sandbox_diff import SandboxDiff
from vllm_forensics.model.sandbox_recording import Recording

_LACKS: Final = {
    Generation.V1: ("cpu_blocks", "best_of"),
    Generation.V0: ("policy", "async_scheduling", "spec_tokens", "hybrid", "connector"),
    Generation.REFERENCE: (
        *("best_of", "sliding_window", "async_scheduling", "spec_tokens", "hybrid", "connector"),
    ),
}
"""What an engine of this design does not have."""


def replay(recording: Recording, wanted: Wanted, *, on_fetch: Callable[[str], None]) -> SandboxDiff:
    """Drive the recorded load, and tell the first step that parts from the recording.

    Raises:
        UsageError: the engine cannot be driven so.
        ToolError: the vLLM could not be fetched.
        UnmodelledError: the vLLM asked for something that the sandbox does not stand in for.

    """
    tree = None if wanted.vllm is None else find_tree(wanted.vllm, on_fetch=on_fetch)
    generation = Generation.REFERENCE if tree is None else tree.generation
    dropped = tuple(_dropped(recording.parameters, wanted.parameters, generation))
    usual = Parameters()
    fitted = {name: getattr(usual, name) for name in dropped}
    notes = tuple(
        f"{name.replace('_', ' ')} {getattr(wanted.parameters, name)} is left out: this engine has "
        "no such thing"
        for name in dropped
    )
    if tree is not None and _is_another(recording, tree):
        notes += (f"recorded with {recording.file}; to drive the same files give --vllm PATH",)
    found = compare_scenarios(
        Scenario(name=recording.name, recording=recording),
        Scenario(
            name="the replay",
            wanted=replace(wanted, parameters=replace(wanted.parameters, **fitted)),
        ),
        on_fetch=on_fetch,
    )
    replayed = replace(found.right.recording, assumed=(*found.right.recording.assumed, *notes))
    return replace(found, right=replace(found.right, recording=replayed))


def _is_another(recording: Recording, tree: VllmTree) -> bool:
    """Whether a version stands for files that may be somebody's own: a checkout, a wheel.

    A path in a recording is never followed: its files would be executed.
    """
    of_release = f"vllm-forensics/vllm/{recording.version}/"
    return (
        recording.file is not None
        and of_release not in recording.file
        and recording.file != tree.file
        and recording.version == tree.version
    )


def _dropped(
    recorded: Parameters | None, wanted: Parameters, generation: Generation
) -> Iterator[str]:
    """What was recorded of another design; what the user asks for now is never dropped."""
    usual = Parameters()
    for name in _LACKS.get(generation, ()):
        value = getattr(wanted, name)
        was_recorded = recorded is not None and value == getattr(recorded, name)
        if was_recorded and value != getattr(usual, name):
            yield name
