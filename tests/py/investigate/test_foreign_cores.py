"""Cores of other architectures, from kernels and emulators: tests/py/data/foreign_cores/make.sh."""

import json
import lzma
import struct
from pathlib import Path
from typing import Any

import pytest

from vllm_forensics.capture.gdb import gdb_for
from vllm_forensics.evidence.elf import PT_LOAD, parse_header, parse_segments
from vllm_forensics.evidence.gdb_mi import SIGNAL_FRAME
from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.investigate.triage import TriageOptions, triage_one
from vllm_forensics.model.answer import Depth
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.process import Architecture
from vllm_forensics.model.report import Crash, Failure

DATA = Path(__file__).parent.parent / "data" / "foreign_cores"
CASES = [
    (path.parent.name, path.name.partition(".")[0]) for path in sorted(DATA.glob("*/*.core.xz"))
]
PT_DYNAMIC = 2
DT_STRSZ = 10
BY_QEMU = ["aarch64", "ppc64le", "s390x"]


def unpacked(folder: Path, architecture: str, name: str) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((DATA / architecture / f"{name}.xz").read_bytes()))
    return path


def explained(folder: Path, architecture: str, case: str, *, program: str | None = None) -> Crash:
    core = unpacked(folder, architecture, f"{case}.core")
    executable = unpacked(folder, program or architecture, "program")
    crash = triage_one(str(core), TriageOptions(executable=str(executable)), Depth.STACK)
    assert isinstance(crash, Crash)
    return crash


def said(crash: Crash) -> dict[str, Any]:
    return {
        "signal": crash.signal.number,
        "is_recorded": crash.signal.is_recorded,
        "address": crash.signal.address,
        "fault": {
            "kind": crash.fault.kind,
            "access": crash.fault.access,
            "address": crash.fault.address,
            "size": crash.fault.size,
            "instruction": crash.fault.instruction,
        },
        "culprit": crash.culprit.function if crash.culprit else None,
        "frames": [[frame.function, frame.line] for frame in crash.threads[0].stack.frames],
        "signature": crash.signature,
    }


@pytest.mark.parametrize(("architecture", "case"), CASES)
def test_a_core_of_another_machine_is_explained(
    tmp_path: Path, architecture: str, case: str
) -> None:
    expected = json.loads((DATA / architecture / "expected.json").read_text(encoding="utf-8"))

    crash = explained(tmp_path, architecture, case)

    assert crash.architecture == architecture
    assert said(crash) == expected[case]


def test_every_architecture_but_this_tools_first_one_has_its_cores() -> None:
    assert {name for name, _ in CASES} == {*Architecture} - {Architecture.X86_64}


def test_one_bug_has_one_signature_on_all_architectures(tmp_path: Path) -> None:
    found = set()
    for architecture in sorted({name for name, _ in CASES}):
        folder = tmp_path / architecture
        folder.mkdir()
        found.add(explained(folder, architecture, "null").signature)

    assert len(found) == 1


def test_registers_have_the_names_of_their_machine(tmp_path: Path) -> None:
    names = {"i386": "eip", "aarch64": "x30", "riscv64": "ra", "ppc64le": "lr", "s390x": "r14"}

    for architecture, name in names.items():
        folder = tmp_path / architecture
        folder.mkdir()
        thread = explained(folder, architecture, "null").threads[0]
        assert thread.registers[name]


@pytest.mark.parametrize("architecture", BY_QEMU)
def test_a_program_that_nothing_proves_is_a_gap(tmp_path: Path, architecture: str) -> None:
    crash = explained(tmp_path, architecture, "null")

    assert any("the core holds no build-id" in gap.what for gap in crash.gaps)


def test_a_build_id_that_the_core_holds_proves_the_program(tmp_path: Path) -> None:
    crash = explained(tmp_path, "riscv64", "null")

    assert crash.modules[0].build_id is not None
    assert not any("build-id" in gap.what for gap in crash.gaps)


