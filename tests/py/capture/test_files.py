"""What may stand behind a path, and which cores are meant."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.py.support.core_builder import build_core

from vllm_forensics.capture.core_sources import find_cores, is_core
from vllm_forensics.capture.files import (
    is_regular_file,
    map_core,
    map_file,
    mapped_core,
    read_source,
)
from vllm_forensics.errors import EvidenceError

CORE = build_core()


@pytest.fixture
def core(tmp_path: Path) -> Path:
    path = tmp_path / "core.42"
    path.write_bytes(CORE)
    return path


def refusal(path: str | os.PathLike[str]) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        map_core(path)
    assert caught.value.remedy
    return caught.value


def test_a_core_is_mapped(core: Path) -> None:
    assert bytes(map_core(core)[:4]) == b"\x7fELF"


def test_a_name_that_is_no_utf_8_and_has_spaces_and_a_newline_is_opened(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/co re\n.caf\xe9"
    Path(os.fsdecode(path)).write_bytes(CORE)

    assert len(map_core(os.fsdecode(path))) == len(CORE)
    assert find_cores([str(tmp_path)]) == [os.fsdecode(path)]


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "core.fifo")

    assert "FIFO" in refusal(tmp_path / "core.fifo").message
    assert not is_core(str(tmp_path / "core.fifo"))
    assert not is_regular_file(str(tmp_path / "core.fifo"))


def test_a_folder_a_device_and_a_socket_are_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))

        assert "cannot be opened" in refusal(tmp_path / "s").message
    assert "folder" in refusal(tmp_path).message
    assert "character device" in refusal("/dev/null").message


def test_an_empty_file_asks_for_the_disk(tmp_path: Path) -> None:
    (tmp_path / "core").touch()

    assert "df -h" in refusal(tmp_path / "core").remedy


@pytest.mark.parametrize("name", ["missing", "a\0b"])
def test_a_missing_file_is_an_error_with_a_remedy(tmp_path: Path, name: str) -> None:
    assert "cannot be opened" in refusal(f"{tmp_path}/{name}").message


def test_an_unreadable_file_is_said_to_be_so_to_an_ordinary_user(core: Path) -> None:
    core.chmod(0)
    core.parent.chmod(0o755)
    script = (
        "import os, sys\n"
        "from vllm_forensics.capture.core_sources import is_core\n"
        "from vllm_forensics.capture.files import map_core\n"
        "from vllm_forensics.errors import EvidenceError\n"
        "if os.geteuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "assert not is_core(sys.argv[1])\n"
        "try:\n"
        "    map_core(sys.argv[1])\n"
        "except EvidenceError as error:\n"
        "    print(error.message, '|', error.remedy)\n"
    )

    finished = subprocess.run(
        # A relative path: the folders above may be closed to that user.
        [sys.executable, "-c", script, core.name],
        cwd=core.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "cannot be opened: Permission denied | ls -l" in finished.stdout, finished.stderr


@pytest.mark.parametrize(
    ("contents", "what"), [(b"Traceback (most recent", "a text file"), (b"\0\1\2", "no ELF file")]
)
def test_something_else_is_called_what_it_is(tmp_path: Path, contents: bytes, what: str) -> None:
    (tmp_path / "log").write_bytes(contents)

    assert what in refusal(tmp_path / "log").message


def test_any_file_may_be_mapped_where_no_core_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("hello", encoding="utf-8")

    assert bytes(map_file(tmp_path / "log")) == b"hello"


# read_source


def test_lines_of_a_source_file(tmp_path: Path) -> None:
    path = tmp_path / "a.cpp"
    path.write_bytes(b"one\ntwo caf\xe9\nthree\n")

    assert read_source(str(path), 2, 3) == ("two caf\ufffd", "three")
    assert read_source(str(path), 9, 12) == ()


def test_no_source_where_there_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    assert read_source(str(tmp_path / "fifo"), 1, 2) == ()
    assert read_source(f"{tmp_path}/none", 1, 2) == ()


def flags_of_mapping(path: Path) -> list[str]:
    """How the kernel treats the mapping of a file in this process, smaps in proc(5)."""
    text = Path("/proc/self/smaps").read_text()
    flags = text[text.index(str(path)) :].split("VmFlags:", 1)[1]
    return flags.splitlines()[0].split()


@pytest.mark.parametrize(("size", "expected"), [(1 << 20, False), (1 << 29, True)])
def test_of_a_large_core_the_kernel_reads_no_more_than_is_asked_for(
    tmp_path: Path, size: int, expected: bool
) -> None:
    core = tmp_path / "core"
    with core.open("wb") as file:
        file.write(b"\x7fELF")
        file.truncate(size)

    with mapped_core(core) as data:
        flags = flags_of_mapping(core)

    assert ("rr" in flags) is expected
    with pytest.raises(ValueError, match="released"):
        len(data)


def test_a_core_that_is_still_looked_at_stays_mapped(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.write_bytes(b"\x7fELF and more")

    with mapped_core(core) as data:
        part = data[5:8]

    assert bytes(part) == b"and"
