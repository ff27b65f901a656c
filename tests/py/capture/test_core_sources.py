"""Cores wherever they are kept: found, and expanded into what the readers can map."""

import base64
import bz2
import gzip
import io
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
from backports import zstd
from tests.py.support.core_builder import build_core

from vllm_forensics.capture.core_sources import find_cores, is_core, opened_core
from vllm_forensics.errors import EvidenceError

CORE = build_core()
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
    "lz4": lz4.frame.compress,
}
HOLE = 32 << 20


@pytest.fixture
def core(tmp_path: Path) -> Path:
    path = tmp_path / "core.42"
    path.write_bytes(CORE)
    return path


def read(path: str) -> bytes:
    return Path(path).read_bytes()


# Compressed.


def test_a_plain_core_is_read_where_it_lies(core: Path) -> None:
    with opened_core(str(core)) as kept:
        assert (kept.path, kept.file, kept.keeper, kept.gap) == (str(core), str(core), None, None)


@pytest.mark.parametrize("kind", PACKERS)
def test_a_compressed_core_is_expanded_whatever_it_is_called(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "saved"
    path.write_bytes(PACKERS[kind](CORE))

    assert is_core(str(path))
    with opened_core(str(path)) as kept:
        assert read(kept.file) == CORE
        assert kept.path == str(path)
        expanded = kept.file

    assert not Path(expanded).exists()


def test_holes_stay_holes(tmp_path: Path) -> None:
    path = tmp_path / "core.zst"
    sparse = CORE + bytes(HOLE) + b"end"
    path.write_bytes(zstd.compress(sparse))

    with opened_core(str(path)) as kept:
        state = Path(kept.file).stat()
        assert state.st_size == len(sparse)
        assert state.st_blocks * 512 < HOLE // 8
        assert read(kept.file) == sparse


def test_of_a_damaged_archive_the_beginning_is_kept_and_the_loss_told(tmp_path: Path) -> None:
    path = tmp_path / "core.gz"
    noise = os.urandom(1 << 20)
    path.write_bytes(gzip.compress(CORE + noise)[: -(1 << 18)])

    with opened_core(str(path)) as kept:
        assert read(kept.file).startswith(CORE)
        assert kept.gap is not None
        assert "cut off" in kept.gap.what
        assert "MB were expanded" in kept.gap.what


def test_an_archive_of_which_nothing_can_be_read_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "core.gz"
    path.write_bytes(gzip.compress(CORE)[:10])

    with pytest.raises(EvidenceError, match="cut off"), opened_core(str(path)):
        pass


def test_a_disk_that_is_full_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "core.gz"
    path.write_bytes(gzip.compress(CORE + os.urandom(1 << 20)))
    script = (
        "import resource, sys\n"
        "from vllm_forensics.capture.core_sources import opened_core\n"
        "from vllm_forensics.errors import EvidenceError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))\n"
        "try:\n"
        "    with opened_core(sys.argv[1]): pass\n"
        "except EvidenceError as error:\n"
        "    print(error.message, '|', error.remedy)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )

    assert "cannot be expanded" in done.stdout
    assert "TMPDIR=" in done.stdout


def test_nothing_is_left_when_it_is_killed_in_the_middle(tmp_path: Path) -> None:
    path, scratch = tmp_path / "core.gz", tmp_path / "scratch"
    scratch.mkdir()
    path.write_bytes(gzip.compress(CORE))
    script = (
        "import sys, time\n"
        "from vllm_forensics.capture.core_sources import opened_core\n"
        "with opened_core(sys.argv[1], sys.argv[2]) as kept:\n"
        "    print(kept.file, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path, scratch], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline()

        child.send_signal(signal.SIGKILL)

    assert list(scratch.iterdir()) == []


# Keepers.


def apport_report(core: bytes) -> bytes:
    packed = gzip.compress(core)
    pieces = [packed[at : at + 300] for at in range(0, len(packed), 300)]
    lines = b"\n ".join(base64.b64encode(piece) for piece in pieces)
    return (
        b"ProblemType: Crash\nDate: Mon Mar  2 10:00:00 2026\nExecutablePath: /usr/bin/serve\n"
        b"ProcCmdline: serve --port 80\nProcMaps:\n 7f00-7f01 r-xp\n 7f02-7f03 r--p\n"
        b"CoreDump: base64\n " + lines + b"\nUname: Linux 6.8\n"
    )


def test_a_report_of_apport_holds_a_core_and_its_story(tmp_path: Path) -> None:
    path = tmp_path / "_usr_bin_serve.0.crash"
    path.write_bytes(apport_report(CORE))

    assert find_cores([str(tmp_path)]) == [str(path)]
    with opened_core(str(path)) as kept:
        assert read(kept.file) == CORE
        assert kept.keeper == "apport"
        assert kept.fact("executable") == "/usr/bin/serve"
        assert kept.fact("command") == "serve --port 80"
        assert kept.fact("kernel") == "Linux 6.8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"ProblemType: Crash\nDate: today\n", "without a core"),
        (b"ProblemType: Crash\nCoreDump: base64\n H4sI!!\n", "base64"),
        (b"ProblemType: Crash\nCoreDump: base64\n aGVsbG8=\n", None),
    ],
)
def test_a_report_without_a_core_is_told_so(tmp_path: Path, text: bytes, said: str | None) -> None:
    path = tmp_path / "a.crash"
    path.write_bytes(text)

    if said is None:
        with opened_core(str(path)) as kept:
            assert read(kept.file) == b"hello"
        return
    with pytest.raises(EvidenceError, match=said), opened_core(str(path)):
        pass


def test_the_name_that_systemd_coredump_gives_is_read(tmp_path: Path) -> None:
    boot = "0123456789abcdef" * 2
    path = tmp_path / f"core.python3.1000.{boot}.4242.1772445600000000.zst"
    path.write_bytes(zstd.compress(CORE))

    with opened_core(str(path)) as kept:
        assert kept.keeper == "systemd-coredump"
        assert kept.fact("comm") == "python3"
        assert kept.fact("user") == "1000"
        assert kept.fact("pid") == "4242"
        assert kept.fact("time") == "2026-03-02T10:00:00+00:00"


def test_a_folder_of_abrt_is_found_and_its_facts_are_read(tmp_path: Path) -> None:
    problem = tmp_path / "ccpp-2026-03-02-10:00:00-4242"
    problem.mkdir()
    (problem / "coredump.lz4").write_bytes(lz4.frame.compress(CORE))
    (problem / "executable").write_text("/usr/bin/serve")
    (problem / "uid").write_text("1000\n")
    (problem / "time").write_text("1772445600")

    assert find_cores([str(tmp_path)]) == [str(problem / "coredump.lz4")]
    with opened_core(str(problem / "coredump.lz4")) as kept:
        assert read(kept.file) == CORE
        assert kept.keeper == "abrt"
        assert dict(kept.facts) == {
            "executable": "/usr/bin/serve",
            "user": "1000",
            "time": "2026-03-02T10:00:00+00:00",
        }


# Finding them.


def test_a_folder_gives_its_cores_only(core: Path) -> None:
    (core.parent / "notes.txt").write_text("core", encoding="utf-8")
    (core.parent / "core.folder").mkdir()

    assert find_cores([str(core.parent)]) == [str(core)]


def test_a_pattern_is_opened_up_and_twice_is_once(core: Path) -> None:
    assert find_cores([f"{core.parent}/core.*", str(core)]) == [str(core)]


def test_a_file_whose_name_looks_like_a_pattern_is_meant_itself(tmp_path: Path) -> None:
    path = tmp_path / "core[1]"
    path.write_bytes(CORE)

    assert find_cores([str(path)]) == [str(path)]


def test_what_names_nothing_is_kept_for_its_failure(tmp_path: Path) -> None:
    missing = [f"{tmp_path}/none", f"{tmp_path}/none.*", str(tmp_path)]

    assert find_cores(missing) == missing


def test_a_core_of_either_byte_order_is_one(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(CORE[:16] + b"\0\4" + CORE[18:])
    (tmp_path / "program").write_bytes(CORE[:16] + b"\2\0" + CORE[18:])

    assert is_core(str(tmp_path / "big"))
    assert not is_core(str(tmp_path / "program"))
    assert not is_core(str(tmp_path / "none"))


def test_older_cores_are_left_out_where_that_is_asked(core: Path) -> None:
    old = core.with_name("core.1")
    old.write_bytes(CORE)
    os.utime(old, (1, 1))

    assert find_cores([str(core.parent)], since_s=time.time() - 3600) == [str(core)]
    assert find_cores([str(core.parent)]) == [str(old), str(core)]


AS_NOBODY = """
import os, sys
from vllm_forensics.capture.core_sources import find_cores, opened_core
from vllm_forensics.errors import EvidenceError
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
[core] = find_cores([sys.argv[1]])
try:
    with opened_core(core): pass
except EvidenceError as error:
    print(core, error.message)
"""


def test_a_folder_of_cores_that_belong_to_others_is_told_as_such() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "core.1").write_bytes(CORE)
        (folder / "core.1").chmod(0)
        (folder / "notes").write_bytes(CORE)
        (folder / "notes").chmod(0)
        folder.chmod(0o755)

        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, folder], capture_output=True, text=True, check=True
        )

    assert done.stdout == f"{folder}/core.1 cannot be opened: Permission denied\n"


