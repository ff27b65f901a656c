"""What the integration tests share: built victims, and the real command."""

import fcntl
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.py.integration.tool import REPOSITORY
from tests.py.integration.victim_cases import Binaries, Flavour, build_victims

BUILDS = REPOSITORY / "build" / "victims"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot do."""
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        pytest.skip("needs root")
    if item.get_closest_marker("gdb") is not None and shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")


@pytest.fixture(scope="session")
def victims() -> Callable[[Flavour], Binaries]:
    """Build a flavour where that is not done yet; one worker builds while the others wait."""

    @cache
    def build(flavour: Flavour) -> Binaries:
        BUILDS.mkdir(parents=True, exist_ok=True)
        with (BUILDS / f"{flavour}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return build_victims(BUILDS, flavour)

    return build


@pytest.fixture
def crash_folder(tmp_path: Path) -> Path:
    """A new folder for one crash; it is the crashing process's working directory."""
    return tmp_path / "crash"
