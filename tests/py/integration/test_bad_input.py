"""Damaged, foreign and hostile input, through the real command: a partial answer or a clear no.

Every run has a deadline; a traceback on standard error fails it (see `forensics`).
"""

import gzip
import json
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.py.integration.crashes import (
    FALLING,
    FALLING_ADDRESS,
    FALLING_FUNCTION,
    FALLING_LINE,
    compile_program,
    leave_core,
)
from tests.py.integration.tool import COMMAND, Answer, Json, forensics, forensics_core

from vllm_forensics.investigate.triage import TriageOptions, triage_one
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.report import Crash, Failure

pytestmark = pytest.mark.gdb

PROMPT_S = 15
NOBODY = 65534
E_MACHINE = 18
MIPS, AARCH64 = 8, 183


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """A program that fell, and its core. Tests copy what they damage."""

    program: Path
    core: Path


@pytest.fixture(scope="session")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    folder = tmp_path_factory.mktemp("specimen")
    program = compile_program(FALLING, folder / "faller")
    return Specimen(program=program, core=leave_core([program], folder / "crash"))


def gap_texts(crash: Json) -> str:
    return "\n".join(gap["what"] for gap in crash["gaps"])


def assert_understood(crash: Json) -> None:
    """All that debug information and an undamaged core give."""
    assert crash["signal"]["name"] == "SIGSEGV"
    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["access"] == "write"
    assert crash["fault"]["address"] == FALLING_ADDRESS
    assert crash["culprit"]["function"] == FALLING_FUNCTION
    assert crash["culprit"]["line"] == FALLING_LINE


def assert_refused(answer: Answer, *words: str) -> None:
    """Nothing could be told: status 2, and one failure that says why and what to do."""
    assert answer.status == 2
    failure = answer.failure
    assert failure["remedy"]
    for word in words:
        assert word in failure["error"]


def test_an_undamaged_core_is_understood(specimen: Specimen) -> None:
    answer = forensics_core(specimen.core)

    assert answer.status == 1
    assert_understood(answer.crash)
    assert answer.crash["gaps"] == []


# What is no core at all.


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "core.1"
    empty.touch()

    assert_refused(forensics_core(empty), "empty")


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "core.txt"
    text.write_text("Segmentation fault (core dumped)\n")

    assert_refused(forensics_core(text), "text file")


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    noise = tmp_path / "core.1"
    noise.write_bytes(b"\0\1\2\3" * 4096)

    assert_refused(forensics_core(noise), "no ELF file")


def test_an_elf_file_that_is_no_core_is_refused(specimen: Specimen) -> None:
    assert_refused(forensics_core(specimen.program), "core")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert_refused(forensics_core(tmp_path / "core.gone"), "No such file")


def test_a_folder_without_cores_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")

    assert_refused(forensics_core(tmp_path), "folder without a core")


