"""The core pattern is changed for a while and put back, whatever happens."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vllm_forensics.capture import host
from vllm_forensics.capture.host import (
    CoreSettings,
    cores_in_working_directory,
    read_core_settings,
)

PIPE = "|/usr/lib/systemd/systemd-coredump %P"


@pytest.fixture
def pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of the kernel's."""
    path = tmp_path / "core_pattern"
    path.write_text(f"{PIPE}\n", encoding="utf-8")
    monkeypatch.setattr(host, "CORE_PATTERN", path)
    return path


@pytest.mark.parametrize(
    ("text", "lands"),
    [("core", True), ("core.%p", True), (PIPE, False), ("/var/cores/%p", False), ("", False)],
)
def test_only_a_relative_pattern_lands_in_the_folder(text: str, lands: bool) -> None:
    assert CoreSettings(pattern=text, hard_limit=-1).lands_in_folder is lands


def test_it_is_changed_inside_and_put_back(pattern: Path) -> None:
    with cores_in_working_directory():
        inside = pattern.read_text(encoding="utf-8")

    assert (inside, pattern.read_text(encoding="utf-8")) == ("core.%p", PIPE)


def test_it_is_put_back_after_an_exception(pattern: Path) -> None:
    with pytest.raises(KeyboardInterrupt), cores_in_working_directory():
        raise KeyboardInterrupt

    assert pattern.read_text(encoding="utf-8") == PIPE


def test_a_pattern_that_will_do_is_left_alone(pattern: Path) -> None:
    pattern.write_text("core\n", encoding="utf-8")

    with cores_in_working_directory():
        inside = pattern.read_text(encoding="utf-8")

    assert inside == "core\n"


def test_a_pattern_that_somebody_set_meanwhile_is_left_alone(pattern: Path) -> None:
    with cores_in_working_directory():
        pattern.write_text("/theirs/%p", encoding="utf-8")

    assert pattern.read_text(encoding="utf-8") == "/theirs/%p"


def test_where_it_cannot_be_changed_the_answer_is_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "CORE_PATTERN", tmp_path / "no" / "core_pattern")

    with cores_in_working_directory() as ready:
        assert not ready
    assert read_core_settings().pattern == ""


def test_handlers_are_the_old_ones_again(pattern: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    with cores_in_working_directory():
        inside = signal.getsignal(signal.SIGTERM)

    assert inside is not before
    assert signal.getsignal(signal.SIGTERM) is before
    assert pattern.exists()


def test_in_another_thread_no_handler_is_touched(pattern: Path) -> None:
    seen: list[object] = []

    def work() -> None:
        with cores_in_working_directory():
            seen.append(pattern.read_text(encoding="utf-8"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert seen == ["core.%p"]
    assert pattern.read_text(encoding="utf-8") == PIPE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_ending_signal_puts_it_back(pattern: Path, number: signal.Signals) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from vllm_forensics.capture import host\n"
        "host.CORE_PATTERN = Path(sys.argv[1])\n"
        "with host.cores_in_working_directory():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )

    with subprocess.Popen(
        [sys.executable, "-c", script, str(pattern)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert pattern.read_text(encoding="utf-8") == "core.%p"
        os.kill(child.pid, number)
        status = child.wait(timeout=30)

    assert status == 128 + number
    assert pattern.read_text(encoding="utf-8") == PIPE


def test_the_kernels_own_settings_can_be_read() -> None:
    assert isinstance(read_core_settings().pattern, str)
