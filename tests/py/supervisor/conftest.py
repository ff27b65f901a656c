"""The supervisor, and the program that dies under it."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.py.supervisor.support import Supervisor

REPOSITORY = Path(__file__).parents[3]
BUILD = REPOSITORY / "build" / "supervisor-tests"
VICTIM = Path(__file__).parent / "victims" / "victim.c"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot do."""
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        pytest.skip("needs root")
    if item.get_closest_marker("gdb") is not None and shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def executable() -> Path:
    """Build it where that is not done yet, or take FORENSICS_SUPERVISOR."""
    given = os.environ.get("FORENSICS_SUPERVISOR")
    if given:
        return Path(given)
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tree = ("-S", REPOSITORY, "-B", BUILD, "-G", "Ninja")
        only = ("-DFORENSICS_BUILD_TESTS=OFF", "-DFORENSICS_BUILD_DEMOS=OFF")
        _run("cmake", *tree, *only, "-DFORENSICS_WERROR=ON")
        _run("cmake", "--build", BUILD, "--target", "forensics-supervisor")
    return BUILD / "forensics-supervisor"


@pytest.fixture
def supervisor(executable: Path, tmp_path: Path) -> Supervisor:
    """A supervisor whose cores and events lie in a folder of this test."""
    (tmp_path / "cores").mkdir()
    return Supervisor(executable=executable, folder=tmp_path)


@pytest.fixture(scope="session")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that dies, built with debug information."""
    target = tmp_path_factory.mktemp("victim") / "victim"
    _run("cc", "-g", "-O1", "-pthread", "-fno-optimize-sibling-calls", VICTIM, "-o", target)
    return target