def test_the_cores_of_a_folder_are_found(specimen: Specimen, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    shutil.copy(specimen.core, tmp_path / "core.7")

    assert_understood(forensics_core(tmp_path).crash)


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    fifo = tmp_path / "core.fifo"
    os.mkfifo(fifo)

    assert_refused(forensics_core(fifo, timeout_s=PROMPT_S), "FIFO")


def test_a_device_is_not_read(tmp_path: Path) -> None:
    assert_refused(forensics_core("/dev/zero", timeout_s=PROMPT_S), "character device")


def test_a_compressed_core_is_explained_as_the_core_itself(
    specimen: Specimen, tmp_path: Path
) -> None:
    packed = tmp_path / "core.1.gz"
    packed.write_bytes(gzip.compress(specimen.core.read_bytes(), compresslevel=1))

    crash = forensics_core(packed).crash

    assert_understood(crash)
    assert crash["core"] == str(packed)
    assert crash["signature"] == forensics_core(specimen.core).crash["signature"]


def test_a_compressed_core_that_was_cut_tells_what_is_left(
    specimen: Specimen, tmp_path: Path
) -> None:
    packed = tmp_path / "core.1.gz"
    whole = gzip.compress(specimen.core.read_bytes(), compresslevel=1)
    packed.write_bytes(whole[: len(whole) - 2000])

    crash = forensics_core(packed).crash

    assert_understood(crash)
    assert "were expanded" in gap_texts(crash)


@pytest.fixture
def as_nobody() -> tuple[str, ...]:
    """The beginning of a command that another user runs."""
    start = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    tried = subprocess.run((*start, COMMAND, "--version"), capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"another user cannot start the command: {tried.stderr.decode()}")
    return start


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.root
def test_an_unreadable_core_is_refused(
    specimen: Specimen, open_folder: Path, as_nobody: tuple[str, ...]
) -> None:
    private = open_folder / "core.1"
    shutil.copy(specimen.core, private)
    private.chmod(0o600)

    answer = forensics("core", "--format", "json", private, before=as_nobody)

    assert_refused(answer, "Permission denied")


@pytest.mark.root
def test_an_unreadable_core_does_not_stop_the_others(
    specimen: Specimen, open_folder: Path, as_nobody: tuple[str, ...]
) -> None:
    for name, mode in (("private", 0o600), ("public", 0o644)):
        shutil.copy(specimen.core, open_folder / name)
        (open_folder / name).chmod(mode)
    paths = (open_folder / "private", open_folder / "public")

    answer = forensics("core", "--format", "json", *paths, before=as_nobody)

    assert answer.status == 1
    assert answer.crash["core"] == str(paths[1])
    assert answer.failure["path"] == str(paths[0])


@pytest.mark.parametrize(
    ("offset", "value"),
    [(4, 1), (5, 2), (E_MACHINE, MIPS)],
    ids=["32 bit", "big end first", "mips"],
)
def test_a_foreign_core_is_refused(
    specimen: Specimen, tmp_path: Path, offset: int, value: int
) -> None:
    foreign = tmp_path / "core.1"
    data = bytearray(specimen.core.read_bytes())
    data[offset] = value
    foreign.write_bytes(data)

    assert_refused(forensics_core(foreign))


def test_another_architecture_is_named(specimen: Specimen, tmp_path: Path) -> None:
    foreign = tmp_path / "core.1"
    data = bytearray(specimen.core.read_bytes())
    data[E_MACHINE : E_MACHINE + 2] = MIPS.to_bytes(2, "little")
    foreign.write_bytes(data)

    assert_refused(forensics_core(foreign), "architecture", "mips")


def test_a_core_under_a_false_architecture_ends_well(specimen: Specimen, tmp_path: Path) -> None:
    foreign = tmp_path / "core.1"
    data = bytearray(specimen.core.read_bytes())
    data[E_MACHINE : E_MACHINE + 2] = AARCH64.to_bytes(2, "little")
    foreign.write_bytes(data)

    answer = forensics_core(foreign)

    assert answer.status in {1, 2}
    assert len(answer.report["crashes"]) + len(answer.report["failures"]) == 1


def test_one_bad_core_among_many_stops_nothing(specimen: Specimen, tmp_path: Path) -> None:
    good = [tmp_path / f"core.{number}" for number in range(4)]
    for path in good:
        shutil.copy(specimen.core, path)
    bad = tmp_path / "core.bad"
    bad.write_bytes(specimen.core.read_bytes()[:100])

    answer = forensics_core(good[0], bad, *good[1:])

    assert answer.status == 1
    assert [crash["core"] for crash in answer.report["crashes"]] == [str(path) for path in good]
    assert answer.failure["path"] == str(bad)
    [group] = answer.report["groups"]
    assert group["count"] == 4


# What was cut off.


def end_of_notes(core: Path) -> int:
    """The file offset behind the last note, from the program headers (elf(5))."""
    data = core.read_bytes()
    (phoff,) = struct.unpack_from("<Q", data, 32)
    (phnum,) = struct.unpack_from("<H", data, 56)
    ends = []
    for index in range(phnum):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, phoff + 56 * index)
        if kind == 4:  # PT_NOTE
            ends.append(offset + size)
    return int(max(ends))