# Names that tell.


def test_the_name_that_wsl_gives_is_read(tmp_path: Path) -> None:
    path = tmp_path / "wsl-crash-1726372480-366-_home_me_my-serve-11.dmp"
    path.write_bytes(CORE)

    with opened_core(str(path)) as kept:
        assert kept.keeper == "wsl-capture-crash"
        assert kept.fact("executable") == "_home_me_my-serve"
        assert kept.fact("pid") == "366"
        assert kept.fact("time") == "2024-09-15T03:54:40+00:00"


def test_the_name_that_apport_gives_a_core_without_a_report_is_read(tmp_path: Path) -> None:
    path = tmp_path / "core._usr_bin_serve.1000.01234567-89ab-cdef-0123-456789abcdef.4242.777"
    path.write_bytes(CORE)

    with opened_core(str(path)) as kept:
        assert kept.keeper == "apport"
        assert dict(kept.facts) == {"executable": "_usr_bin_serve", "user": "1000", "pid": "4242"}


@pytest.mark.parametrize("name", ["core.python3.4242", "core.!usr!bin!x.7", "core", "core.%e.%p"])
def test_a_name_of_core_pattern_alone_is_no_keepers(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(CORE)

    with opened_core(str(tmp_path / name)) as kept:
        assert (kept.keeper, kept.facts) == (None, ())


def test_what_marks_a_report_as_uploaded_is_no_core(tmp_path: Path) -> None:
    (tmp_path / "_usr_bin_serve.0.crash").write_bytes(apport_report(CORE))
    (tmp_path / "_usr_bin_serve.0.upload").write_bytes(b"")
    (tmp_path / "_usr_bin_serve.0.uploaded").write_text("9f3c-11f0", encoding="utf-8")

    assert find_cores([str(tmp_path)]) == [str(tmp_path / "_usr_bin_serve.0.crash")]


# In archives.


def archive(folder: Path, kind: str, members: dict[str, bytes]) -> Path:
    path = folder / f"artifacts.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in members.items():
                zipped.writestr(name, data)
        return path
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tarred:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tarred.addfile(entry, io.BytesIO(data))
    packed = kind.partition(".")[2]
    path.write_bytes(PACKERS[packed](raw.getvalue()) if packed else raw.getvalue())
    return path


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "zip"])
def test_every_core_in_an_archive_is_found_and_read(tmp_path: Path, kind: str) -> None:
    members = {
        "logs/serve.log": b"hello",
        "var/core.1": CORE,
        "../../core.2.zst": zstd.compress(CORE),
        "report.crash": apport_report(CORE),
    }
    path = archive(tmp_path, kind, members)

    found = find_cores([str(path)])

    assert found == [f"{path}!/{name}" for name in list(members)[1:]]
    for core in found:
        with opened_core(core) as kept:
            assert kept.path == core
            assert read(kept.file) == CORE
    assert kept.keeper == "apport"
    assert kept.fact("executable") == "/usr/bin/serve"


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_an_archive_without_a_core_says_so(tmp_path: Path, kind: str) -> None:
    path = str(archive(tmp_path, kind, {"serve.log": b"hello", "notes": b""}))

    assert find_cores([path]) == [path]
    with pytest.raises(EvidenceError, match="archive of 2 files, none"), opened_core(path):
        pass


def test_of_an_archive_that_is_cut_off_the_beginning_is_kept(tmp_path: Path) -> None:
    path = archive(tmp_path, "tar", {"core.1": CORE + os.urandom(1 << 20), "core.2": CORE})
    path.write_bytes(path.read_bytes()[: 1 << 19])

    [found] = find_cores([str(path)])
    with opened_core(found) as kept:
        assert read(kept.file).startswith(CORE)
        assert kept.gap is not None


def test_a_member_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = archive(tmp_path, "zip", {"core.1": CORE})

    with pytest.raises(EvidenceError, match="is not in"), opened_core(f"{path}!/core.9"):
        pass


def test_an_archive_itself_is_no_core_for_what_reads_one(tmp_path: Path) -> None:
    path = archive(tmp_path, "zip", {"core.1": CORE})

    with pytest.raises(EvidenceError) as failure, opened_core(str(path)):
        pass

    assert f"{path}!/core.1" in failure.value.remedy
