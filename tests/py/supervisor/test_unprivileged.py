"""Where no core could ever be: another user, the limit 0, a pattern whose pipe drops everything."""

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.py.integration.victim_cases import CORE_PATTERN, core_pattern_locked
from tests.py.supervisor.support import Supervisor

pytestmark = pytest.mark.root

AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")


@pytest.fixture
def dropping_pattern() -> Iterator[None]:
    """A core pattern that drops everything, while no other test needs the machine's."""
    with core_pattern_locked(fcntl.LOCK_EX):
        before = CORE_PATTERN.read_text()
        try:
            CORE_PATTERN.write_text("|/bin/false")
        except OSError as error:  # /proc/sys is read-only in most containers
            pytest.skip(f"the core pattern cannot be changed here: {error.strerror}")
        try:
            yield
        finally:
            CORE_PATTERN.write_text(before)


@pytest.mark.usefixtures("dropping_pattern")
@pytest.mark.parametrize("where", ["0", "2", "4"])
def test_the_minicore_appears(
    executable: Path, victim: Path, tmp_path_factory: pytest.TempPathFactory, where: str
) -> None:
    folder = Path("/tmp") / f"supervisor-nobody-{os.getpid()}-{where}"  # noqa: S108 others' folders are closed
    folder.mkdir()
    try:
        shutil.copy(executable, folder / "supervisor")
        shutil.copy(victim, folder / "victim")
        (folder / "cores").mkdir()
        for path in (folder, folder / "cores"):
            os.chown(path, 65534, 65534)
        supervisor = Supervisor(
            executable=folder / "supervisor",
            folder=folder,
            before=("prlimit", "--core=0:0", *AS_NOBODY),
        )

        ended = supervisor.run(folder / "victim", "tree", where)

        assert ended.status == 128 + signal.SIGSEGV
        assert ended.core.signal == (signal.SIGSEGV, 1, 0)
        assert ended.core.path.stat().st_uid == 65534
    finally:
        subprocess.run(("rm", "-rf", folder), check=True)
