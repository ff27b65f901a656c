"""Crashes each minimal demo for real and explains what it left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from vllm_forensics.capture.crash import CrashRun, run_for_core
from vllm_forensics.capture.host import cores_in_working_directory
from vllm_forensics.capture.process import Limits, plain_environment, run_program
from vllm_forensics.diagnosis.conclusion import conclude
from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.sanitizer import AsanOptions, investigate_logs
from vllm_forensics.investigate.triage import TriageOptions, triage_one
from vllm_forensics.model.demo import DemoOutcome
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer import SanitizerAnswer

_SPECIMEN: Final = "csrc/"
_SANITIZER_OPTIONS: Final = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
    "TSAN_OPTIONS": "halt_on_error=1",
}


def list_demos(program: Path) -> list[str]:
    """The names that the demo program knows, as `Suite.Test`."""
    listed = run_program([str(program), "--gtest_list_tests"], limits=Limits(timeout_s=10))
    names, suite = [], ""
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith(" "):
            names.append(suite + line.split("#")[0].strip())
        elif line.rstrip().endswith("."):
            suite = line.strip()
    return names


def choose_demos(known: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The demos that were asked for: whole names, suites, or parts of them, in any case.

    Raises:
        UsageError: a wish that no demo answers.

    """
    if not wanted:
        return list(known)
    chosen: list[str] = []
    for wish in wanted:
        found = [name for name in known if wish.lower() in name.lower()]
        if not found:
            raise UsageError(f"there is no demo {wish}", remedy=f"one of: {', '.join(known)}")
        chosen.extend(found)
    return list(dict.fromkeys(chosen))


def run_demos(
    program: Path, names: Sequence[str], folder: Path, options: TriageOptions
) -> Iterator[DemoOutcome]:
    """Run each demo in a folder of its own below `folder`, where its core stays.

    The machine's core pattern is put back at the end.
    """
    with cores_in_working_directory() as kernel_writes:
        for name in names:
            arguments = [str(program), f"--gtest_filter={name}"]
            run = run_for_core(arguments, folder / name, kernel_writes=kernel_writes)
            yield _outcome(name, run, options)


def add_sanitized(
    outcome: DemoOutcome, programs: Callable[[str], Path], folder: Path
) -> DemoOutcome:
    """Run the same demo under AddressSanitizer; under ThreadSanitizer where that saw nothing.

    `programs` gives the demo program of a preset, building it if need be. The report stays in the
    demo's folder.
    """
    answer: SanitizerAnswer | None = None
    presets = ("asan", "tsan") if outcome.crash is None else ("asan",)
    for preset in presets:
        answer = _sanitize(outcome.name, programs(preset), folder / outcome.name / f"{preset}.log")
        if answer is not None:
            break
    report = answer.logs[0].reports[0] if answer else None
    return replace(outcome, sanitized=answer, conclusion=conclude(outcome.crash, report))


def _sanitize(name: str, program: Path, log: Path) -> SanitizerAnswer | None:
    """The report of one sanitizer run, or None where it had nothing to say."""
    run = run_program(
        [str(program), f"--gtest_filter={name}"],
        limits=Limits(timeout_s=60.0),
        environment=plain_environment(_SANITIZER_OPTIONS),
    )
    log.write_bytes(run.stderr)
    answer = investigate_logs([str(log)], AsanOptions(own=(_SPECIMEN,)))
    return answer if any(found.reports for found in answer.logs) else None


def _outcome(name: str, run: CrashRun, options: TriageOptions) -> DemoOutcome:
    output = (run.completed.stdout + run.completed.stderr).decode("utf-8", "replace")
    if run.core is None:
        return DemoOutcome(name=name, status=run.completed.status, output=output, crash=None)
    result = triage_one(str(run.core), options)
    crash = result if isinstance(result, Crash) else None
    failure = None if crash else result
    return DemoOutcome(
        name=name,
        status=run.completed.status,
        output=output,
        crash=crash,
        failure=failure if not isinstance(failure, Crash) else None,
    )
