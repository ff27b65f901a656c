"""The tool under test: as its users start it, and within this process, which is faster."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from vllm_forensics.investigate.triage import TriageOptions, group, triage_one
from vllm_forensics.model.report import Crash, Failure, Report
from vllm_forensics.render.clean import clean
from vllm_forensics.render.wire import to_wire

Json = dict[str, Any]
REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = str(Path(sys.executable).parent / "forensics")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How the command ended, and what it said."""

    status: int
    stdout: str
    stderr: str

    @property
    def report(self) -> Json:
        """Standard output as the JSON object that `--format json` promises."""
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value

    @property
    def crash(self) -> Json:
        """The only crash of the report."""
        [crash] = self.report["crashes"]
        assert isinstance(crash, dict)
        return crash

    @property
    def failure(self) -> Json:
        """The only failure of the report."""
        [failure] = self.report["failures"]
        assert isinstance(failure, dict)
        return failure


def forensics(
    *arguments: str | bytes | Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    before: Sequence[str] = (),
    timeout_s: float = 60,
) -> Answer:
    """Run the real command. `before` is a program that starts it; a traceback fails the test."""
    done = subprocess.run(
        (*before, COMMAND, *arguments),
        capture_output=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    answer = Answer(
        status=done.returncode,
        stdout=done.stdout.decode(),
        stderr=done.stderr.decode("utf-8", "backslashreplace"),
    )
    assert "Traceback (most recent call last)" not in answer.stderr, answer.stderr
    return answer


def forensics_core(*arguments: str | bytes | Path, timeout_s: float = 60) -> Answer:
    """Run `forensics core --format json`."""
    return forensics("core", "--format", "json", *arguments, timeout_s=timeout_s)


def triage_in_process(core: Path, options: TriageOptions | None = None) -> Json:
    """The JSON report of one core, made by the same calls as the command's, in this process."""
    result = triage_one(str(core), options or TriageOptions())
    crashes = (result,) if isinstance(result, Crash) else ()
    failures = (result,) if isinstance(result, Failure) else ()
    report = Report(crashes=crashes, groups=group(crashes), failures=failures)
    value = msgspec.to_builtins(to_wire(clean(report)))
    assert isinstance(value, dict)
    return value