def cut(core: Path, size: int, target: Path) -> Path:
    with core.open("rb") as source:
        target.write_bytes(source.read(size))
    return target


@pytest.mark.parametrize("kept", ["one page more", "half", "all but a byte"])
def test_a_truncated_core_still_tells_the_place(
    specimen: Specimen, tmp_path: Path, kept: str
) -> None:
    notes, whole = end_of_notes(specimen.core), specimen.core.stat().st_size
    sizes = {
        "one page more": notes + 4096,
        "half": (notes + whole) // 2,
        "all but a byte": whole - 1,
    }
    truncated = cut(specimen.core, sizes[kept], tmp_path / "core.1")

    answer = forensics_core(truncated)

    assert answer.status == 1
    assert_understood(answer.crash)
    assert answer.crash["culprit"]["module"] == str(specimen.program)
    assert answer.crash["threads"][0]["frames"][0]["module_offset"] is not None
    assert "truncated" in gap_texts(answer.crash)


def test_a_core_of_notes_alone_names_no_function(specimen: Specimen, tmp_path: Path) -> None:
    """The build-ids stood in the memory that is lost, so no file can be matched."""
    truncated = cut(specimen.core, end_of_notes(specimen.core), tmp_path / "core.1")

    crash = forensics_core(truncated).crash

    assert crash["signal"]["name"] == "SIGSEGV"
    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["address"] == FALLING_ADDRESS
    assert crash["culprit"]["function"] is None
    assert crash["culprit"]["module"] == str(specimen.program)
    assert crash["culprit"]["module_offset"] is not None
    assert "truncated" in gap_texts(crash)
    assert "build-id" in gap_texts(crash)


@pytest.mark.parametrize("size", [1, 15, 63, 64, 100, 500])
def test_a_core_without_notes_is_refused(specimen: Specimen, tmp_path: Path, size: int) -> None:
    assert_refused(forensics_core(cut(specimen.core, size, tmp_path / "core.1")))


def test_a_core_cut_anywhere_in_its_notes_ends_well(specimen: Specimen, tmp_path: Path) -> None:
    notes = end_of_notes(specimen.core)
    options = TriageOptions(depth=Depth.NOTES)

    for size in range(64, notes + 64, 61):
        result = triage_one(str(cut(specimen.core, size, tmp_path / "core.1")), options)

        if isinstance(result, Failure):
            assert result.remedy
        else:
            assert any("truncated" in gap.what for gap in result.gaps), size


def test_a_core_cut_within_its_notes_tells_what_is_left(specimen: Specimen, tmp_path: Path) -> None:
    truncated = cut(specimen.core, end_of_notes(specimen.core) - 200, tmp_path / "core.1")

    answer = forensics_core(truncated)

    assert answer.status == 1
    assert answer.crash["signal"]["name"] == "SIGSEGV"
    assert "truncated" in gap_texts(answer.crash)


# Modules that are no longer what they were.


@pytest.fixture
def own_specimen(tmp_path: Path) -> Specimen:
    """A specimen that the test may take apart."""
    program = compile_program(FALLING, tmp_path / "faller")
    return Specimen(program=program, core=leave_core([program], tmp_path / "crash"))


def test_a_program_that_is_gone_leaves_module_and_offset(own_specimen: Specimen) -> None:
    own_specimen.program.unlink()

    crash = forensics_core(own_specimen.core).crash

    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["address"] == FALLING_ADDRESS
    assert crash["culprit"]["function"] is None
    assert crash["culprit"]["module"] == str(own_specimen.program)
    assert crash["culprit"]["module_offset"] is not None
    assert str(own_specimen.program) in gap_texts(crash)


