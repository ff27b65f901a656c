"""Every printed form of a nameless frame gets its name; what stays without one is counted."""

import platform
import subprocess
from pathlib import Path

import pytest

from vllm_forensics.capture.symbolizer import SymbolizerProgram, installed_symbolizers
from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.investigate.sanitizer_locations import with_locations
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.model.locations import Certainty, LeftModule, Symbolization
from vllm_forensics.model.sanitizer import LogReading, PrintedFrame

BUILD_ID = "abcdef0123456789"
SOURCE = """\
__attribute__((noinline)) int leaf(int n)
{
  return n / 3;
}
static inline __attribute__((always_inline)) int twice(int n)
{
  return leaf(n) + leaf(n + 1);
}
int caller(int n)
{
  return twice(n) + 1;
}
"""
RESTORER = 'asm(".text\\nrestorer: mov $15, %rax\\nsyscall\\n.zero 8, 0x90\\n");\n'


def build(folder: Path, name: str = "liba.so", source: str = SOURCE) -> Path:
    (folder / "a.c").write_text(source, encoding="utf-8")
    identity = f"-Wl,--build-id=0x{BUILD_ID}"
    subprocess.run(
        ["gcc", "-g", "-O1", "-shared", "-fPIC", identity, "-o", name, "a.c"],
        cwd=folder,
        check=True,
    )
    return folder / name


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("locations"))


def start_of(path: Path, function: str) -> int:
    symbol = parse_module(memoryview(path.read_bytes())).symbol_named(function)
    assert symbol is not None
    return symbol.address


def call_in(path: Path, function: str) -> int:
    """The last byte of the first call in a function."""
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    at = next(number for number, row in enumerate(listing) if "\tcall" in row or "\tbl" in row)
    return int(listing[at + 1].partition(":")[0], 16) - 1


def asan(*frames: str) -> str:
    rows = "".join(
        f"    #{number} 0x7f000000{number:04x} {text}\n" for number, text in enumerate(frames)
    )
    return (
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x7f00 "
        f"bp 0x1 sp 0x2\nREAD of size 4 at 0x602000000010 thread T0\n{rows}\n"
        "SUMMARY: AddressSanitizer: heap-use-after-free\n==7==ABORTING\n"
    )


def look_up(
    *logs: str, symbolizer: Symbolizer | None = None
) -> tuple[list[LogReading], Symbolization]:
    readings = [parse_sanitizer_log([log.encode()]) for log in logs]
    assert all(reading.reports for reading in readings)
    return with_locations(readings, symbolizer or Symbolizer())


def frames_of(reading: LogReading) -> tuple[PrintedFrame, ...]:
    return reading.reports[0].chain[0].frames


def places(reading: LogReading) -> list[tuple[int, str | None, int | None]]:
    return [(frame.index, frame.function, frame.line) for frame in frames_of(reading)]


def test_an_inlined_caller_becomes_a_frame_of_its_own(library: Path) -> None:
    leaf, call = start_of(library, "leaf"), call_in(library, "caller")
    named_id = f"(BuildId: {BUILD_ID})"

    (reading,), outcome = look_up(
        asan(f" ({library}+0x{leaf:x}) {named_id}", f" ({library}+0x{call:x}) {named_id}")
    )

    assert [frame.function for frame in frames_of(reading)] == ["leaf", "twice", "caller"]
    assert places(reading)[1:] == [(1, "twice", 7), (1, "caller", 11)]
    assert {frame.symbolized for frame in frames_of(reading)} == {Certainty.PROVED}
    assert (outcome.asked, outcome.proved, outcome.likely, outcome.left) == (2, 2, 0, ())


def test_one_printed_build_id_counts_for_its_modules_other_frames(library: Path) -> None:
    leaf, call = start_of(library, "leaf"), call_in(library, "caller")

    _, outcome = look_up(
        asan(f" ({library}+0x{leaf:x}) (BuildId: {BUILD_ID})", f" ({library}+0x{call:x})")
    )

    assert outcome.proved == 2


def test_threadsanitizers_bare_name_is_found_by_its_summary(library: Path) -> None:
    call = call_in(library, "caller")
    log = (
        "WARNING: ThreadSanitizer: data race (pid=7)\n"
        "  Write of size 4 at 0x55555555900c by thread T2:\n"
        f"    #0 <null> <null> (liba.so+0x{call:x})\n\n"
        f"SUMMARY: ThreadSanitizer: data race ({library}+0x{call:x}) \n"
    )

    (reading,), _ = look_up(log)

    assert [name for _, name, _ in places(reading)] == ["twice", "caller"]


