"""A run as a test file for pytest: it fails while the run is not healthy, and guards it later."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any, Final

from vllm_forensics.model.sandbox import Outcome, Parameters, RequestSpec, SandboxRun
from vllm_forensics.model.sandbox_explore import Exploration

_TEMPLATE: Final = '''"""{title}

Written by `forensics sandbox run --emit-test`. FORENSICS_VLLM names another vLLM to try it on: a
path or a version.
"""

import os

from vllm_forensics.investigate.sandbox import Wanted, run_sandbox
from vllm_forensics.model.sandbox import {names}

VLLM = os.environ.get("FORENSICS_VLLM", {vllm!r}) or None
PARAMETERS = Parameters({parameters})
REQUESTS = (
{requests}
)


def test_the_run_finishes_and_breaks_no_rule() -> None:
    wanted = Wanted(vllm=VLLM, parameters=PARAMETERS, given=REQUESTS, compare=False)

    result = run_sandbox(wanted, on_fetch=lambda what: None)

    assert result.error is None, result.error
    assert [violation.message for violation in result.violations] == []
    assert result.outcome is Outcome.FINISHED, result.why
    assert result.refused == ()
'''


_SEQUENCE: Final = '''"""{title}

Written by `forensics sandbox explore --emit-test`. FORENSICS_VLLM names another vLLM to try it on:
a path or a version. What an order cannot have on that one is passed over.
"""

import os

from vllm_forensics.investigate.sandbox_explore import play_sequence
from vllm_forensics.model.sandbox import {names}

VLLM = os.environ.get("FORENSICS_VLLM", {vllm!r}) or None
PARAMETERS = Parameters({parameters})
REQUESTS = (
{requests}
)
SEQUENCE = (
{sequence}
)


def test_this_order_breaks_no_rule() -> None:
    result = play_sequence(VLLM, PARAMETERS, REQUESTS, SEQUENCE)

    assert result.error is None, result.error
    assert [violation.message for violation in result.violations] == []
'''


def render_sequence_test(found: Exploration, vllm: str | None) -> str:
    """The file's text for what an exploration found. Strings must have been cleaned."""
    which = f"vLLM {found.tree.version}" if found.tree else "The reference engine"
    broken = found.error or found.violations[0].message
    return _filled(
        _SEQUENCE,
        found.parameters,
        found.load,
        title=_quoted(f"{which} breaks in this order: {broken}"),
        vllm=vllm or "",
        sequence="\n".join(f"    {str(step.action)!r}," for step in found.sequence),
    )


def _filled(
    template: str, parameters: Parameters, load: tuple[RequestSpec, ...], **more: str
) -> str:
    given = _arguments(parameters)
    enums = [name for name in ("CheckWhen", "Plant", "Policy") if f"={name}." in given]
    always = ["Parameters", "RequestSpec"] + ["Outcome"] * ("Outcome." in template)
    return template.format(
        names=", ".join(sorted([*enums, *always])),
        parameters=given,
        requests="\n".join(f"    RequestSpec({_arguments(spec)})," for spec in load),
        **more,
    )


def render_test_file(run: SandboxRun, vllm: str | None) -> str:
    """The file's text; `vllm` is what was given as `--vllm`. Strings must have been cleaned."""
    return _filled(_TEMPLATE, run.parameters, run.load, title=_title(run), vllm=vllm or "")


def _title(run: SandboxRun) -> str:
    which = f"vLLM {run.tree.version}" if run.tree else "The reference engine"
    ends = {
        Outcome.FINISHED: f"{which} finishes this run.",
        Outcome.RAISED: f"{which} dies in this run at step {len(run.steps)}: {run.error}",
        Outcome.STALLED: f"{which} stalls in this run: {run.why}.",
        Outcome.VIOLATION: f"{which} breaks a rule in this run without an error.",
    }
    return _quoted(ends[run.outcome])


def _quoted(text: str) -> str:
    """For a docstring."""
    return text.replace("\\", "/").replace('"', "'")


def _arguments(value: Parameters | RequestSpec) -> str:
    """Those that are not the usual ones."""
    given: list[str] = []
    for field in fields(value):
        found: Any = getattr(value, field.name)
        if found == field.default:
            continue
        text = f"{type(found).__name__}.{found.name}" if isinstance(found, Enum) else repr(found)
        given.append(f"{field.name}={text}")
    return ", ".join(given)