def test_no_name_of_another_build_is_printed(own_specimen: Specimen) -> None:
    compile_program(FALLING, own_specimen.program, "-DFALL=plunge_elsewhere", "-O0")

    answer = forensics_core(own_specimen.core)
    text = forensics("core", own_specimen.core)

    mine = str(own_specimen.program)
    frames = answer.crash["threads"][0]["frames"]
    assert {frame["function"] for frame in frames if frame["module"] == mine} == {None}
    assert answer.crash["culprit"]["file"] is None
    assert "rebuilt" in gap_texts(answer.crash)
    assert "plunge" not in answer.stdout + text.stdout
    assert "faller+0x" in text.stdout


def test_the_right_build_can_be_given(own_specimen: Specimen, tmp_path: Path) -> None:
    kept = tmp_path / "kept copy"
    shutil.copy(own_specimen.program, kept)
    compile_program(FALLING, own_specimen.program, "-DFALL=plunge_elsewhere", "-O0")

    answer = forensics_core("--executable", kept, own_specimen.core)

    assert_understood(answer.crash)


def test_a_wrong_executable_is_not_believed(own_specimen: Specimen, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    wrong = compile_program(FALLING, tmp_path / "other" / "faller", "-DFALL=plunge_elsewhere")

    answer = forensics_core("--executable", wrong, own_specimen.core)

    assert answer.status == 1
    assert "plunge" not in answer.stdout
    assert gap_texts(answer.crash)


def test_a_mapped_file_that_was_removed_is_no_obstacle(specimen: Specimen, tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"x" * 4096)
    core = leave_core([specimen.program, data], tmp_path / "crash", environment={"UNLINK": "1"})

    assert_understood(forensics_core(core).crash)


def test_a_mapped_file_that_became_a_fifo_does_not_block(
    specimen: Specimen, tmp_path: Path
) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"\x7fELF" + b"x" * 4092)
    core = leave_core([specimen.program, data], tmp_path / "crash")
    data.unlink()
    os.mkfifo(data)

    assert_understood(forensics_core(core, timeout_s=PROMPT_S).crash)


def test_a_program_that_became_a_fifo_does_not_block(own_specimen: Specimen) -> None:
    own_specimen.program.unlink()
    os.mkfifo(own_specimen.program)

    crash = forensics_core(own_specimen.core, timeout_s=PROMPT_S).crash

    assert crash["fault"]["address"] == FALLING_ADDRESS
    assert "FIFO" in gap_texts(crash)


# A gdb that is of no use.


def with_fake_gdb(folder: Path, script: str | None) -> dict[str, str]:
    """An environment in which `gdb` is this script, or is missing."""
    tools = folder / "tools"
    tools.mkdir()
    if script is not None:
        (tools / "gdb").write_text(f"#!/bin/sh\n{script}\n")
        (tools / "gdb").chmod(0o755)
    return {"PATH": str(tools)}


GDBS = {
    "missing": (None, "not installed"),
    "hanging": ("exec /bin/sleep 600", "in time"),
    "hanging with children": ("/bin/sleep 600 & wait", "in time"),
    "dying": ("exit 3", "gdb"),
    "dying of a signal": ("kill -SEGV $$", "gdb"),
    "flooding": ("exec /usr/bin/yes", "gdb"),
    "flooding its errors": ("/usr/bin/yes >&2", "gdb"),
    "babbling": ("echo '^done,stack=[{{{'; echo '1^done,x=\"'; exec /bin/cat", "gdb"),
}