@pytest.mark.parametrize("architecture", [*BY_QEMU, "riscv64"])
def test_without_its_program_a_core_asks_for_it(tmp_path: Path, architecture: str) -> None:
    core = unpacked(tmp_path, architecture, "null.core")

    crash = triage_one(str(core), TriageOptions(), Depth.STACK)

    assert isinstance(crash, Crash)
    assert crash.fault.kind in {FaultKind.UNKNOWN, FaultKind.NULL_DEREFERENCE}
    assert [frame.function for frame in crash.threads[0].stack.frames] == [None]
    assert any("--executable" in gap.remedy for gap in crash.gaps)


def test_another_program_is_not_taken_for_the_one_that_crashed(tmp_path: Path) -> None:
    crash = explained(tmp_path, "aarch64", "null", program="s390x")

    assert any("is not the program that crashed" in gap.what for gap in crash.gaps)
    assert crash.threads[0].stack.frames[0].function is None


@pytest.mark.parametrize("case", sorted(path.name for path in (DATA / "handled").iterdir()))
def test_the_first_fault_is_found_behind_a_handler(tmp_path: Path, case: str) -> None:
    core = unpacked(tmp_path, f"handled/{case}", "core")
    program = unpacked(tmp_path, f"handled/{case}", "program")

    crash = triage_one(str(core), TriageOptions(executable=str(program)), Depth.STACK)

    assert isinstance(crash, Crash)
    assert crash.architecture == case.partition("-")[0]
    assert (crash.signal.number, crash.delivered.number) == (11, 6)
    assert crash.reraised_by == "cache::on_fault"
    assert crash.fault.kind is FaultKind.NULL_DEREFERENCE
    assert (
        crash.fault.address == crash.architecture.word_size
    )  # of a struct of two longs the second
    assert crash.culprit is not None
    assert (crash.culprit.function, crash.culprit.line) == ("cache::Table::read", 15)
    [thread] = crash.threads
    names = [frame.function for frame in thread.stack.frames]
    at = thread.fault_index
    assert names[at - 2 : at + 2] == [
        "cache::on_fault",
        SIGNAL_FRAME,
        "cache::Table::read",
        "cache::Worker::step",
    ]
    assert names[-1] == "_start"


def test_behind_a_handler_a_bug_has_one_signature_on_all_architectures(tmp_path: Path) -> None:
    found = set()
    for folder in sorted((DATA / "handled").iterdir()):
        here = tmp_path / folder.name
        here.mkdir()
        core = unpacked(here, f"handled/{folder.name}", "core")
        program = unpacked(here, f"handled/{folder.name}", "program")
        crash = triage_one(str(core), TriageOptions(executable=str(program)), Depth.STACK)
        assert isinstance(crash, Crash)
        found.add(crash.signature)

    assert len(found) == 1


def linked(folder: Path, *, sysroot: str | None) -> Crash:
    """A program for aarch64 whose code lies in libcache.so; no note names either."""
    library = folder / "opt" / "cache-demo" / "libcache.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(lzma.decompress((DATA / "linked" / "libcache.so.xz").read_bytes()))
    core = unpacked(folder, "linked", "core")
    program = unpacked(folder, "linked", "program")
    options = TriageOptions(executable=str(program), sysroot=sysroot)
    crash = triage_one(str(core), options, Depth.STACK)
    assert isinstance(crash, Crash)
    return crash


def test_libraries_are_found_by_the_dynamic_linkers_list(tmp_path: Path) -> None:
    crash = linked(tmp_path, sysroot=str(tmp_path))

    assert [(frame.function, frame.line) for frame in crash.threads[0].stack.frames] == [
        ("cache::Table::read", 15),
        ("cache::Worker::step", 88),
        ("start", 97),
        ("_start", None),
    ]
    assert crash.fault.kind is FaultKind.NULL_DEREFERENCE
    assert [module.path for module in crash.modules if module.matches_core] == [
        "/opt/cache-demo/cache",
        "/opt/cache-demo/libcache.so",
    ]


