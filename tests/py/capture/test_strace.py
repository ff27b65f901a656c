"""What is read of a log that strace still writes, or that is too long."""

import threading
import time
from pathlib import Path

import pytest

from vllm_forensics.capture import strace
from vllm_forensics.capture.strace import remove_log, run_straced
from vllm_forensics.errors import ToolError


def test_a_short_log_is_read_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nlast\n", encoding="utf-8")

    assert strace._read_ends(log, head_bytes=4, tail_bytes=100) == "first\nlast\n"


def test_of_a_long_log_the_middle_is_left_out_at_a_line_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n" + "x" * 1000 + "\nlast\n", encoding="utf-8")

    assert strace._read_ends(log, head_bytes=6, tail_bytes=6) == "first\n\n\nlast\n"


def test_the_end_of_the_first_process_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("7  1.0 brk(NULL) = 0x1\n", encoding="utf-8")

    def finish() -> None:
        time.sleep(0.2)
        with log.open("a", encoding="utf-8") as lines:
            lines.write("7  1.2 +++ exited with 0 +++\n")

    writer = threading.Thread(target=finish)
    writer.start()
    strace._wait_for_end(log)
    writer.join()

    assert "exited" in log.read_text(encoding="utf-8")


def test_an_empty_log_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("", encoding="utf-8")
    started = time.monotonic()

    strace._wait_for_end(tmp_path / "log")

    assert time.monotonic() - started < 1


def test_a_tracer_that_never_finishes_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strace, "_PATIENCE_S", 0.1)
    (tmp_path / "log").write_text("7  1.0 brk(NULL) = 0x1\n", encoding="utf-8")

    strace._wait_for_end(tmp_path / "log")


def test_without_strace_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolError) as raised:
        run_straced(("true",), tmp_path)

    assert "apt-get install strace" in raised.value.remedy


def test_only_an_uneventful_folder_is_removed(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    for folder in (empty, full):
        folder.mkdir()
        (folder / "strace.log").write_text("", encoding="utf-8")
    (full / "core").write_text("", encoding="utf-8")

    remove_log(empty)
    remove_log(full)

    assert not empty.exists()
    assert (full / "core").exists()
