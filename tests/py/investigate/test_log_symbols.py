"""Offsets of logs, named by modules that are given: real libraries, crashed by real programs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from vllm_forensics.cli.commands.log import command
from vllm_forensics.evidence.modules import parse_module

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/forensics.incident.1.json").read_text(encoding="utf-8"))
BUILD_ID = "abcdef0123456789"
SOURCE = """\
#include <stdio.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
static void on_fault(int number) {
  void* calls[32];
  fprintf(stderr, "*** SIGSEGV received at time=1768464765 on cpu 1 ***\\n");
  backtrace_symbols_fd(calls, backtrace(calls, 32), 2);
  signal(number, SIG_DFL);
  raise(number);
}
static __attribute__((noinline)) int fall(int* volatile where) {
  *where = 1;  /* line 13 */
  return *where;
}
int serve(int* where) {
  signal(SIGSEGV, on_fault);
  return fall(where) + 1;  /* line 18 */
}
"""


def build(folder: Path, *flags: str, build_id: str = BUILD_ID) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "engine.c"
    source.write_text(SOURCE, encoding="utf-8")
    path = folder / "libengine.so"
    command = ["gcc", "-g", "-O1", "-shared", "-fPIC", f"-Wl,--build-id=0x{build_id}", *flags]
    subprocess.run([*command, source, "-o", path], check=True)
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


def run_json(*arguments: str | Path) -> dict[str, Any]:
    result = CliRunner().invoke(
        command, ["--format", "json", *(str(argument) for argument in arguments)]
    )
    assert result.exit_code == 1, result.output
    answer: dict[str, Any] = json.loads(result.output)
    jsonschema.validate(answer, SCHEMA)
    return answer


def first_death(*arguments: str | Path) -> dict[str, Any]:
    death = run_json(*arguments)["incidents"][0]["first_death"]
    assert isinstance(death, dict)
    return death


def offset_of(library: Path, function: str) -> int:
    symbol = parse_module(memoryview(library.read_bytes())).symbol_named(function)
    assert symbol is not None
    return symbol.address


def kernels_line(library: Path, offset: int, *, says_place: bool) -> str:
    """What the kernel would print, had the library been at 0x7f0000000000."""
    text = parse_module(memoryview(library.read_bytes()))
    [code] = [one for one in text.segments if one.type == 1 and one.flags & 1]
    page = code.address // 4096 * 4096
    size = -(-(code.address % 4096 + code.file_size) // 4096) * 4096
    start = 0x7F0000000000 + page
    place = f"{offset - code.address + code.offset:x}," if says_place else ""
    return (
        f"[ 8421.1] serve[7]: segfault at 18 ip {0x7F0000000000 + offset:016x} sp 00007ffd3c0 "
        f"error 6 in libengine.so[{place}{start:x}+{size:x}]\n"
    )


@pytest.mark.parametrize("says_place", [False, True], ids=["until 5.17", "from 5.18 on"])
def test_the_kernels_numbers_become_a_line(library: Path, tmp_path: Path, says_place: bool) -> None:
    log = tmp_path / "dmesg"
    offset = offset_of(library, "serve")
    log.write_text(kernels_line(library, offset, says_place=says_place))

    bare, named = first_death(log), first_death("--symbols", library.parent, log)

    assert (bare["module"], bare["function"]) == ("libengine.so", None)
    assert (named["module"], named["function"]) == ("libengine.so", "serve")
    assert named["file"].endswith("engine.c")
    assert named["line"] == 16
    assert named["symbolized"] == "likely"


def test_a_real_backtrace_of_a_stripped_library_is_named(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "libengine.so"
    subprocess.run(["strip", "--strip-all", "-o", stripped, library], check=True)
    script = f"import ctypes; ctypes.CDLL({str(stripped)!r}).serve(None)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    log = tmp_path / "serve.log"
    log.write_bytes(done.stderr)

    bare, named = first_death(log), first_death("--symbols", library.parent, log)

    assert done.returncode == -11
    assert bare["function"] != "fall"
    assert named["function"] == "fall"
    assert named["line"] in {12, 13}


def test_the_c_stack_of_python_3_14_is_named(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    at = offset_of(library, "serve") + 1
    log.write_text(
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread's C stack trace (most recent call first):\n"
        f'  Binary file "/opt/app/libengine.so", at +{at:#x} [0x7f0000001234]\n'
    )

    named = first_death("--symbols", library, log)

    assert (named["function"], named["symbolized"]) == ("serve", "likely")


def test_a_build_id_in_the_log_proves_it(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "asan.log"
    at = offset_of(library, "serve")
    log.write_text(
        "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000018 (pc 0x7f0000001234 "
        "bp 0x1 sp 0x2 T0)\n==7==The signal is caused by a WRITE memory access.\n"
        f"    #0 0x7f0000001234  (/opt/libengine.so+{at:#x}) (BuildId: {BUILD_ID})\n"
    )

    named = first_death("--symbols", library, log)

    assert (named["function"], named["symbolized"]) == ("serve", "proved")


def test_two_builds_of_one_name_are_not_chosen_from(library: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "other", "-O2", build_id="1234567890abcdef")
    log = tmp_path / "dmesg"
    log.write_text(kernels_line(library, offset_of(library, "serve"), says_place=True))

    answer = run_json("--symbols", library, "--symbols", other, log)

    assert answer["incidents"][0]["first_death"]["function"] is None
    [left] = answer["symbolization"]["left"]
    assert "2 builds of it were given" in left["why"]


def test_numbers_that_do_not_fit_the_file_name_nothing(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "dmesg"
    log.write_text(
        "[ 8421.1] serve[7]: segfault at 18 ip 00007f0000fff000 sp 00007ffd3c0 error 6 in "
        "libengine.so[7f0000000000+fff000]\n"
    )

    answer = run_json("--symbols", library, log)

    assert answer["incidents"][0]["first_death"]["function"] is None
    assert "do not fit" in answer["symbolization"]["left"][0]["why"]


def test_the_text_says_that_it_is_likely_and_what_is_left(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "dmesg"
    log.write_text(kernels_line(library, offset_of(library, "serve"), says_place=True))

    text = CliRunner().invoke(command, ["--symbols", str(library), str(log)]).output

    assert "engine.c:16, likely: no build-id proves" in " ".join(text.split())
    assert "1 of 1 frame named from files here: 1 likely" in " ".join(text.split())
