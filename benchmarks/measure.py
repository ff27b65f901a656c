"""What a program takes: processor time of it and all that it waits for, wall time, memory."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Used(NamedTuple):
    """What a command took."""

    cpu_s: float
    """The user's and the system's, of the whole process tree."""
    wall_s: float
    peak_mb: float
    """The largest resident set of one process of the tree."""


def used_by(command: Sequence[str | Path], output: Path | None = None) -> Used:
    """Run a command to its end, whatever its status; standard output to a file, or to nobody."""
    # Installed programs have their byte code cached; where that is forbidden, each run compiles.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began_s = time.monotonic()
    with Path(output or os.devnull).open("wb") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return Used(
        cpu_s=usage.ru_utime + usage.ru_stime,
        wall_s=time.monotonic() - began_s,
        peak_mb=usage.ru_maxrss / 1000,
    )