@pytest.mark.parametrize("kind", GDBS)
def test_without_a_useful_gdb_the_other_tiers_answer(
    specimen: Specimen, tmp_path: Path, kind: str
) -> None:
    script, word = GDBS[kind]
    environment = with_fake_gdb(tmp_path, script)
    arguments = ("core", "--format", "json", "--timeout", "1", specimen.core)

    answer = forensics(*arguments, environment=environment, timeout_s=PROMPT_S)

    crash = answer.crash
    assert answer.status == 1
    assert crash["signal"]["name"] == "SIGSEGV"
    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["access"] == "write"
    assert crash["fault"]["address"] == FALLING_ADDRESS
    assert crash["culprit"]["function"] == FALLING_FUNCTION
    assert crash["culprit"]["module"] == str(specimen.program)
    assert crash["culprit"]["module_offset"] is not None
    assert crash["culprit"]["tier"] == "libdw"
    assert crash["culprit"]["line"] == FALLING_LINE
    assert word in gap_texts(crash)
    assert all(gap["remedy"] for gap in crash["gaps"])


# Names that somebody else chose.


@pytest.mark.parametrize(
    "name", [b"with a space", b"new\nline", b"not \xff\xfe UTF-8", b"quo\"te'$(id)", b"-core"]
)
def test_any_path_is_read(specimen: Specimen, tmp_path: Path, name: bytes) -> None:
    folder = os.fsencode(tmp_path) + b"/" + name
    Path(os.fsdecode(folder)).mkdir()
    core = folder + b"/" + name
    shutil.copy(specimen.core, os.fsdecode(core))

    assert_understood(forensics_core(core).crash)


@pytest.mark.parametrize(
    "name", [b"with a space", b"new\nline", b"not \xff\xfe UTF-8", b"quo\"te'\\$(id)"]
)
def test_a_program_of_any_name_is_understood(
    specimen: Specimen, tmp_path: Path, name: bytes
) -> None:
    program = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    shutil.copy(specimen.program, program)
    core = leave_core([program], tmp_path / "crash")

    assert_understood(forensics_core(core).crash)


def test_control_characters_are_shown_and_not_sent(specimen: Specimen, tmp_path: Path) -> None:
    program = tmp_path / "\x1b[31mred\x1b]0;title\x07"
    shutil.copy(specimen.program, program)
    core = leave_core([program], tmp_path / "crash")

    text = forensics("core", core)
    report = forensics_core(core)

    assert text.status == 1
    assert "\x1b" not in text.stdout + text.stderr + report.stdout
    assert "\x07" not in text.stdout + text.stderr + report.stdout
    assert r"\x1b[31mred" in report.crash["program"]
    assert_understood(report.crash)


SECRET = "hunter2hunter2"  # noqa: S105 - planted


def test_secrets_of_the_command_line_are_masked(tmp_path: Path) -> None:
    compile_program(FALLING, tmp_path / "f")
    core = leave_core(["../f", f"--api-key={SECRET}", "visible"], tmp_path / "crash")

    masked = forensics_core(core)
    text = forensics("core", core)
    shown = forensics_core("--include-secrets", core)

    assert SECRET not in masked.stdout + text.stdout
    assert masked.crash["command"].startswith("../f --api-key=")
    assert "visible" in masked.crash["command"]
    assert shown.crash["command"] == f"../f --api-key={SECRET} visible"


def test_output_goes_to_a_file_that_can_be_written(specimen: Specimen, tmp_path: Path) -> None:
    target = tmp_path / "report.json"

    written = forensics_core("--output", target, specimen.core)
    refused = forensics_core("--output", tmp_path / "no" / "folder", specimen.core)

    assert written.status == 1
    assert_understood(json.loads(target.read_text())["crashes"][0])
    assert refused.status == 2
    assert "cannot be written" in refused.stderr


def test_the_options_of_triage_are_kept_within_bounds(specimen: Specimen) -> None:
    answer = forensics("core", "--timeout", "0", specimen.core)

    assert answer.status == 2
    assert "--timeout" in answer.stderr


def test_a_crash_is_told_in_process_as_by_the_command(specimen: Specimen) -> None:
    result = triage_one(str(specimen.core), TriageOptions())

    assert isinstance(result, Crash)
    assert f"{result.fault.address:#x}" == FALLING_ADDRESS