def test_without_the_libraries_their_place_is_still_told(tmp_path: Path) -> None:
    crash = linked(tmp_path, sysroot=None)

    (frame,) = crash.threads[0].stack.frames
    assert (frame.module, frame.module_offset) == ("/opt/cache-demo/libcache.so", 0x65C)
    assert any("--sysroot" in gap.remedy for gap in crash.gaps)


def test_another_build_of_a_library_is_not_taken(tmp_path: Path) -> None:
    library = tmp_path / "other" / "opt" / "cache-demo" / "libcache.so"
    library.parent.mkdir(parents=True)
    raw = bytearray(lzma.decompress((DATA / "linked" / "libcache.so.xz").read_bytes()))
    dynamic = next(s for s in parse_module(memoryview(bytes(raw))).segments if s.type == PT_DYNAMIC)
    at = raw.index(struct.pack("<Q", DT_STRSZ), dynamic.offset)
    raw[at + 8] ^= 1  # a string table of another size
    library.write_bytes(raw)

    crash = linked(tmp_path / "here", sysroot=str(tmp_path / "other"))

    assert "cache::Table::read" not in {f.function for f in crash.threads[0].stack.frames}


@pytest.mark.parametrize("architecture", sorted({name for name, _ in CASES}))
@pytest.mark.parametrize("machine", [3, 21, 22, 62, 183, 243, 0xFFFF])
def test_a_wrong_machine_number_ends_well(tmp_path: Path, architecture: str, machine: int) -> None:
    core = unpacked(tmp_path, architecture, "null.core")
    raw = bytearray(core.read_bytes())
    struct.pack_into(">H" if architecture == "s390x" else "<H", raw, 18, machine)
    core.write_bytes(raw)
    program = unpacked(tmp_path, architecture, "program")

    answer = triage_one(str(core), TriageOptions(executable=str(program)), Depth.STACK)

    assert isinstance(answer, Crash | Failure)
    if isinstance(answer, Failure):
        assert answer.remedy


@pytest.mark.parametrize("architecture", sorted({name for name, _ in CASES}))
def test_cut_anywhere_a_foreign_core_ends_well(tmp_path: Path, architecture: str) -> None:
    core = unpacked(tmp_path, architecture, "null.core")
    raw = core.read_bytes()
    program = unpacked(tmp_path, architecture, "program")

    for size in {*range(0, 1200, 97), len(raw) // 2}:
        core.write_bytes(raw[:size])
        answer = triage_one(str(core), TriageOptions(executable=str(program)), Depth.NOTES)
        assert isinstance(answer, Crash | Failure)


def test_a_gdb_that_cannot_read_the_core_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    core = unpacked(tmp_path, "s390x", "null.core")
    program = unpacked(tmp_path, "s390x", "program")

    crash = triage_one(str(core), TriageOptions(executable=str(program)), Depth.FULL)

    assert isinstance(crash, Crash)
    assert gdb_for(Architecture.S390X) == "gdb-multiarch"
    assert any(gap.what == "gdb-multiarch is not installed" for gap in crash.gaps)
    assert crash.threads[0].stack.frames[0].line == 15


# gdb wrote riscv64's, with the notes behind the memory: cut off, none of it can be read.
@pytest.mark.parametrize("architecture", sorted({name for name, _ in CASES} - {"riscv64"}))
def test_a_core_without_its_memory_denies_nothing_that_was_in_it(
    tmp_path: Path, architecture: str
) -> None:
    core = unpacked(tmp_path, architecture, "abort.core")
    executable = unpacked(tmp_path, architecture, "program")
    data = core.read_bytes()
    header = parse_header(memoryview(data))
    loads = [s for s in parse_segments(memoryview(data), header) if s.type == PT_LOAD]
    core.write_bytes(data[: min(segment.offset for segment in loads if segment.file_size)])

    crash = triage_one(str(core), TriageOptions(executable=str(executable)), Depth.STACK)

    assert isinstance(crash, Crash)
    assert any("truncated" in gap.what for gap in crash.gaps)
    assert crash.fault.kind is FaultKind.ABORT
    assert "left no message" not in crash.explanation
    assert "whether it left a message cannot be known" in crash.explanation
