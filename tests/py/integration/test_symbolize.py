"""Frames that a runtime left without names get the ones that it prints where it has a symbolizer.

Each program runs twice, with `symbolize=0` and with `symbolize=1`; the second log is the judge.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from vllm_forensics.capture.symbolizer import installed_symbolizers
from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.diagnosis.sanitizer.names import stable_name
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.investigate.sanitizer_locations import with_locations
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.model.locations import Symbolization
from vllm_forensics.model.sanitizer import LogReading, PrintedFrame, PrintedReport

pytestmark = pytest.mark.asan

SOURCES = Path(__file__).parent / "symbolized"
OPTIONS = "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "MSAN_OPTIONS"
Place = tuple[str | None, str | None, int | None]


def compile_program(folder: Path, compiler: str, *options: str) -> Path:
    """The program with its library, each with the same options."""
    library, program = folder / "liblibrary.so", folder / "program"
    shared = [option for option in options if option not in {"-pie", "-no-pie"}]
    common = ["-g", "-std=c++17", "-pthread"]
    for arguments in (
        [*common, *shared, "-fPIC", "-shared", SOURCES / "library.cpp", "-o", library],
        [*common, *options, "-DWITH_LIBRARY", SOURCES / "program.cpp", library, "-o", program],
    ):
        subprocess.run([compiler, *map(str, arguments)], check=True)
    return program


def run(program: Path, fault: str, *, symbolize: bool) -> bytes:
    """What the runtime prints."""
    options = f"symbolize={int(symbolize)}:print_stacktrace=1:detect_leaks=0"
    done = subprocess.run(
        ["setarch", "-R", program, fault],
        env=os.environ | dict.fromkeys(OPTIONS, options),
        capture_output=True,
        timeout=120,
        check=False,
    )
    return done.stderr


def reading(log: bytes) -> LogReading:
    found = parse_sanitizer_log([log])
    assert found.reports, log.decode()
    return found


def symbolized(log: bytes) -> tuple[tuple[PrintedReport, ...], Symbolization]:
    (named,), outcome = with_locations([reading(log)], Symbolizer())
    return named.reports, outcome


def place(frame: PrintedFrame) -> Place:
    """What both logs must agree on. Paths of system headers are spelt in several ways."""
    name = stable_name(frame.function) if frame.function else None
    file = frame.file.rpartition("/")[2] if frame.file else None
    return name, file, frame.line


def own_places(report: PrintedReport) -> list[list[Place]]:
    """The places in our two sources, stack by stack; the runtimes disagree about their own."""
    return [
        [
            place(frame)
            for frame in event.frames
            if (frame.file or "").endswith(("program.cpp", "library.cpp"))
        ]
        for event in report.chain
    ]


def compare(program: Path, fault: str) -> Symbolization:
    """Both copies of one crash are told alike."""
    bare, twin = run(program, fault, symbolize=False), run(program, fault, symbolize=True)
    assert not any(frame.file for event in reading(bare).reports[0].chain for frame in event.frames)

    reports, outcome = symbolized(bare)

    expected = reading(twin).reports
    assert own_places(expected[0])[0]
    assert [own_places(report) for report in reports] == [own_places(each) for each in expected]
    named, judge = explain_report(reports[0]), explain_report(expected[0])
    assert named.signature == judge.signature
    assert named.culprit is not None
    assert judge.culprit is not None
    assert (named.culprit.file, named.culprit.line) == (judge.culprit.file, judge.culprit.line)
    return outcome


@pytest.mark.parametrize("position", ["-pie", "-no-pie"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_addresssanitizer(compiler: str, level: str, position: str, tmp_path: Path) -> None:
    program = compile_program(tmp_path, compiler, level, position, "-fsanitize=address")

    outcomes = [compare(program, fault) for fault in ("use-after-free", "library")]

    # GCC 12's runtimes print no BuildId; clang's do.
    proved = [outcome.likely == 0 and outcome.proved > 0 for outcome in outcomes]
    has_ids = b"BuildId" in run(program, "library", symbolize=False)
    assert proved == [has_ids, has_ids]


@pytest.mark.parametrize(
    ("compiler", "sanitizer", "fault"),
    [
        ("g++", "thread", "race"),
        ("clang++", "thread", "race"),
        ("g++", "undefined", "overflow"),
        ("clang++", "undefined", "overflow"),
        ("clang++", "memory", "uninitialized"),
    ],
)
def test_other_runtimes(compiler: str, sanitizer: str, fault: str, tmp_path: Path) -> None:
    level = "-O0" if sanitizer == "undefined" else "-O2"
    program = compile_program(tmp_path, compiler, level, f"-fsanitize={sanitizer}")

    outcome = compare(program, fault)

    assert outcome.proved + outcome.likely > 0


def test_a_program_that_was_rebuilt_gives_no_names(tmp_path: Path) -> None:
    options = "-O0", "-fsanitize=address", "-Wl,--build-id"
    program = compile_program(tmp_path, "clang++", *options)
    log = run(program, "use-after-free", symbolize=False)
    compile_program(tmp_path, "clang++", *options, "-DREBUILT=1", "-O1")

    reports, outcome = symbolized(log)

    assert not any(own_places(reports[0]))
    (left,) = [left for left in outcome.left if left.module == str(program)]
    assert re.fullmatch(
        r"rebuilt since: BuildId [0-9a-f]{40} in the log, [0-9a-f]{40} in the file", left.why
    )


def test_without_build_ids_a_rebuilt_program_is_known_by_its_calls(tmp_path: Path) -> None:
    program = compile_program(tmp_path, "g++", "-O0", "-fsanitize=address")
    log = re.sub(rb" \(BuildId: [0-9a-f]+\)", b"", run(program, "library", symbolize=False))
    compile_program(tmp_path, "g++", "-O2", "-fsanitize=address")

    reports, outcome = symbolized(log)
    assert not any(own_places(reports[0]))
    why = {
        left.why.partition(" at ")[0] for left in outcome.left if str(tmp_path) in str(left.module)
    }
    assert why == {"rebuilt since: no call stands"}


def test_glibcs_return_addresses_lead_to_the_call(tmp_path: Path) -> None:
    source = tmp_path / "trace.c"
    source.write_text(
        "#include <execinfo.h>\n"
        "static __attribute__((noinline)) void show(void)\n"
        "{\n"
        "  void *at[8];\n"
        "  backtrace_symbols_fd(at, backtrace(at, 8), 2);\n"
        "}\n"
        "static __attribute__((noinline, noreturn)) void leave(void)\n"
        "{\n"
        "  show(); __builtin_exit(0);\n"
        "}\n"
        "int main(void) { leave(); }\n"
        "int behind;\n",
        encoding="utf-8",
    )
    program = tmp_path / "trace"
    subprocess.run(["gcc", "-g", "-O0", source, "-o", program], check=True)
    lines = subprocess.run([program], capture_output=True, check=True).stderr.decode().splitlines()
    frames = "\n".join(f"  #{number} {line}" for number, line in enumerate(lines))
    log = (
        "*** GWP-ASan detected a memory error ***\n"
        "Use After Free at 0x7feccab26000 (0 bytes into a 41-byte allocation at 0x7feccab26000) "
        f"by thread 31027 here:\n{frames}\n\n*** End GWP-ASan report ***\n"
    )

    reports, _ = symbolized(log.encode())

    assert own_names(reports[0])[:3] == [("show", 5), ("leave", 9), ("main", 11)]


def own_names(report: PrintedReport) -> list[tuple[str | None, int | None]]:
    return [(frame.function, frame.line) for frame in report.chain[0].frames]


def test_the_installed_symbolizer_is_the_exact_one() -> None:
    assert installed_symbolizers()[0].is_exact
