"""What misleads other tools: each trap is sprung for real."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from tests.py.integration.crashes import (
    DEEP_FLAGS,
    FALLING,
    FALLING_FUNCTION,
    FALLING_LINE,
    RECURSION,
    SPARSE,
    THREADS,
    compile_program,
    leave_core,
)
from tests.py.integration.tool import Json, forensics, forensics_core, triage_in_process
from tests.py.integration.victim_cases import run_tool

pytestmark = pytest.mark.gdb

PYTHON = sys.executable
INTERPRETER = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY"))
if INTERPRETER.suffix == ".a" or not INTERPRETER.is_file():
    INTERPRETER = Path(PYTHON).resolve()
MIB = 1 << 20
GIB = 1 << 30


def crashed_thread(crash: Json) -> Json:
    thread = crash["threads"][0]
    assert isinstance(thread, dict)
    assert thread["crashed"]
    return thread


def functions(crash: Json) -> list[str | None]:
    return [frame["function"] for frame in crashed_thread(crash)["frames"]]


def the_crash(core: Path) -> Json:
    [crash] = triage_in_process(core)["crashes"]
    assert isinstance(crash, dict)
    return crash


# Extensions and Python.

EXTENSION = """\
#ifndef NAME
#define NAME scatter
#endif
struct Cache { char padding[0x40]; long slots; };
extern "C" long NAME(Cache* cache) {
  return cache->slots;  // line 6
}
extern "C" long run(Cache* cache) { return NAME(cache) + 1; }
"""


def python_crash(code: str, folder: Path, *options: str, dies_of: signal.Signals) -> Path:
    return leave_core([PYTHON, *options, "-c", code], folder, dies_of=dies_of)


def test_an_extension_rebuilt_after_the_crash_is_not_believed(tmp_path: Path) -> None:
    library = compile_program(EXTENSION, tmp_path / "libcache.so", "-shared", "-fPIC")
    code = f"import ctypes; ctypes.CDLL({str(library)!r}).run(None)"
    core = python_crash(code, tmp_path / "crash", dies_of=signal.SIGSEGV)
    before = the_crash(core)
    library.unlink()
    compile_program(EXTENSION, library, "-shared", "-fPIC", "-DNAME=gather", "-O0")

    after = the_crash(core)

    assert (before["culprit"]["function"], before["culprit"]["line"]) == ("scatter", 6)
    assert after["fault"]["kind"] == before["fault"]["kind"] == "null-dereference"
    assert after["fault"]["address"] == before["fault"]["address"] == "0x40"
    assert after["culprit"]["module"] == str(library)
    assert after["culprit"]["module_offset"] == before["culprit"]["module_offset"]
    assert after["culprit"]["function"] is None
    assert "gather" not in functions(after)
    assert any("rebuilt" in gap["what"] for gap in after["gaps"])


def handlers_name() -> str:
    """faulthandler's own function; it jumps to raise(), so that only its data can tell."""
    listed = subprocess.run(("nm", str(INTERPRETER)), capture_output=True, text=True, check=False)
    known = "faulthandler_handlers" in listed.stdout
    return "faulthandler_fatal_error" if known else "a signal handler"


def test_a_fault_behind_faulthandler_is_the_first_one(tmp_path: Path) -> None:
    code = "import ctypes; ctypes.string_at(0x10)"
    core = python_crash(code, tmp_path, "-X", "faulthandler", dies_of=signal.SIGSEGV)

    crash = the_crash(core)

    assert crash["signal"]["code"] == "SEGV_MAPERR"
    assert crash["delivered"]["code"] == "SI_TKILL"
    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["access"] == "read"
    assert crash["fault"]["address"] == "0x10"
    assert crash["reraised_by"] == handlers_name()
    assert "signal" in {frame["kind"] for frame in crashed_thread(crash)["frames"]}
    assert "SEGV_MAPERR" in " ".join(crash["proof"])


def test_an_abort_behind_faulthandler_is_no_second_fault(tmp_path: Path) -> None:
    core = python_crash(
        "import os; os.abort()", tmp_path, "-X", "faulthandler", dies_of=signal.SIGABRT
    )

    crash = the_crash(core)

    assert crash["signal"]["name"] == "SIGABRT"
    assert crash["fault"]["kind"] == "abort"
    assert crash["reraised_by"] == handlers_name()
    assert "signal" in {frame["kind"] for frame in crashed_thread(crash)["frames"]}


