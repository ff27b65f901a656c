"""A live engine's trace: private, of bounded size, and a fork's child writes nothing to it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_forensics.capture.trace_file import TraceFile

FORKED = """
import os, sys
from vllm_forensics.capture.trace_file import TraceFile
file = TraceFile(sys.argv[1], limit_bytes=1000)
file.write(b"parent")
child = os.fork()
if child == 0:
    file.write(b"child")
    os._exit(0)
os.waitpid(child, 0)
"""


def test_only_the_last_two_segments_are_kept(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path), limit_bytes=20)

    for number in range(4):
        file.write(b"0123456789")
        assert file.full
        file.next_segment()
        file.write(b"%d" % number)

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"vllm-{os.getpid()}-{n}.jsonl" for n in (4, 5)]
    assert file.path.read_bytes() == b"3"


def test_a_file_that_is_there_already_is_not_touched(tmp_path: Path) -> None:
    earlier = tmp_path / f"vllm-{os.getpid()}-1.jsonl"
    earlier.symlink_to(tmp_path / "elsewhere")

    file = TraceFile(str(tmp_path), limit_bytes=20)
    file.write(b"new")

    assert file.path.name == f"vllm-{os.getpid()}.1-1.jsonl"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert not (tmp_path / "elsewhere").exists()


def test_the_child_of_a_fork_writes_nothing(tmp_path: Path) -> None:
    # In a process of its own: a test runner has threads, beside which nobody should fork.
    done = subprocess.run([sys.executable, "-c", FORKED, tmp_path], check=True, timeout=60)

    [file] = tmp_path.iterdir()
    assert done.returncode == 0
    assert file.read_bytes() == b"parent"


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(NotADirectoryError):
        TraceFile(str(tmp_path / "file" / "traces"), limit_bytes=1000)
