"""What a program takes: processor time of it and all that it waits for, wall time, memory."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# A process counts as its own what the process had that it was forked from, so a small one starts
# what is measured.
_SMALL = """
import os, sys, time
began_s = time.monotonic()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, _, used = os.wait4(child, 0)
took_s = time.monotonic() - began_s
said = f"{used.ru_utime + used.ru_stime} {took_s} {used.ru_maxrss / 1000}"
os.write(int(sys.argv[1]), said.encode())
"""


class Used(NamedTuple):
    """What a command took."""

    cpu_s: float
    """The user's and the system's, of the whole process tree."""
    wall_s: float
    peak_mb: float
    """The largest resident set of one process of the tree."""


def used_by(command: Sequence[str | Path], output: Path | None = None) -> Used:
    """Run a command to its end, whatever its status; standard output to a file, or to nobody."""
    reads, writes = os.pipe()
    with open(reads) as said, Path(output or os.devnull).open("wb") as out:  # noqa: PTH123
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SMALL, str(writes), *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
            pass_fds=(writes,),
            check=True,
        )
        os.close(writes)
        return Used(*map(float, said.read().split()))