SPECIMEN = """
from vllm_forensics import _native as native
policies = native.Policies(
    reclaim=native.ReclaimPolicy.reset_only, access=native.AccessPolicy.unchecked
)
shape = native.CacheShape(block_size=4, num_layers=2, num_heads=2, head_size=8)
"""


@pytest.mark.parametrize("handler", [(), ("-X", "faulthandler")], ids=["plain", "faulthandler"])
@pytest.mark.parametrize(
    "call",
    [
        "worker = native.CPUWorker(shape, policies); worker.initialize_cache(4)\n"
        "cache = worker.device_cache; first = cache.allocator.allocate()\n"
        "cache.allocator.free(first); worker.copy([(first, cache.allocator.allocate())])",
        "cache = native.PagedKVCache(4, shape, policies); first = cache.allocator.allocate()\n"
        "cache.allocator.free(first); cache.copy_blocks([(first, cache.allocator.allocate())])",
    ],
    ids=["worker", "cache"],
)
def test_a_crash_in_the_native_module_is_explained(
    tmp_path: Path, call: str, handler: tuple[str, ...]
) -> None:
    core = python_crash(SPECIMEN + call, tmp_path, *handler, dies_of=signal.SIGSEGV)

    crash = the_crash(core)

    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["access"] == "read"
    assert crash["culprit"]["function"].startswith("vllm::")
    assert crash["culprit"]["file"].endswith((".cpp", ".h"))
    assert crash["culprit"]["line"] > 0
    assert "_native" in Path(crash["culprit"]["module"]).name
    assert bool(crash["reraised_by"]) == bool(handler)


def test_a_fatal_python_error_carries_its_message(tmp_path: Path) -> None:
    code = "import ctypes; ctypes.pythonapi.Py_FatalError(b'the cache is beside itself')"
    core = python_crash(code, tmp_path, dies_of=signal.SIGABRT)

    crash = the_crash(core)

    assert crash["fault"]["kind"] == "fatal-python-error"
    assert "the cache is beside itself" in crash["fault"]["message"]


NATIVE_THREAD = """\
#include <thread>
struct Request { char padding[0x38]; long tokens; };
extern "C" __attribute__((noinline)) long count_tokens(Request* volatile request) {
  return request->tokens;  // line 4
}
extern "C" long start(Request* request) {
  long found = 0;
  std::thread worker([&] { found = count_tokens(request); });
  worker.join();
  return found;
}
"""


def test_a_crash_in_a_native_thread_of_python_comes_first(tmp_path: Path) -> None:
    library = compile_program(NATIVE_THREAD, tmp_path / "libworker.so", "-shared", "-fPIC")
    code = f"import ctypes; ctypes.CDLL({str(library)!r}).start(None)"
    core = python_crash(code, tmp_path / "crash", dies_of=signal.SIGSEGV)

    crash = the_crash(core)

    assert crashed_thread(crash)["id"] != crash["pid"]
    assert functions(crash)[0] == "count_tokens"
    assert (crash["culprit"]["function"], crash["culprit"]["line"]) == ("count_tokens", 4)
    assert [thread["crashed"] for thread in crash["threads"]].count(True) == 1
    assert crash["pid"] in {thread["id"] for thread in crash["threads"]}


# Size.


def test_a_hundred_thousand_frames_are_bounded(tmp_path: Path) -> None:
    program = compile_program(RECURSION, tmp_path / "deep", *DEEP_FLAGS)
    core = leave_core(["prlimit", f"--stack={8 * MIB}:", program], tmp_path / "crash")

    started = time.monotonic()
    crash = the_crash(core)
    took_s = time.monotonic() - started

    thread = crashed_thread(crash)
    assert crash["fault"]["kind"] == "stack-overflow"
    assert took_s < 20
    assert len(thread["frames"]) <= 200
    assert thread["recursion"]["period"] == 2
    assert thread["recursion"]["count"] * thread["recursion"]["period"] > 100_000
    assert {"climb", "descend"} <= set(functions(crash)[:4])


def test_one_of_two_hundred_threads_is_found(tmp_path: Path) -> None:
    program = compile_program(THREADS, tmp_path / "crowd")
    core = leave_core([program], tmp_path / "crash")

    started = time.monotonic()
    crash = the_crash(core)
    took_s = time.monotonic() - started

    assert len(crash["threads"]) == 202
    assert functions(crash)[0] == "write_late"
    assert (crash["culprit"]["function"], crash["culprit"]["line"]) == ("write_late", 5)
    assert crash["fault"]["address"] == "0x7000"
    assert took_s < 20


