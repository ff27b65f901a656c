"""Can a crash here leave evidence? Reads the machine, judges it, proves it with a real crash."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from vllm_forensics.capture.crash import find_new_cores
from vllm_forensics.capture.machine import core_folder_of, read_machine
from vllm_forensics.capture.process import Limits, run_program
from vllm_forensics.capture.sanitizer_machine import read_sanitizers
from vllm_forensics.capture.supervisor import CoreContents, run_supervised
from vllm_forensics.diagnosis.machine import judge
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.model.machine import CaptureProof, Checkup, MachineFacts

_CRASH: Final = "import ctypes; ctypes.string_at(0x48)"
_NO_CORE: Final = ("/bin/sh", "-c", 'ulimit -c 0; exec "$@"', "sh")


def examine(folder: Path) -> Checkup:
    """Check the machine for programs that run in `folder`. The proof's own core is removed."""
    facts = replace(read_machine(folder), sanitizers=read_sanitizers(os.environ))
    return Checkup(
        checks=judge(facts), proof=prove_capture(facts), supervised=prove_supervised_capture()
    )


def prove_capture(facts: MachineFacts) -> CaptureProof:
    """Crash a child of ours as the kernel would see any program, and look for its core.

    Where none is left and the limit may be lifted, a second child shows whether that was all.
    """
    proof = _crash_once(facts, lift_limit=False)
    if proof.captured or facts.core_limit_soft == -1 or facts.core_limit_hard == 0:
        return proof
    lifted = _crash_once(facts, lift_limit=True)
    if not lifted.captured:
        return proof
    return replace(proof, how=f"{proof.how}; with the limit lifted (ulimit -c unlimited) it does")


def prove_supervised_capture() -> CaptureProof:
    """Crash a child under the supervisor, without any help of the kernel's."""
    with tempfile.TemporaryDirectory(prefix="forensics-doctor-") as scratch:
        try:
            result = run_supervised(
                [*_NO_CORE, sys.executable, "-I", "-c", _CRASH], Path(scratch), CoreContents()
            )
        except ToolError as error:
            return CaptureProof(captured=False, how=error.message)
        seen = parse_supervisor_log(result.events)
        if not seen.cores:
            why = seen.errors[0] if seen.errors else f"a child ended with status {result.status}"
            return CaptureProof(captured=False, how=why)
        core = Path(seen.cores[0])
        return CaptureProof(
            captured=True,
            how="a child died of SIGSEGV and left a core, with a limit of 0",
            core=core.name,
            core_bytes=core.stat().st_size,
        )


def _crash_once(facts: MachineFacts, *, lift_limit: bool) -> CaptureProof:
    with tempfile.TemporaryDirectory(prefix="forensics-doctor-") as scratch:
        folder = core_folder_of(facts.core_pattern, Path(scratch))
        limits = Limits(timeout_s=20.0, core_bytes=-1 if lift_limit else None)
        command = [sys.executable, "-I", "-c", _CRASH]
        try:
            done = run_program(command, limits=limits, cwd=Path(scratch))
        except ToolError as error:
            return CaptureProof(captured=False, how=error.message)
        if done.status != -signal.SIGSEGV:
            return CaptureProof(
                captured=False, how=f"the child ended with status {done.status}, not with SIGSEGV"
            )
        if folder is None:
            return CaptureProof(captured=False, how="a child's core went to the pipe's program")
        found = find_new_cores(folder, done.pid)
        if not found:
            return CaptureProof(captured=False, how="a child died of SIGSEGV and left no core")
        size = found[0].stat().st_size
        shown = found[0].name if folder == Path(scratch) else str(found[0])
        for path in found:
            path.unlink()
        return CaptureProof(
            captured=True,
            how="a child died of SIGSEGV and left a core",
            core=shown,
            core_bytes=size,
        )
