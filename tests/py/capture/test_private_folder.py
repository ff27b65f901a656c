"""A private folder is gone after its block, whatever ended it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_forensics.capture.private_folder import private_folder

_WAITS = """
import signal
from vllm_forensics.capture.private_folder import private_folder
with private_folder("forensics-test-") as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _WAITS],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert folder.is_dir()
        child.send_signal(number)
        status = child.wait(timeout=60)

    assert list(tmp_path.iterdir()) == []
    assert status in {128 + number, -number}


def test_only_its_user_can_enter_it() -> None:
    with private_folder("forensics-test-") as folder:
        mode = folder.stat().st_mode & 0o777

    assert mode == 0o700
    assert not folder.exists()


def test_the_handlers_before_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    with private_folder("forensics-test-"):
        pass

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_an_error_inside_removes_it_and_goes_on() -> None:
    with pytest.raises(ZeroDivisionError), private_folder("forensics-test-") as folder:
        raise ZeroDivisionError

    assert not folder.exists()
