"""A run as a test file for pytest: it fails while the run is not healthy, and guards it later."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any, Final

from vllm_forensics.model.sandbox import Outcome, Parameters, RequestSpec, SandboxRun

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


def render_test_file(run: SandboxRun, vllm: str | None) -> str:
    """The file's text; `vllm` is what was given as `--vllm`. Strings must have been cleaned."""
    parameters = _arguments(run.parameters)
    enums = [name for name in ("CheckWhen", "Plant", "Policy") if f"={name}." in parameters]
    requests = "\n".join(f"    RequestSpec({_arguments(spec)})," for spec in run.load)
    return _TEMPLATE.format(
        title=_title(run),
        vllm=vllm or "",
        names=", ".join(sorted([*enums, "Outcome", "Parameters", "RequestSpec"])),
        parameters=parameters,
        requests=requests,
    )


def _title(run: SandboxRun) -> str:
    which = f"vLLM {run.tree.version}" if run.tree else "The reference engine"
    ends = {
        Outcome.FINISHED: f"{which} finishes this run.",
        Outcome.RAISED: f"{which} dies in this run at step {len(run.steps)}: {run.error}",
        Outcome.STALLED: f"{which} stalls in this run: {run.why}.",
        Outcome.VIOLATION: f"{which} breaks a rule in this run without an error.",
    }
    return ends[run.outcome].replace("\\", "/").replace('"', "'")


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