def test_androids_form(library: Path) -> None:
    call = call_in(library, "caller")
    log = (
        "==7==ERROR: HWAddressSanitizer: tag-mismatch on address 0x0042e7e0ff04 at pc 0x7a\n"
        "READ of size 4 at 0x0042e7e0ff04 tags: 98/3b (ptr/mem) in thread T0\n"
        f"    #0 pc {call:016x}  {library} (BuildId: {BUILD_ID})\n\n"
        "SUMMARY: HWAddressSanitizer: tag-mismatch\n"
    )

    (reading,), outcome = look_up(log)

    assert [name for _, name, _ in places(reading)] == ["twice", "caller"]
    assert outcome.proved == 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the restorer's code is x86-64's")
def test_a_frame_that_a_signal_interrupted_is_not_a_call(tmp_path: Path) -> None:
    library = build(tmp_path, source=RESTORER + SOURCE)
    listing = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    restorer = next(row.split()[0] for row in listing.splitlines() if row.endswith(" restorer"))
    # One byte earlier ends the function before: only the exact address is in `caller`.
    interrupted = start_of(library, "caller")
    log = (
        "*** GWP-ASan detected a memory error ***\n"
        "Use After Free at 0x7feccab26000 (0 bytes into a 41-byte allocation at 0x7feccab26000) "
        "by thread 31027 here:\n"
        f"  #0 {library}(+0x{int(restorer, 16):x}) [0x55585c0afa55]\n"
        f"  #1 {library}(+0x{interrupted:x}) [0x55585c0afa56]\n\n*** End GWP-ASan report ***\n"
    )

    (reading,), _ = look_up(log)

    assert frames_of(reading)[1].function == "caller"


def test_a_name_without_a_place_gets_one(library: Path) -> None:
    call = call_in(library, "caller")

    (reading,), outcome = look_up(asan(f"in caller ({library}+0x{call:x}) (BuildId: {BUILD_ID})"))

    assert places(reading) == [(0, "twice", 7), (0, "caller", 11)]
    assert outcome.asked == outcome.proved == 1


def test_what_the_log_names_is_not_changed(library: Path) -> None:
    log = asan("in printed /src/a.c:3:4", "in main (/nowhere/a.out+0x1234)")

    (reading,), outcome = look_up(log)

    assert places(reading) == [(0, "printed", 3), (1, "main", None)]
    assert outcome.asked == 0


def test_what_stays_without_a_name_is_counted_with_the_reason(library: Path) -> None:
    log = asan(
        " (<unknown module>)",
        " (/nowhere/b.so+0x10)",
        " (/nowhere/b.so+0x20)",
        f" ({library}+0x1) (BuildId: {BUILD_ID})",
        f" ({library}+0x10) (BuildId: 00112233)",
    )

    (reading,), outcome = look_up(log)

    assert not any(frame.symbolized for frame in frames_of(reading))
    assert outcome.asked == 5
    why = {(left.module, left.why.partition(":")[0]): left.frames for left in outcome.left}
    assert why == {
        (None, "the runtime could not say which module"): 1,
        ("/nowhere/b.so", "it is not on this machine"): 2,
        (str(library), "the offset lies outside of its code"): 1,
        (str(library), "rebuilt since"): 1,
    }


def test_a_missing_symbolizer_is_the_reason(library: Path) -> None:
    symbolizer = Symbolizer(programs=[])

    _, outcome = look_up(asan(f" ({library}+0x10)"), symbolizer=symbolizer)

    assert outcome.left == (
        LeftModule(
            module=str(library),
            frames=1,
            why="no symbolizer is installed",
            remedy=outcome.left[0].remedy,
        ),
    )
    assert "apt-get install llvm" in outcome.left[0].remedy


def test_a_thousand_frames_in_ten_modules_are_ten_processes(library: Path, tmp_path: Path) -> None:
    best = installed_symbolizers()[0]
    calls = tmp_path / "calls"
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho >> {calls}\nexec {best.path} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    program = SymbolizerProgram(
        name="wrapper", path=str(wrapper), form=best.form, arguments=best.arguments
    )
    copies = [tmp_path / f"lib{number}.so" for number in range(10)]
    for copy in copies:
        copy.write_bytes(library.read_bytes())
    leaf = start_of(library, "leaf")
    # Ten logs of ten stacks, each with ten frames.
    rows = [
        f" ({copy}+0x{leaf + at % 8:x}) (BuildId: {BUILD_ID})" for at, copy in enumerate(copies)
    ]
    logs = ["".join(asan(*rows).replace("==7==", f"=={pid}==") for pid in range(10))] * 10

    _, outcome = look_up(*logs, symbolizer=Symbolizer(programs=[program]))

    assert outcome.proved == 1000
    assert calls.read_text(encoding="utf-8").count("\n") == 10
