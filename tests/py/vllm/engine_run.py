"""Runs an engine to its end: all of its processes, where it takes too long."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

LONGEST_S = 1800.0
"""Of a start that takes half a minute alone: on a busy machine it takes ten."""


def run_engine(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    output: IO[bytes] | int = subprocess.PIPE,
    errors: IO[bytes] | int = subprocess.PIPE,
) -> "subprocess.CompletedProcess[str]":
    """Run it in a session of its own, with these variables beside this process's.

    Raises:
        subprocess.TimeoutExpired: it took too long. Its workers were ended with it: they would go
            on, and take the time of whoever runs next.

    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=LONGEST_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