# Runs its arguments and tells the largest resident set of them and their children, in KiB.
MEASURE = (
    "import resource, subprocess, sys; status = subprocess.run(sys.argv[1:]).returncode; "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); "
    "sys.exit(status)"
)


def test_a_sparse_core_of_sixteen_gigabytes_takes_little_memory(tmp_path: Path) -> None:
    program = compile_program(SPARSE, tmp_path / "sparse")
    core = leave_core([program], tmp_path / "crash")
    size = core.stat()

    started = time.monotonic()
    answer = forensics("core", "--format", "json", core, before=(PYTHON, "-c", MEASURE))
    took_s = time.monotonic() - started

    assert size.st_size > 16 * GIB
    assert size.st_blocks * 512 < 64 * MIB
    assert answer.crash["fault"]["kind"] == "wild-pointer"
    assert answer.crash["fault"]["address"] == "0x123456780000"
    assert answer.crash["culprit"]["line"] == 10
    assert int(answer.stderr.splitlines()[-1]) * 1024 < 400 * MIB
    assert took_s < 20


# Who wrote the core.


def test_a_core_that_gdb_wrote_is_read(tmp_path: Path) -> None:
    program = compile_program(FALLING, tmp_path / "faller")
    core = tmp_path / "core.gdb"
    commands = ("set startup-with-shell off", "run", f"generate-core-file {core}", "kill")
    options = [part for command in commands for part in ("-ex", command)]
    run_tool(("gdb", "-nx", "-q", "-batch", *options, "--args", str(program)))

    crash = forensics_core(core).crash

    assert crash["signal"]["name"] == "SIGSEGV"
    assert crash["signal"]["code"] == "SEGV_MAPERR"
    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["access"] == "write"
    assert crash["fault"]["address"] == "0x18"
    assert crash["culprit"]["function"] == FALLING_FUNCTION
    assert crash["culprit"]["line"] == FALLING_LINE


STALE = """\
#include <cstring>
#include <memory>
__attribute__((noinline)) long read_stale(const long* volatile numbers) {
  return numbers[2];  // line 4
}
int main() {
  auto numbers = std::make_unique<long[]>(8);
  const long* stale = numbers.get();
  numbers.reset();
  return static_cast<int>(read_stale(stale));
}
"""


@pytest.mark.asan
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_sanitizer_that_aborts_is_named(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / "stale.cpp"
    source.write_text(STALE)
    program = tmp_path / "stale"
    run_tool((compiler, "-g", "-O1", "-fsanitize=address", str(source), "-o", str(program)))
    options = {"ASAN_OPTIONS": "abort_on_error=1:disable_coredump=0:detect_leaks=0"}
    core = leave_core([program], tmp_path / "crash", environment=options, dies_of=signal.SIGABRT)

    crash = the_crash(core)

    assert crash["signal"]["name"] == "SIGABRT"
    assert crash["fault"]["kind"] == "sanitizer-abort"
    assert "AddressSanitizer: heap-use-after-free" in crash["fault"]["message"]
    assert (crash["culprit"]["function"], crash["culprit"]["line"]) == ("read_stale", 4)


def test_a_program_that_removed_itself_is_said_so(tmp_path: Path) -> None:
    program = compile_program(FALLING, tmp_path / "faller")
    kept = tmp_path / "kept"
    shutil.copy2(program, kept)
    core = leave_core([program, program], tmp_path / "crash", environment={"UNLINK": "1"})

    crash = the_crash(core)
    kept.rename(program)
    put_back = the_crash(core)

    assert crash["culprit"]["function"] is None
    assert crash["culprit"]["module_offset"] is not None
    assert any("deleted" in gap["what"] for gap in crash["gaps"])
    assert put_back["culprit"]["function"] == FALLING_FUNCTION
    assert put_back["culprit"]["line"] == FALLING_LINE


def test_the_tool_leaves_no_process_behind(tmp_path: Path) -> None:
    program = compile_program(FALLING, tmp_path / "faller")
    core = leave_core([program], tmp_path / "crash")

    forensics_core(core)

    listed = subprocess.run(("ps", "-eo", "args"), capture_output=True, text=True, check=True)
    assert str(core) not in listed.stdout
    assert os.fspath(tmp_path) not in listed.stdout
