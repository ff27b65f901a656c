"""What a test needs of the kernel to change what only itself sees."""

import subprocess
from functools import cache

import pytest


def need_own_mounts() -> None:
    """Skip where no mount namespace may be made: it takes root, and many containers forbid it."""
    if not _can_unshare():
        pytest.skip("no mount namespace may be made here")


@cache
def _can_unshare() -> bool:
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
